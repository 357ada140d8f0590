import pytest

from gastricx_hf.inputs.labs import LabTemplate, abnormal_labs_text
from gastricx_hf.schema import Lab

CEA = Lab("Tumor Markers CEA", 23.4, "ng/mL", None, 5.0)
HEMOGLOBIN = Lab("CBC Hemoglobin", 95.0, "g/L", 130.0, 175.0)
ALBUMIN = Lab("Biochemistry Albumin", 42, "g/L", 40, 55)


def as_row(lab: Lab) -> dict:
    return {name: getattr(lab, name) for name in ("name", "value", "unit", "lower", "upper", "before_surgery")}


def test_only_abnormal_values_with_their_ratio():
    expected = "CEA 23.4 ng/mL, 4.7x the upper limit; Hemoglobin 95 g/L, 0.73x the lower limit"
    assert abnormal_labs_text([CEA, ALBUMIN, HEMOGLOBIN]) == expected
    assert abnormal_labs_text([as_row(lab) for lab in (CEA, ALBUMIN, HEMOGLOBIN)]) == expected


def test_a_value_on_its_limit_is_normal():
    on_limit = [Lab("CEA", 5.0, "ng/mL", None, 5.0), Lab("Albumin", 40, "g/L", 40, 55)]
    assert abnormal_labs_text(on_limit) == "No laboratory value is outside its reference range."


def test_not_measured_is_not_normal():
    unmeasured = [Lab("CEA", None, "ng/mL", None, 5.0), Lab("Albumin", float("nan"), "g/L", 40, 55)]
    assert abnormal_labs_text(unmeasured) == "No laboratory values were recorded."
    assert abnormal_labs_text([]) == abnormal_labs_text(None) == "No laboratory values were recorded."
    assert abnormal_labs_text([*unmeasured, ALBUMIN]) == "No laboratory value is outside its reference range."
    assert abnormal_labs_text([*unmeasured, CEA]) == "CEA 23.4 ng/mL, 4.7x the upper limit"


def test_values_from_after_surgery_are_not_shown():
    after = [as_row(CEA) | {"before_surgery": False}, as_row(HEMOGLOBIN) | {"before_surgery": None}]
    assert abnormal_labs_text(after) == "No laboratory values were recorded."


def test_the_largest_deviation_first():
    """Ratios 4.68, 130/95 = 1.37 and 40/8 = 5."""
    low_albumin = Lab("Biochemistry Albumin", 8, "g/L", 40, 55)
    text = abnormal_labs_text([HEMOGLOBIN, CEA, low_albumin], order="deviation")
    assert [entry.split()[0] for entry in text.split("; ")] == ["Albumin", "CEA", "Hemoglobin"]
    with pytest.raises(ValueError, match="unknown order"):
        abnormal_labs_text([CEA], order="random")


def test_limits_of_zero_missing_ranges_and_units():
    labs = [Lab("X", 3, "", 0, 0), Lab("Y", 7, "U/L"), Lab("Z", -1, "mmol/L", 0, 2), Lab("Platelets", 1234.5, "10^9/L", 125, 350)]
    expected = "X 3, above the upper limit; Z -1 mmol/L, below the lower limit; Platelets 1234.5 10^9/L, 3.5x the upper limit"
    assert abnormal_labs_text(labs) == expected


def test_the_template_is_an_option():
    template = LabTemplate(entry="{name}={value}({ratio})", separator=" | ", decimals_above=2, decimals_below=1)
    assert abnormal_labs_text([CEA, HEMOGLOBIN], template=template) == "CEA=23.4(4.68) | Hemoglobin=95(0.7)"
