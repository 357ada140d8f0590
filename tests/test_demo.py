"""The demo's whole way on a handful of phantom patients, and the command line around it."""

import json

import pytest
from huggingface_hub import ModelCard
from transformers import AutoModel

from gastricx_hf import cli
from gastricx_hf.schema import Schema


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo") / "demo"
    assert cli.main(["demo", "--out", str(out), "--patients", "14", "--epochs", "1"]) == 0
    return out / "runs" / "x2vlm-med-tiny"


def test_everything_is_there_and_says_phantom(run):
    scores = json.loads((run / "scores.json").read_text())
    assert {s["schema"] for s in scores} == set(map(str, Schema))
    for score in scores:
        assert score["provenance"]["phantom"] is True
        assert {"data_revision", "split_hash", "preprocessing_hash", "seed", "package_version"} <= score["provenance"].keys()
        assert score["low"] <= score["value"] <= score["high"]
        assert "[" in score["variant"]  # the full name says what the paper leaves open
    assert "PHANTOM" in (run / "table.md").read_text()
    page = (run / "page" / "index.html").read_text()
    assert page.count("data:image/png;base64,") == 3
    assert "PHANTOM" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    AutoModel.from_pretrained(run / "checkpoint")


def test_a_second_call_finds_everything_done(run, capsys):
    before = (run / "checkpoint" / "model.safetensors").stat().st_mtime_ns
    assert cli.main(["demo", "--out", str(run.parent.parent), "--patients", "14", "--epochs", "1"]) == 0
    assert (run / "checkpoint" / "model.safetensors").stat().st_mtime_ns == before
    printed = capsys.readouterr().out
    assert "nothing to train" in printed
    assert "next, to try" in printed


def test_push_lists_files_and_sends_nothing(run, capsys):
    assert cli.main(["push", str(run), "--repo", "you/phantom-demo"]) == 0
    printed = capsys.readouterr().out
    assert "model.safetensors" in printed
    assert ".eval_results/gastric-x.yaml" in printed
    assert "nothing was sent" in printed
    from gastricx_hf.hub.card import model_card

    card = ModelCard(model_card(run, "you/phantom-demo"))
    assert "PHANTOM" in card.text
    value = next(s for s in json.loads((run / "scores.json").read_text()) if s["metric"] == "accuracy" and s["group"] == "all")["value"]
    assert f"{value:.1f}" in card.text


def test_score_refuses_missing_questions_until_told(run, tmp_path, capsys):
    import shutil

    copy = shutil.copytree(run, tmp_path / "copy", ignore=shutil.ignore_patterns("checkpoint", "base"))
    path = copy / "predictions" / "vqa-image.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-2]))
    dataset = str(run.parent.parent / "gastric-x")
    assert cli.main(["score", str(copy), "--dataset", dataset]) == 1
    assert "vqa-image.jsonl" in capsys.readouterr().err
    assert cli.main(["score", str(copy), "--dataset", dataset, "--allow-partial"]) == 0


def test_wrong_words_end_in_one_sentence(tmp_path, capsys):
    assert cli.main(["predict", str(tmp_path), "--dataset", str(tmp_path)]) == 1
    assert "gastricx build" in capsys.readouterr().err
    assert cli.main(["build", "--source", str(tmp_path), "--out", str(tmp_path / "x")]) == 1
    assert not (tmp_path / "x").exists()
    for words in (["nonsense"], ["score"], ["build", "--source", "x", "--unknown"]):
        with pytest.raises(SystemExit) as stop:
            cli.main(words)
        assert stop.value.code == 2
    with pytest.raises(SystemExit) as stop:
        cli.main(["train", "--help"])
    assert stop.value.code == 0
    assert "--lora_rank" in capsys.readouterr().out


def test_pushed_to_a_hub_and_loaded_back(run, tmp_path):
    from hub_double import HubDouble, run_client

    code = """
import sys
import torch
from datasets import load_dataset
from transformers import AutoModel
from gastricx_hf import cli
run, = sys.argv[1:]
assert cli.main(["push", run, "--repo", "tester/phantom-demo", "--yes"]) == 0
ours, theirs = AutoModel.from_pretrained(run + "/checkpoint").state_dict(), AutoModel.from_pretrained("tester/phantom-demo").state_dict()
assert ours.keys() == theirs.keys() and all(torch.equal(ours[k], theirs[k]) for k in ours)
rows = load_dataset("tester/phantom-demo-predictions", "vqa-image", split="predictions")
print("rows", len(rows), rows[0]["provenance"]["phantom"])
"""
    with HubDouble() as hub:
        done = run_client(hub, code, run)
        assert all(repo.private for repo in hub.repos.values())
        assert len(hub.repos) == 2
    lines = len((run / "predictions" / "vqa-image.jsonl").read_text().splitlines())
    assert f"rows {lines} True" in done.stdout
