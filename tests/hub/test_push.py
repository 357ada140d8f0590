import json
import pickle
from pathlib import Path

import pytest
import torch
from hub_double import TOKEN, run_client
from safetensors.torch import load_file, save_file

from gastricx_hf.hub.push import PushRefused, make_plan, push

EXPECTED = {
    "model": {
        "README.md",
        ".eval_results/gastric-x.yaml",
        "scores.json",
        "config.json",
        "model.safetensors",
        "processor_config.json",
        "gastricx_provenance.json",
        "adapter/adapter_config.json",
    },
    "dataset": {"README.md", "predictions/vqa-image.jsonl", "predictions/vqa-image-table-bbox.jsonl"},
}

DRY_RUN = "import sys; from gastricx_hf.hub.push import push; push(sys.argv[1], 'tester/demo')"

PUSH_OVER_AN_EARLIER_PUSH = """
import sys
from huggingface_hub import CommitOperationAdd, HfApi
from gastricx_hf.hub.push import push
push(sys.argv[1], "tester/demo", yes=True)
model, predictions = ["model-00001-of-00002.safetensors", "notes.md"], ["predictions/vqa-image-table.jsonl"]
for repo, kind, paths in (("tester/demo", "model", model), ("tester/demo-predictions", "dataset", predictions)):
    HfApi().create_commit(repo, [CommitOperationAdd(path, b"old") for path in paths], commit_message="earlier", repo_type=kind)
push(sys.argv[1], "tester/demo", yes=True)
"""

LOAD_BACK = """
import json, sys
from datasets import load_dataset
from huggingface_hub import snapshot_download
from transformers import AutoModel
model = AutoModel.from_pretrained("tester/demo")
model.save_pretrained(sys.argv[1])
rows = load_dataset("tester/demo-predictions", "vqa-image-table-bbox")
streamed = load_dataset("tester/demo-predictions", "vqa-image", split="predictions", streaming=True)
folder = snapshot_download("tester/demo")
back = {"splits": list(rows), "rows": rows["predictions"].to_list(), "streamed": list(streamed), "folder": folder}
json.dump(back, open(sys.argv[2], "w"))
"""

TROUBLE = """
import os, sys
from huggingface_hub import HfApi, constants
from gastricx_hf.hub.push import push
def attempt(repo, **options):
    try:
        push(sys.argv[1], repo, yes=True, **options)
    except Exception as error:
        print("RAISED", type(error).__name__, str(error).replace(chr(10), " "))
token = os.environ.pop("HF_TOKEN")
attempt("tester/demo")
os.environ["HF_TOKEN"] = "hf_" + "wrong" * 6
attempt("tester/demo")
os.environ["HF_TOKEN"] = token
attempt("stranger/demo")
HfApi().create_repo("tester/open-predictions", repo_type="dataset", private=False)
attempt("tester/open")
constants.ENDPOINT = "http://127.0.0.1:9"
attempt("tester/demo")
"""


@pytest.fixture
def run(make_run):
    folder = make_run()
    (folder / "checkpoint" / "adapter").mkdir()
    (folder / "checkpoint" / "adapter" / "adapter_config.json").write_text('{"peft_type": "LORA", "base_model_name_or_path": null}')
    (folder / "checkpoint" / "README.md").write_text("a card that the generated one replaces\n")
    return folder


def edit_json(path: Path, change) -> None:
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_plan_holds_every_file_and_nothing_else(run):
    plan = make_plan(run, "tester/demo")
    for kind, paths in EXPECTED.items():
        assert {f.path for f in plan.files if f.kind == kind} == paths
    text = str(plan)
    assert "tester/demo (model repository, private)" in text
    assert "tester/demo-predictions (dataset repository, private)" in text
    assert f"{len(plan.files)} files" in text
    card = next(f for f in plan.files if f.path == "README.md" and f.kind == "model")
    assert b"a card that the generated one replaces" not in card.source
    assert sum(f.size for f in plan.files if isinstance(f.source, Path)) == sum(
        p.stat().st_size for p in run.rglob("*") if p.is_file() and p.name not in ("README.md", "training.json")
    )


def test_dry_run_sends_nothing_then_push_is_loaded_back_equal(run, hub, tmp_path):
    dry = run_client(hub, DRY_RUN, run)
    assert hub.requests == []
    assert hub.repos == {}
    for path in EXPECTED["model"] | EXPECTED["dataset"]:
        assert f"  {path}\n" in dry.stdout
    assert "nothing was sent" in dry.stdout

    sent = run_client(hub, PUSH_OVER_AN_EARLIER_PUSH, run)
    assert TOKEN not in sent.stdout + sent.stderr
    model, predictions = hub.repos["models", "tester/demo"], hub.repos["datasets", "tester/demo-predictions"]
    assert model.private
    assert predictions.private
    assert set(model.files()) == EXPECTED["model"] | {"notes.md"}  # stale weights and predictions are gone, other files stay
    assert set(predictions.files()) == EXPECTED["dataset"]
    assert "1 of an earlier push removed" in sent.stdout

    run_client(hub, LOAD_BACK, tmp_path / "back", tmp_path / "rows.json")
    stored, loaded = load_file(run / "checkpoint" / "model.safetensors"), load_file(tmp_path / "back" / "model.safetensors")
    assert stored.keys() == loaded.keys()
    assert all(torch.equal(stored[key], loaded[key]) for key in stored)
    back = json.loads((tmp_path / "rows.json").read_text())
    assert back["splits"] == ["predictions"]
    assert back["rows"] == rows(run / "predictions" / "vqa-image+table+bbox.jsonl")
    assert back["streamed"] == rows(run / "predictions" / "vqa-image.jsonl")


def test_trouble_is_one_sentence_and_no_token_is_shown(run, hub):
    done = run_client(hub, TROUBLE, run)
    raised = [line.removeprefix("RAISED ") for line in done.stdout.splitlines() if line.startswith("RAISED ")]
    assert len(raised) == 5
    assert raised[0].startswith("PermissionError not logged in to the Hub, nothing was sent: run `hf auth login`")
    assert raised[1].startswith("PermissionError the Hub refused (401): this token is not valid")
    assert raised[2].startswith("PermissionError the Hub refused (403): this token is not valid or may not write to stranger/demo")
    assert raised[3].startswith("PushRefused nothing was sent: tester/open-predictions exists and is public")
    assert raised[4].startswith("ConnectionError cannot reach the Hub at http://127.0.0.1:9")
    assert TOKEN not in done.stdout + done.stderr
    assert [key for key in hub.repos if key[1] != "tester/open-predictions"] == []


def test_public_push_keeps_predictions_on_real_patients_private(make_run):
    assert make_plan(make_run("a", phantom=True), "tester/demo", public=True).public == {"model", "dataset"}
    plan = make_plan(make_run("b", phantom=False), "tester/demo", public=True)
    assert plan.public == {"model"}
    assert "tester/demo (model repository, PUBLIC)" in str(plan)
    assert "tester/demo-predictions (dataset repository, private)" in str(plan)


def test_all_reasons_are_listed_together(run):
    (run / "checkpoint" / "training_args.bin").write_bytes(pickle.dumps({}))
    (run / "checkpoint" / "optimizer.pt").write_bytes(b"PK\x03\x04")
    edit_json(run / "checkpoint" / "config.json", lambda c: c.update(_name_or_path="/home/someone/bert"))
    edit_json(run / "scores.json", lambda s: s[1].update(high=float("nan")))
    edit_json(run / "scores.json", lambda s: s[2]["provenance"].pop("phantom"))
    with (run / "predictions" / "vqa-image.jsonl").open("a") as file:
        line = rows(run / "predictions" / "vqa-image+table+bbox.jsonl")[0] | {"prediction": "call 13800138000"}
        file.write(json.dumps(line) + "\n")
    (run / "checkpoint" / "vocab.txt").symlink_to(run / "training.json")
    with pytest.raises(PushRefused) as refusal:
        push(run, "tester/demo", yes=True)
    text = str(refusal.value)
    for expected in (
        "- training_args.bin: is a Python pickle",
        "- optimizer.pt: is a zip archive",
        "- config.json _name_or_path: names a local path, '/home/someone/bert'",
        "- scores.json high: holds nan",
        "- scores.json: does not say whether its patients are phantoms",
        "- (predictions) predictions/vqa-image.jsonl line 7 prediction: holds a telephone number",
        "- vocab.txt: is a link",
    ):
        assert expected in text
    assert "13800138000" not in text


def test_card_without_the_phantom_label_is_refused(run, monkeypatch):
    monkeypatch.setattr("gastricx_hf.hub.push.model_card", lambda *_: "# a card somebody wrote\n")
    with pytest.raises(PushRefused, match=r"README.md: shows phantom scores without their label"):
        push(run, "tester/demo")


def test_checkpoint_that_does_not_reload_is_refused(run):
    path = run / "checkpoint" / "model.safetensors"
    weights = load_file(path)
    del weights["pooler.dense.weight"]
    save_file(weights, path, metadata={"format": "pt"})
    with pytest.raises(PushRefused, match=r"1 missing keys on loading: pooler.dense.weight"):
        push(run, "tester/demo")


def test_sound_checkpoint_passes(run, capsys):
    push(run, "tester/demo")
    assert capsys.readouterr().out.endswith("Checked; nothing was sent. Add --yes to send.\n")


@pytest.mark.parametrize("name", ["demo", "you/demo/x", "you/de mo", "you/-demo"])
def test_bad_repository_names(run, name):
    with pytest.raises(ValueError, match=r"[Rr]epo"):
        make_plan(run, name)
