from collections import Counter

import pytest

from gastricx_hf.cases.indicators import TASKS, indicator, labs, load_indicators, make_lab, reference_range, safe_for
from gastricx_hf.schema import Lab

GROUPS = {  # Table 8 as printed, counted by hand
    "Demographics": 8,
    "CBC": 8,
    "Biochemistry": 10,
    "Tumor Markers": 8,
    "Surgery Details": 10,
    "Surgical and Admission Info": 24,
    "Tumor Anatomy and Pathology": 22,
    "Staging and Lymph Nodes": 6,
    "Molecular and IHC": 10,
    "Complications and Outcomes": 11,
}


def test_all_117_items_in_the_printed_order():
    items = load_indicators()
    assert Counter(i.group for i in items) == GROUPS
    assert list(dict.fromkeys(i.group for i in items)) == list(GROUPS)
    assert len({i.name for i in items}) == len(items) == 117
    assert (items[0].name, items[-1].name) == ("Hospital ID (De-ID)", "Complication Notes")


def test_twelve_printed_de_id_marks_and_five_missing_ones():
    marks = Counter(i.deidentify for i in load_indicators())
    assert marks == {"printed": 12, "unmarked": 5, "no": 100}
    assert all(("(De-ID)" in i.name) == (i.deidentify == "printed") for i in load_indicators())
    assert indicator("Surgery Date").deidentify == "unmarked"


def test_misplaced_headings_are_corrected():
    moved = {i.name: (i.group, i.true_group) for i in load_indicators() if i.group != i.true_group}
    assert moved["Biochemistry Urea (BUN)"] == ("Tumor Markers", "Biochemistry")
    assert moved["Occupation"] == ("Surgery Details", "Demographics")
    assert moved["Endoscopy Gross Type"] == ("Surgical and Admission Info", "Endoscopy")
    assert "CBC Hemoglobin" not in moved


def test_the_labs_are_7_blood_counts_10_analytes_5_markers():
    assert Counter(i.true_group for i in labs()) == {"CBC": 7, "Biochemistry": 10, "Tumor Markers": 5}  # facts.md I10, I11
    for item in labs():
        assert item.before_surgery
        assert item.unit
        assert item.reference
        assert not item.gives_away


def test_every_range_is_in_order_and_has_a_source():
    for i in load_indicators():
        for low, high in ((i.lower, i.upper), (i.lower_female, i.upper_female)):
            assert low is None or high is None or low < high, i.name
        assert bool(i.reference) == ((i.lower, i.upper) != (None, None)), i.name
        if i.sex_specific:
            assert ((i.lower is None), (i.upper is None)) == ((i.lower_female is None), (i.upper_female is None)), i.name


def test_ranges_by_sex():
    assert reference_range("CBC Hemoglobin", "male") == (130, 175)  # WS/T 405-2012
    assert reference_range("CBC Hemoglobin", "female") == (115, 150)
    assert reference_range("CBC Hemoglobin", None) == (115, 175)
    assert reference_range("Tumor Markers CEA", "female") == reference_range("Tumor Markers CEA", "male") == (None, 5)
    assert reference_range("Biochemistry Total Bilirubin", None) == (None, 26)  # WS/T 404.4-2018
    assert reference_range("Biochemistry Total Bilirubin", "female") == (None, 21)
    assert reference_range("Tumor Markers CA724", None) == (None, 6.9)
    with pytest.raises(ValueError, match="sex 'F': expected"):
        reference_range("CBC Hemoglobin", "F")


def test_make_lab():
    assert make_lab("CBC Hemoglobin", 98, "female") == Lab("CBC Hemoglobin", 98.0, "g/L", 115, 150, True)
    assert make_lab("Tumor Markers CEA", None, "male").value is None
    with pytest.raises(ValueError, match="'Overall Stage' is not a laboratory value"):
        make_lab("Overall Stage", 3, "male")


def test_lookup_tolerates_the_mark_and_helps_with_typing_errors():
    assert indicator("Age") is indicator("Age (De-ID)")
    assert indicator("Surgery Date") is not indicator("Surgery Date (De-ID)")
    with pytest.raises(ValueError, match=r"unknown record item 'Tumor Marker CEA': nearest are .*'Tumor Markers CEA'"):
        indicator("Tumor Marker CEA")


@pytest.mark.parametrize("task", TASKS)
def test_what_a_task_may_see(task):
    safe = set(safe_for(task))
    assert {i.name for i in labs()} | {"Sex", "Age (De-ID)"} <= safe
    after_surgery = {"T Stage", "N Stage", "M Stage", "Overall Stage", "Positive Lymph Nodes", "Histologic Grade", "Fever Days"}
    assert not safe & (after_surgery | {"Patient Name (De-ID)", "Imaging ID", "CBC Test Date", "Surgery Date"})
    assert ("CT Description" in safe) == (task == "phase_classification")


def test_staging_items_give_the_stage_away():
    for name in ("T Stage", "N Stage", "M Stage", "Overall Stage", "Positive Lymph Nodes", "Liver Metastasis", "Serosal Invasion"):
        assert "stage_classification" in indicator(name).gives_away
    assert "Endoscopy Tumor Location" not in safe_for("lesion_detection")
    assert {task for i in load_indicators() for task in i.gives_away} <= set(TASKS)
    with pytest.raises(ValueError, match="unknown task 'staging'"):
        safe_for("staging")
