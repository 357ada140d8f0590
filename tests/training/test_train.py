"""A killed and resumed fine-tuning equals an uninterrupted one; the paper's recipe; what is refused."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from gastricx_hf.models.loading import load_adapter
from gastricx_hf.training.arguments import GastricTrainingArguments
from gastricx_hf.training.train import train

FLAGS = ["--schemas", "image", "image+table+bbox", "--num_train_epochs", "4", "--per_device_train_batch_size", "12", "--learning_rate",
         "1e-3", "--logging_steps", "1", "--save_strategy", "steps", "--save_steps", "3", "--questions_per_volume", "4", "--use_cpu",
         "--disable_tqdm", "true"]  # fmt: skip
STEPS = 4 * 4  # six training patients, 48 questions, 12 a batch


def command(run, dataset):
    return [sys.executable, "-m", "gastricx_hf", "train", "--output_dir", str(run), "--dataset", str(dataset), *FLAGS]


@pytest.fixture(scope="module")
def uninterrupted(dataset, tmp_path_factory):
    run = tmp_path_factory.mktemp("runs") / "whole"
    subprocess.run(command(run, dataset), check=True, capture_output=True, timeout=300)
    return run


def test_killed_and_resumed_gives_the_same_weights(uninterrupted, dataset, tmp_path):
    run = tmp_path / "killed"
    process = subprocess.Popen(command(run, dataset), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.time() + 240
    while not (run / "checkpoint-6" / "trainer_state.json").is_file() and time.time() < deadline:  # in the middle of the second epoch
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (run / "checkpoint").exists()
    (run / "checkpoint-99").mkdir()  # a step checkpoint that the kill left half-written
    (run / "checkpoint-99" / "model.safetensors").write_bytes(b"half")
    done = subprocess.run(command(run, dataset), check=True, capture_output=True, text=True, timeout=300)
    assert "gastricx predict" in done.stdout
    whole, resumed = (load_file(folder / "checkpoint" / "model.safetensors") for folder in (uninterrupted, run))
    assert whole.keys() == resumed.keys()
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)
    assert sorted(p.name for p in run.iterdir() if p.name.startswith("checkpoint")) == ["checkpoint"]


def test_the_checkpoint_stands_alone_and_training_moved_it(uninterrupted):
    folder = uninterrupted / "checkpoint"
    assert {"config.json", "model.safetensors", "processor_config.json", "gastricx_provenance.json", "adapter"} <= {
        p.name for p in folder.iterdir()
    }
    assert not [p for p in folder.rglob("*") if p.suffix in {".bin", ".pt", ".pkl"}]
    trained, base = load_adapter(folder), load_adapter(uninterrupted / "base")
    moved = [n for n, p in trained.model.state_dict().items() if not torch.equal(p, base.model.state_dict()[n])]
    assert any("vision_encoder" in n for n in moved)
    assert any("fusion" in n and "query" in n for n in moved)  # LoRA, merged
    record = json.loads((uninterrupted / "training.json").read_text())
    assert [step for step, _ in record["losses"]] == list(range(1, STEPS + 1))
    assert np.mean([loss for _, loss in record["losses"][-3:]]) < 0.7 * record["losses"][0][1]
    provenance = json.loads((folder / "gastricx_provenance.json").read_text())
    assert provenance["phantom"] is True
    assert len(provenance["preprocessing_hash"]) == 64


def test_other_arguments_on_an_unfinished_run_are_refused(uninterrupted, dataset, tmp_path):
    run = tmp_path / "unfinished"
    run.mkdir()
    (run / "arguments.json").write_text((uninterrupted / "arguments.json").read_text())
    with pytest.raises(ValueError, match=r"other arguments \(.*learning_rate: 0.001 -> 0.5"):
        train(GastricTrainingArguments(output_dir=str(run), dataset=str(dataset), learning_rate=0.5, use_cpu=True))
    with pytest.raises(FileNotFoundError, match="gastricx build"):
        train(GastricTrainingArguments(output_dir=str(tmp_path / "new"), dataset=str(tmp_path), use_cpu=True))


def test_defaults_are_the_papers_recipe():
    arguments = GastricTrainingArguments(use_cpu=True)
    assert (arguments.learning_rate, arguments.weight_decay, arguments.warmup_steps) == (5e-5, 0.01, 0.1)
    assert arguments.per_device_train_batch_size * arguments.gradient_accumulation_steps == 32
    assert str(arguments.optim).startswith("OptimizerNames.ADAMW") or str(arguments.optim).startswith("adamw")
    assert arguments.text_lr_multiplier == 2.0
    with pytest.raises(ValueError):
        GastricTrainingArguments(schemas=["image+report"], use_cpu=True)
