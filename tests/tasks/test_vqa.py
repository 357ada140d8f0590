from collections import namedtuple

import pytest

from gastricx_hf.schema import Box3D, Case, Lab, Phase, Question, Split, Structure
from gastricx_hf.tasks import vqa

QA = namedtuple("QA", "answer category")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  The gastric\tAntrum. ", "gastric antrum"),
        ("Yes!", "yes"),
        ("“T4a”", "t4a"),
        ("ＮＯ", "no"),
        ("3.5 cm", "3.5 cm"),
        ("20%.", "20%"),
        ("non-contrast", "non-contrast"),
        ("-3", "-3"),
        ("是。", "是"),
        ("...", ""),
        ("“The body”", "body"),
        ("the (greater curvature)", "greater curvature"),
        ("Stage III A", "stage iii a"),
    ],
)
def test_normalise_answer(text, expected):
    assert vqa.normalise_answer(text) == expected
    assert vqa.normalise_answer(vqa.normalise_answer(text)) == expected


def test_answer_sets_follow_the_rule():
    questions = [QA("Antrum.", "localization")] * 5 + [QA("the body", "localization")] * 6
    questions += [QA("cardia", "localization")] * 4  # too rare
    questions += [QA("lesser curvature of the stomach body", "localization")] * 9  # too long
    questions += [QA("Yes", "localization")] * 500  # yes/no counts neither as answer nor towards the 1%
    questions += [QA("T3", "staging_related")] * 50  # one answer alone
    questions += [QA("strong", "enhancement_phase")] * 600 + [QA("weak", "enhancement_phase")] * 600
    questions += [QA("mild", "enhancement_phase")] * 12  # 1% of 1,212 is 12.12
    assert vqa.closed_answer_sets(questions) == {"localization": ("antrum", "body"), "enhancement_phase": ("strong", "weak")}


@pytest.mark.parametrize(
    ("answer", "category", "options"),
    [
        ("No.", "anything", ["no", "yes"]),
        ("是", "anything", ["否", "是"]),
        ("The Body", "localization", ["antrum", "body"]),
        ("fundus", "localization", []),
        ("body", "staging_related", []),
    ],
)
def test_options(answer, category, options):
    assert vqa.options_of(answer, category, {"localization": ("antrum", "body")}) == options


def make_case(case_id: str, answers: list[str]) -> Case:
    questions = tuple(Question(f"{case_id}-{n:03d}", "Where?", a, "localization", "ct", "secret") for n, a in enumerate(answers))
    return Case(
        case_id,
        volumes={Phase.VENOUS: f"/data/{case_id}/venous.nii.gz"},
        boxes=(Box3D(Structure.TUMOR, Phase.VENOUS, (1, 2, 3), (4, 5, 6)),),
        labs=(Lab("CEA", 7.0, "ng/mL", None, 5.0),),
        t_stage="T3",
        reports={"ct": "a report"},
        questions=questions,
    )


def test_rows_take_answer_sets_from_the_training_split_only():
    cases = [make_case("a", ["antrum", "body"] * 5), make_case("b", ["antrum", "cardia"]), make_case("c", ["cardia"] * 20)]
    made = vqa.rows(cases, {Split.TRAIN: ["a"], Split.VALIDATION: ["b"], Split.TEST: ["c"]})
    assert [len(made[split]) for split in Split] == [10, 2, 20]
    assert made[Split.VALIDATION][0]["options"] == ["antrum", "body"]
    assert made[Split.VALIDATION][1]["answer_type"] == "open"
    assert {row["answer_type"] for row in made[Split.TEST]} == {"open"}


def test_a_row_shows_the_inputs_and_nothing_that_must_stay_hidden():
    row = vqa.rows([make_case("a", ["antrum"])], {Split.TRAIN: ["a"]})[Split.TRAIN][0]
    assert tuple(row) == vqa.COLUMNS
    assert row["ct_venous"] == "/data/a/venous.nii.gz"
    assert row["ct_arterial"] is None
    assert row["boxes"] == [{"structure": "tumor", "phase": "venous", "min": [1, 2, 3], "max": [4, 5, 6]}]
    assert row["labs"][0]["upper"] == 5.0
    assert not {"evidence", "reports", "items", "t_stage", "overall_stage"} & set(row)
    assert "secret" not in str(row)
    assert "a report" not in str(row)
    assert "T3" not in str(row)
