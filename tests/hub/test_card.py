import json

import pytest
import yaml
from huggingface_hub import ModelCard

from gastricx_hf.hub.card import is_hub_id, model_card, predictions_card, recipe, start_of


def row(card: str, name: str) -> list[str]:
    line = next(line for line in card.splitlines() if line.startswith(f"| {name} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_numbers_and_intervals_come_from_the_scores(make_run):
    card = model_card(make_run(), "tester/demo")
    assert row(card, "image") == ["image", "54.6 (47.3 to 61.8)", "50.0 (41.3 to 58.5)"]
    assert row(card, "image+table+bbox") == ["image+table+bbox", "71.4 (62.2 to 79.9)", "–"]
    assert "| image | 33.3 (20.0 to 48.5) |" in card
    assert "accuracy: `accuracy[test variant]`, 31 patients, 310 items" in card


def test_header_is_valid_and_its_model_index_holds_the_same_numbers(make_run):
    card = ModelCard(model_card(make_run(phantom=False), "tester/demo"))
    assert card.data.library_name == "transformers"
    assert card.data.license == "cc-by-nc-nd-4.0"
    assert card.data.pipeline_tag == "visual-question-answering"
    assert card.data.datasets == ["HaoChen2/Gastric-X"]
    results = card.data.eval_results  # the library's own reading of the model-index
    found = {(r.metric_args["schema"], r.metric_type): r.metric_value for r in results}
    assert found == {("image", "accuracy"): 54.61, ("image", "f1"): 50.03, ("image+table+bbox", "accuracy"): 71.37}
    assert {r.dataset_type for r in results} == {"HaoChen2/Gastric-X"}


def test_recipe_shows_what_differs_from_the_paper(make_run):
    card = model_card(make_run(), "tester/demo")
    assert row(card, "learning rate, visual side")[2:] == ["0.001", "**differs**"]
    assert row(card, "weight decay")[2:] == ["0.01", ""]
    assert row(card, "batch size")[2:] == ["32", ""]  # 8 per device, accumulated 4 times
    assert row(card, "LoRA rank")[2:] == ["8 (alpha 16)", "**differs**"]
    assert row(card, "epochs")[1:] == ["not stated", "7.0", ""]
    assert "LoRA is this project's addition" in card
    assert "4,321 of 987,654 parameters" in card
    assert "/home/someone" not in card


def test_full_fine_tuning_is_not_called_lora(make_run):
    run = make_run()
    training = json.loads((run / "training.json").read_text())
    training["arguments"]["lora"] = False
    (run / "training.json").write_text(json.dumps(training))
    card = model_card(run, "tester/demo")
    assert row(card, "LoRA rank")[2:] == ["no LoRA", ""]
    assert "LoRA is this project's addition" not in card
    assert {r["name"] for r in recipe(training) if r["differs"]} == {"learning rate, visual side"}


def test_phantom_and_real_runs_say_what_they_are(make_run):
    phantom, real = model_card(make_run("a"), "tester/demo"), model_card(make_run("b", phantom=False), "tester/demo")
    assert "> **PHANTOM.** This model was trained on synthetic patients" in phantom
    assert "HaoChen2/Gastric-X" not in phantom
    assert "PHANTOM" not in real
    for words in ("CC BY-NC-ND 4.0", "adapted copies of the data may not be shared", "keep it private"):
        assert words in real
    for card in (phantom, real):
        assert "Not a medical device" in card
        assert "c" * 64 in card
        assert "| clip | [-100.0, 300.0] |" in card
        assert 'AutoModel.from_pretrained("tester/demo")' in card


def test_scores_on_another_split_than_the_one_trained_on_are_marked(make_run):
    run = make_run()
    assert "Scored on another split" not in model_card(run, "tester/demo")
    provenance = json.loads((run / "checkpoint" / "gastricx_provenance.json").read_text())
    (run / "checkpoint" / "gastricx_provenance.json").write_text(json.dumps(provenance | {"split_hash": "d" * 64}))
    assert "Scored on another split" in model_card(run, "tester/demo")


def test_family_template_is_used_where_there_is_one(make_run):
    run = make_run()
    config = json.loads((run / "checkpoint" / "config.json").read_text())
    (run / "checkpoint" / "config.json").write_text(json.dumps(config | {"model_type": "x2vlm-med"}))
    card = model_card(run, "tester/demo")
    assert "3D Swin Transformer over the CT phases" in card
    assert "This model started from random weights." in card
    assert "## Licence" in card
    assert "{{" not in card
    assert "{%" not in card


def test_a_run_without_scores_and_predictions_still_has_a_card(make_run):
    run = make_run()
    (run / "scores.json").unlink()
    for path in (run / "predictions").iterdir():
        path.unlink()
    card = model_card(run, "tester/demo")
    assert "This run has not been scored." in card
    assert "demo-predictions" not in card


def test_unfinished_run_is_named(make_run):
    run = make_run()
    (run / "training.json").write_text('{"arguments": {}}')
    with pytest.raises(ValueError, match=r"training.json lacks steps, parameters, trainable_parameters"):
        model_card(run, "tester/demo")
    (run / "training.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"training.json is missing.*gastricx train"):
        model_card(run, "tester/demo")


def test_predictions_card_names_one_configuration_per_file(make_run):
    header = yaml.safe_load(predictions_card(make_run(), "tester/demo").split("---")[1])
    assert [c["config_name"] for c in header["configs"]] == ["vqa-image", "vqa-image-table-bbox"]
    assert header["configs"][1]["data_files"][0]["path"] == "predictions/vqa-image-table-bbox.jsonl"


def test_two_files_that_would_be_one_configuration_are_refused(make_run):
    run = make_run()
    (run / "predictions" / "vqa-image-table-bbox.jsonl").write_text((run / "predictions" / "vqa-image.jsonl").read_text())
    with pytest.raises(ValueError, match="two files would become one configuration"):
        predictions_card(run, "tester/demo")


def test_start_of_tells_new_models_hub_ids_and_folders_apart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "first").mkdir(parents=True)
    assert "random weights" in start_of("x2vlm-med:tiny")
    assert start_of("someone/swin") == "[someone/swin](https://huggingface.co/someone/swin)"
    assert start_of("runs/first") == "a checkpoint folder, `first`"
    assert not is_hub_id("/somewhere/first")
