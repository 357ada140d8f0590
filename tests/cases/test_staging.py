import pytest

from gastricx_hf.cases.staging import (
    LABELS,
    label_space,
    overall_stage,
    parse_label,
    parse_m,
    parse_n,
    parse_stage,
    parse_t,
    possible_stages,
)

# AJCC 8th edition, pathological prognostic stage groups, written out stage by stage as the manual lists them.
PTNM = {
    "0": "Tis N0",
    "IA": "T1 N0",
    "IB": "T1 N1, T2 N0",
    "IIA": "T1 N2, T2 N1, T3 N0",
    "IIB": "T1 N3a, T2 N2, T3 N1, T4a N0",
    "IIIA": "T2 N3a, T3 N2, T4a N1, T4a N2, T4b N0",
    "IIIB": "T1 N3b, T2 N3b, T3 N3a, T4a N3a, T4b N1, T4b N2",
    "IIIC": "T3 N3b, T4a N3b, T4b N3a, T4b N3b",
}
ROWS = [(*pair.split(), stage) for stage, pairs in PTNM.items() for pair in pairs.split(", ")]


def test_the_hand_written_table_is_complete():
    assert len({(t, n) for t, n, _ in ROWS}) == len(ROWS) == 26


@pytest.mark.parametrize(("t", "n", "stage"), ROWS)
def test_every_row_of_the_manual(t, n, stage):
    assert overall_stage(t, n, "M0", substages=True) == stage
    assert overall_stage(t, n, "M0") == stage.rstrip("ABC")
    assert overall_stage(t, n, "M1") == overall_stage(t, n, "M1", substages=True) == "IV"


def test_any_t_any_n_with_m1_is_four():
    assert overall_stage("TX", "NX", "M1") == overall_stage("T0", "N0", "M1") == "IV"


def test_missing_letters_take_the_lower_stage_or_are_refused():
    assert possible_stages("T4", "N0", "M0") == ("II", "III")
    assert overall_stage("T4", "N0", "M0") == "II"
    assert possible_stages("T1", "N3", "M0", substages=True) == ("IIB", "IIIB")
    assert possible_stages("T4", "N3", "M0", substages=True) == ("IIIB", "IIIC")
    with pytest.raises(ValueError, match="could be stage II or III: give the letter"):
        overall_stage("T4", "N0", "M0", ambiguous="error")
    assert overall_stage("T4", "N1", "M0", ambiguous="error") == "III"  # the letter does not matter once merged
    with pytest.raises(ValueError, match="expected 'lower' or 'error'"):
        overall_stage("T4", "N1", "M0", ambiguous="upper")


@pytest.mark.parametrize(
    ("t", "n", "m"), [("TX", "N0", "M0"), ("T0", "N0", "M0"), ("Tis", "N1", "M0"), ("T2", "NX", "M0"), ("T2", "N0", "MX")]
)
def test_what_has_no_group_is_refused(t, n, m):
    with pytest.raises(ValueError, match="no AJCC 8 stage group"):
        overall_stage(t, n, m)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pT3", "T3"),
        (" t4A ", "T4a"),
        ("ypT1b", "T1b"),
        ("4b", "T4b"),
        ("TIS", "Tis"),
        ("Tx", "TX"),
        ("Ｔ２", "T2"),
        ("T3期", "T3"),
        ("cT 4", "T4"),
    ],
)
def test_t_is_read_tolerantly(text, expected):
    assert parse_t(text) == expected


def test_n_and_m_are_read_tolerantly():
    assert [parse_n(x) for x in ("pN3A", "n0", "2", "NX", "N 1")] == ["N3a", "N0", "N2", "NX", "N1"]
    assert [parse_m(x) for x in ("cM0", "M1", "mx", "0")] == ["M0", "M1", "MX", "M0"]


@pytest.mark.parametrize(
    "row",
    ["III B > III IIIB", "Ⅲ期 > III III", "ⅢC期 > III IIIC", "Stage iia > II IIA", "1B > I IB", "pStage IV > IV IV", "IVB > IV IV"],
)
def test_stage_is_read_tolerantly(row):
    text, expected = row.split(" > ")
    assert [parse_stage(text), parse_stage(text, substages=True)] == expected.split()


def test_stage_in_digits_and_with_separators():
    assert [parse_stage(x, substages=True) for x in ("0", "4", "Ⅰ A", "III-A", "Stage 2")] == ["0", "IV", "IA", "IIIA", "II"]


@pytest.mark.parametrize(
    ("parse", "text"), [(parse_t, "T5"), (parse_t, "N1"), (parse_t, "T3a"), (parse_t, ""), (parse_n, "N4"), (parse_m, "M2")]
)
def test_nonsense_categories_are_refused_by_name(parse, text):
    with pytest.raises(ValueError, match=f"unknown . category {text!r}: expected"):
        parse(text)


@pytest.mark.parametrize("text", ["V", "IC", "IIC", "0A", "early", "T3", "", "3.0", "nan"])
def test_nonsense_stages_are_refused_by_name(text):
    with pytest.raises(ValueError, match=f"unknown overall stage {text!r}: expected"):
        parse_stage(text)


def test_labels_fall_into_their_space():
    assert parse_label("t", "pT4a") == "T4"
    assert parse_label("t", "pT4a", substages=True) == "T4a"
    assert parse_label("t", "T1b") == parse_label("t", "T1b", substages=True) == "T1"
    assert parse_label("n", "N3b") == "N3"
    assert parse_label("stage", "IIIC") == "III"
    assert parse_label("stage", "IIIC", substages=True) == "IIIC"
    for target, text, substages in [
        ("t", "T0", False),
        ("n", "NX", False),
        ("stage", "0", False),
        ("stage", "III", True),
        ("t", "T4", True),
    ]:
        with pytest.raises(ValueError, match="is no class of"):
            parse_label(target, text, substages)
    with pytest.raises(ValueError, match="unknown staging target 'grade'"):
        label_space("grade")


def test_every_class_names_itself():
    for target in LABELS:
        for substages in (False, True):
            assert [parse_label(target, c, substages) for c in label_space(target, substages)] == list(label_space(target, substages))
