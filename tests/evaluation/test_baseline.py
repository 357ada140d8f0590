import math

import pytest

from gastricx_hf.evaluation.baseline import majority_baseline
from gastricx_hf.evaluation.predictions import check_predictions

YES_NO = {"category": "factual", "options": ["no", "yes"]}
STAGE = {"category": "staging", "options": ["t1", "t2"]}
OPEN = {"category": "lesion", "options": []}


def train(kind, *answers):
    return [{**kind, "answer": answer} for answer in answers]


def question(kind, reference):
    stamp = {"model": "reader", "phantom": True}
    row = {"example_id": reference + kind["category"], "case_id": "a", "task": "vqa", "schema": "image", "question": "?"}
    scores = [-1.0] * len(kind["options"])
    return {**row, **kind, "option_logprobs": scores, "prediction": "?", "reference": reference, "provenance": stamp}


def test_most_frequent_training_answer_of_the_category_and_options():
    rows = train(YES_NO, "Yes", "yes", "no") + train(STAGE, "T1") + train(OPEN, "antrum", "body", "body")
    rows += train({**YES_NO, "category": "other"}, "no", "no", "no", "no")
    made = majority_baseline([question(YES_NO, "no"), question(STAGE, "t2"), question(OPEN, "antrum")], rows)
    assert [row["prediction"] for row in made] == ["yes", "t1", "body"]
    # one is added to each count: (1 + 1) / (3 + 2) and (2 + 1) / (3 + 2)
    assert made[0]["option_logprobs"] == pytest.approx([math.log(2 / 5), math.log(3 / 5)], abs=1e-5)
    assert [row["reference"] for row in made] == ["no", "t2", "antrum"]
    assert {row["provenance"]["model"] for row in made} == {"majority answer"}
    assert {row["schema"] for row in made} == {"none"}


def test_equal_counts_and_unseen_questions_still_name_one_best_answer():
    (tied,) = majority_baseline([question(YES_NO, "yes")], train(YES_NO, "yes", "no"))
    (unseen,) = majority_baseline([question(STAGE, "t2")], [])
    assert (tied["prediction"], unseen["prediction"]) == ("no", "t1")
    for row in (tied, unseen):
        assert row["option_logprobs"][0] > row["option_logprobs"][1]
        check_predictions([{**row, "answer_type": "closed"}])
