import json

import pytest
import yaml
from huggingface_hub import parse_eval_result_entries

from gastricx_hf.hub.results import eval_results_yaml, read_predictions, read_scores


def entries(run, repo="tester/demo"):
    return parse_eval_result_entries(yaml.safe_load(eval_results_yaml(read_scores(run), repo)))


def test_headline_of_each_schema_is_read_back_by_the_official_parser(make_run):
    found = entries(make_run(phantom=False))
    assert [(e.dataset_id, e.task_id, e.value) for e in found] == [
        ("HaoChen2/Gastric-X", "vqa_accuracy", 54.61),
        ("HaoChen2/Gastric-X", "vqa_accuracy", 71.37),
    ]
    assert "input schema image;" in found[0].notes
    assert "95% interval 47.32 to 61.78 from resampling 31 patients, 310 items" in found[0].notes
    assert "input schema image+table+bbox (ground-truth boxes given); accuracy[test variant]" in found[1].notes
    assert all("PHANTOM" not in e.notes for e in found)


def test_phantom_scores_never_claim_gastric_x(make_run):
    for entry in entries(make_run(), "someone/model"):
        assert entry.dataset_id == "someone/gastric-x-phantom"
        assert entry.notes.startswith("PHANTOM: not a score on Gastric-X")


def test_a_score_that_does_not_say_is_not_taken_for_real(make_run):
    run = make_run(phantom=False)
    scores = json.loads((run / "scores.json").read_text())
    del scores[0]["provenance"]["phantom"]
    (run / "scores.json").write_text(json.dumps(scores))
    assert [e.dataset_id for e in entries(run)] == ["HaoChen2/Gastric-X", "tester/gastric-x-phantom"]


@pytest.mark.parametrize(("revision", "expected"), [("e" * 40, "e" * 40), ("a" * 64, None)])
def test_only_a_commit_is_given_as_dataset_revision(make_run, revision, expected):
    run = make_run(phantom=False)
    text = (run / "scores.json").read_text().replace("a" * 64, revision)
    (run / "scores.json").write_text(text)
    assert {e.dataset_revision for e in entries(run)} == {expected}


def test_no_headline_score_means_no_file(make_run):
    run = make_run()
    scores = [s for s in json.loads((run / "scores.json").read_text()) if s["metric"] != "accuracy"]
    (run / "scores.json").write_text(json.dumps(scores))
    assert eval_results_yaml(read_scores(run), "tester/demo") == ""


def test_broken_records_are_named(make_run):
    run = make_run()
    (run / "scores.json").write_text('[{"task": "vqa"}]')
    with pytest.raises(ValueError, match=r"scores.json is not a list of scores .*gastricx score"):
        read_scores(run)
    path = run / "predictions" / "vqa-image.jsonl"
    path.write_text(path.read_text() + '{"example_id": "q9"}\n')
    with pytest.raises(ValueError, match=r"vqa-image.jsonl line 7 is not a prediction"):
        read_predictions(path)
