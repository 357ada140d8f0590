"""Predictions: resumed after a cut equal those made at once; other runs' files and half-loaded weights are refused."""

import json

import numpy as np
import pytest
import torch

from gastricx_hf.dataset_script.build import build
from gastricx_hf.inference.run import predict
from gastricx_hf.models.loading import load_adapter, new_model, save_aside
from gastricx_hf.preprocessing.settings import PRESETS
from gastricx_hf.schema import Schema
from gastricx_hf.sources.phantom import write_phantom


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A dataset of seven phantom patients and an untrained tiny model."""
    from dataclasses import asdict

    root = tmp_path_factory.mktemp("predict")
    build(write_phantom(root / "phantom", 7, seed=2, progress=False), root / "gastric-x")
    torch.manual_seed(0)
    adapter = new_model("x2vlm-med", "tiny", asdict(PRESETS["tiny"]), ["is there ascites yes no upper third of the stomach"] * 3)
    save_aside(adapter, root / "model")
    return root


@pytest.fixture(scope="module")
def whole(place):
    return predict(place / "model", place / "gastric-x", place / "whole.jsonl", schema=Schema.IMAGE_TABLE, progress=False)


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_one_line_per_question_with_everything_that_scoring_needs(whole, place):
    rows = lines(whole)
    assert len(rows) == 8  # one test patient of seven
    for row in rows:
        assert row["provenance"]["phantom"] is True
        assert row["provenance"]["model"] == "model"
        if row["options"]:
            assert row["prediction"] == row["options"][int(np.argmax(row["option_logprobs"]))]
            assert all(np.isfinite(row["option_logprobs"]))
            assert max(row["option_logprobs"]) < 0
        assert row["reference"] not in ("", None)
    assert {row["answer_type"] for row in rows} == {"closed", "open"}


def test_resumes_after_a_cut_in_the_middle_of_a_line(whole, place):
    text = whole.read_text()
    cut = place / "cut.jsonl"
    cut.write_text(text[: int(len(text) * 0.6)])
    predict(place / "model", place / "gastric-x", cut, schema=Schema.IMAGE_TABLE, progress=False)
    assert sorted(r["example_id"] for r in lines(cut)) == sorted(r["example_id"] for r in lines(whole))
    for a, b in zip(sorted(lines(cut), key=str), sorted(lines(whole), key=str), strict=True):
        assert a["prediction"] == b["prediction"]
        assert np.allclose(a["option_logprobs"], b["option_logprobs"], atol=1e-4)


def test_predictions_of_another_run_are_refused(whole, place):
    with pytest.raises(ValueError, match="another seed"):
        predict(place / "model", place / "gastric-x", whole, schema=Schema.IMAGE_TABLE, seed=5, progress=False)


def test_the_schema_changes_what_the_model_is_given(place, whole):
    other = predict(place / "model", place / "gastric-x", place / "image.jsonl", schema=Schema.IMAGE, limit=8, progress=False)
    assert [r["option_logprobs"] for r in lines(other)] != [r["option_logprobs"] for r in lines(whole)]


def test_half_loaded_weights_are_refused(place, tmp_path):
    from safetensors.torch import load_file, save_file

    adapter = load_adapter(place / "model")
    save_aside(adapter, tmp_path / "half")
    weights = load_file(tmp_path / "half" / "model.safetensors")
    lost = next(name for name in weights if "vision_encoder" in name)
    save_file({k: v for k, v in weights.items() if k != lost}, tmp_path / "half" / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match=r"does not load whole: 1 missing keys"):
        load_adapter(tmp_path / "half")
