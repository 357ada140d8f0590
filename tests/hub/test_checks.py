import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from gastricx_hf.hub.checks import phantom_findings, verify_checkpoint
from gastricx_hf.hub.results import PHANTOM_LABEL

LABELLED = {"README.md": PHANTOM_LABEL}


def edit_json(path, change) -> None:
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def test_sound_checkpoint_has_no_findings(tiny_bert):
    assert verify_checkpoint(tiny_bert) == []


@pytest.mark.parametrize(
    ("change", "reasons"),
    [
        (lambda w: w.pop("pooler.dense.weight"), ["1 missing keys on loading: pooler.dense.weight"]),
        (lambda w: w.update(extra=torch.zeros(2)), ["1 unexpected keys on loading: extra"]),
        (lambda w: w["pooler.dense.bias"].fill_(float("nan")), ["pooler.dense.bias: holds NaN or infinity"]),
        (lambda w: w.update({"pooler.dense.bias": torch.zeros(3)}), ["does not load by AutoModel", "mismatched keys"]),
    ],
    ids=["missing", "unexpected", "nan", "shape"],
)
def test_checkpoint_that_does_not_load_whole(make_run, change, reasons):
    checkpoint = make_run() / "checkpoint"
    weights = load_file(checkpoint / "model.safetensors")
    change(weights)
    save_file(weights, checkpoint / "model.safetensors", metadata={"format": "pt"})
    (finding,) = verify_checkpoint(checkpoint)[:1]
    assert any(reason in str(finding) for reason in reasons)


def test_weight_that_loads_as_another(tiny_bert, monkeypatch):
    from transformers import BertModel

    plain = BertModel.state_dict
    monkeypatch.setattr(BertModel, "state_dict", lambda self: {k: v + (k == "pooler.dense.bias") for k, v in plain(self).items()})
    (finding,) = verify_checkpoint(tiny_bert)
    assert str(finding).startswith("model.safetensors pooler.dense.bias: is another weight after loading")


def test_unknown_architecture_is_a_finding(make_run):
    checkpoint = make_run() / "checkpoint"
    edit_json(checkpoint / "config.json", lambda c: c.update(model_type="no-such-model"))
    (finding,) = verify_checkpoint(checkpoint)
    assert "does not load by AutoModel" in str(finding)


@pytest.mark.parametrize("phantom", [True, False])
def test_consistent_runs_have_no_findings(make_run, phantom):
    assert phantom_findings(make_run(phantom=phantom), LABELLED if phantom else {"README.md": "a card"}) == []


def test_phantom_numbers_relabelled_as_real(make_run):
    run = make_run()
    edit_json(run / "scores.json", lambda scores: [s["provenance"].update(phantom=False) for s in scores])
    assert [f.where for f in phantom_findings(run, LABELLED)] == ["scores.json"]


def test_real_score_of_a_model_trained_on_phantoms_is_allowed(make_run):
    run = make_run()
    real = {"phantom": False, "data_revision": "f" * 64}
    edit_json(run / "scores.json", lambda scores: [s["provenance"].update(real) for s in scores])
    assert phantom_findings(run, {"README.md": "a card"}) == []


def test_predictions_that_do_not_say(make_run):
    run = make_run()
    path = run / "predictions" / "vqa-image.jsonl"
    path.write_text(path.read_text().replace('"phantom": true', '"phantom": "maybe"', 1))
    assert [f.where for f in phantom_findings(run, LABELLED)] == ["predictions/vqa-image.jsonl"]


def test_text_without_the_label(make_run):
    texts = LABELLED | {".eval_results/gastric-x.yaml": "- value: 54.61"}
    assert [f.where for f in phantom_findings(make_run(), texts)] == [".eval_results/gastric-x.yaml"]
