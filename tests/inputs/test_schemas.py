import pytest

from gastricx_hf.inputs.guard import LeakError
from gastricx_hf.inputs.schemas import Prompt, build_prompt
from gastricx_hf.schema import Schema

QUESTION = "Where is the tumour?"
TABLE = "CEA 23.4 ng/mL, 4.7x the upper limit; Hemoglobin 95 g/L, 0.73x the lower limit"


def test_each_schema_says_what_it_may(make_question):
    with_table = f"{QUESTION} Laboratory findings: {TABLE}"
    expected = {
        Schema.IMAGE: Prompt(QUESTION, "", False),
        Schema.IMAGE_TABLE: Prompt(with_table, TABLE, False),
        Schema.IMAGE_BBOX: Prompt(QUESTION, "", True),
        Schema.IMAGE_TABLE_BBOX: Prompt(with_table, TABLE, True),
    }
    for schema, prompt in expected.items():
        assert build_prompt(make_question(), schema) == prompt
        assert build_prompt(make_question(), str(schema)) == prompt


def test_the_question_may_name_its_answer(make_question):
    row = make_question(question="Is the antrum, the body or the cardia involved?")
    assert build_prompt(row, Schema.IMAGE_TABLE).text.startswith(row["question"])


def test_nothing_but_question_and_labs_reaches_the_prompt(make_question):
    row = make_question(sex="zzz", age=777, category="zzz", source_report="zzz", options=["zzz"], endoscopy={"path": "zzz", "bytes": None})
    text = build_prompt(row, Schema.IMAGE_TABLE_BBOX).text
    assert "zzz" not in text
    assert "777" not in text
    assert "antrum" not in text


def test_leaks_are_refused_on_the_way(make_question):
    row = make_question()
    stage = {"name": "Overall Stage III", "value": 3.0, "unit": "", "lower": None, "upper": 1.0, "before_surgery": True}
    with pytest.raises(LeakError, match="stage"):
        build_prompt(row | {"labs": [*row["labs"], stage]}, Schema.IMAGE_TABLE)
    build_prompt(row | {"labs": [*row["labs"], stage]}, Schema.IMAGE)
    with pytest.raises(LeakError, match="evidence"):
        build_prompt(row | {"evidence": "in the antrum"}, Schema.IMAGE)


def test_unknown_tasks_and_schemas_are_refused(make_question):
    with pytest.raises(ValueError, match="unknown task 'report'"):
        build_prompt(make_question(), Schema.IMAGE, task="report")
    with pytest.raises(ValueError, match="image\\+sound"):
        build_prompt(make_question(), "image+sound")
