import json
from pathlib import Path

import pytest
from sklearn.metrics import accuracy_score, precision_recall_fscore_support

from gastricx_hf.evaluation.score import score_file, score_rows, score_run
from gastricx_hf.metrics.vqa import scoring
from gastricx_hf.schema import Score


def value(scores, metric, group="all", schema=None):
    (found,) = [s for s in scores if s.metric == metric and s.group == group and schema in (None, s.schema)]
    return found


def test_scores_equal_scikit_learn_overall_and_by_category(make_rows, write, tmp_path):
    rows = make_rows()
    scores = score_file(write(tmp_path / "p.jsonl", rows), n_resamples=20)
    for group, chosen in (("all", None), ("category=staging_related", "staging_related")):
        closed = [row for row in rows if row["options"] and chosen in (None, row["category"])]
        truth, predicted = [row["reference"] for row in closed], [row["prediction"] for row in closed]
        precision, _, f1, _ = precision_recall_fscore_support(truth, predicted, labels=sorted(set(truth)), average="macro", zero_division=0)
        assert value(scores, "accuracy", group).value == pytest.approx(100 * accuracy_score(truth, predicted))
        assert value(scores, "precision", group).value == pytest.approx(100 * precision)
        assert value(scores, "f1", group).value == pytest.approx(100 * f1)
        assert value(scores, "accuracy", group).n_items == len(closed)
    assert value(scores, "token_f1").value == pytest.approx(200 / 3)
    assert value(scores, "token_f1").n_items == 24
    assert {score.group for score in scores if score.metric == "exact_match"} == {"all", "category=lesion_centric"}


def test_every_score_has_an_interval_a_full_name_and_the_provenance(make_rows):
    rows = make_rows()
    for score in score_rows(rows, n_resamples=50, seed=4):
        assert score.low <= score.value <= score.high
        assert score.variant == scoring.VARIANTS[score.metric]
        assert score.n_patients == 12
        interval = "95% percentile, 50 resamples of patients, seed 4"
        assert score.provenance == {**rows[0]["provenance"], "interval": interval}
    accuracy = value(score_rows(rows, n_resamples=200), "accuracy")
    assert accuracy.low < accuracy.value < accuracy.high


def test_undefined_auc_is_left_out_rather_than_nan(make_rows):
    rows = [row for row in make_rows() if row["reference"] == "no"]
    scores = score_rows(rows, n_resamples=5)
    assert {score.metric for score in scores} == {"precision", "accuracy", "f1", "patient_accuracy"}


def test_the_evaluate_module_gives_the_same_numbers(make_rows, tmp_path):
    import evaluate

    rows = make_rows()
    metric = evaluate.load(str(Path(scoring.__file__).parent), cache_dir=str(tmp_path))
    predictions = [{key: row[key] for key in ("prediction", "options", "option_logprobs")} for row in rows]
    references = [{"answer": row["reference"], "case_id": row["case_id"], "category": row["category"]} for row in rows]
    found = metric.compute(predictions=predictions, references=references)
    expected = {}
    for score in score_rows(rows, n_resamples=1):
        prefix = "" if score.group == "all" else score.group.removeprefix("category=") + "/"
        expected[prefix + score.variant] = score.value
    assert found == pytest.approx(expected, abs=1e-9)


def test_incomplete_predictions_are_refused_or_marked(make_rows, write, tmp_path):
    rows = make_rows()
    ids = [row["example_id"] for row in rows]
    path = write(tmp_path / "p.jsonl", rows[:-5])
    with pytest.raises(ValueError, match="5 with no prediction, of 72 expected"):
        score_file(path, n_resamples=5, expected_ids=ids)
    scores = score_file(path, n_resamples=5, expected_ids=ids, allow_partial=True)
    assert {score.provenance["partial"] for score in scores} == {"67 of 72 questions"}
    with pytest.raises(ValueError, match="1 with an example_id that is not in the split: P000-yes_no_factual-0"):
        score_file(path, n_resamples=5, expected_ids=ids[1:], allow_partial=True)
    assert "partial" not in score_file(write(path, rows), n_resamples=5, expected_ids=ids)[0].provenance


def test_other_tasks_are_refused(make_rows):
    with pytest.raises(ValueError, match="no scores are defined for task 'retrieval'"):
        score_rows([{**row, "task": "retrieval"} for row in make_rows()])


def test_run_is_scored_in_all_schemas_and_written(run, make_rows):
    train = [{"category": row["category"], "options": row["options"], "answer": row["reference"]} for row in make_rows(seed=9)]
    scores = score_run(run, train_rows=train, n_resamples=20)
    written = {name: [Score(**record) for record in json.loads((run / f"{name}.json").read_text())] for name in ("baselines", "scores")}
    assert written["baselines"] + written["scores"] == scores
    assert {score.provenance["model"] for score in written["scores"]} == {"reader"}
    assert {score.schema for score in scores} == {"none", "image", "image+table", "image+bbox", "image+table+bbox"}
    assert value(scores, "accuracy", schema="image+table+bbox").value > value(scores, "accuracy", schema="image").value
    assert value(scores, "accuracy", schema="none").provenance["model"] == "majority answer"


def test_run_with_files_of_different_questions_is_refused(run, make_rows, write):
    write(run / "predictions" / "vqa-image.jsonl", make_rows("image")[:-1])
    with pytest.raises(ValueError, match=r"vqa-image\.jsonl: 1 with no prediction, of 72 expected"):
        score_run(run, n_resamples=5)
    assert not (run / "scores.json").exists()


def test_run_with_files_of_different_splits_is_refused(run, make_rows, write):
    write(run / "predictions" / "vqa-image.jsonl", make_rows("image", split_hash="other"))
    with pytest.raises(ValueError, match="differ in split_hash"):
        score_run(run, n_resamples=5)


def test_run_without_predictions_says_how_to_make_them(tmp_path):
    with pytest.raises(FileNotFoundError, match="gastricx predict"):
        score_run(tmp_path)
