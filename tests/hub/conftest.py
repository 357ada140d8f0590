"""A finished run made by hand around a stock tiny BERT, so that publishing is tested without our own models, training or scoring."""

import json
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for hub_double

MODEL = "x2vlm-med:tiny"
SCHEMAS = ("image", "image+table+bbox")
REVISION = "a" * 64


def provenance(phantom=True, **changes) -> dict:
    values = {"model": MODEL, "data_revision": REVISION, "split_hash": "b" * 64, "preprocessing_hash": "c" * 64, "seed": 3}
    return values | {"phantom": phantom, "package_version": "0.1.0", "language": "en"} | changes


def score(schema, metric, value, low, high, group="all", **changes) -> dict:
    values = {"task": "vqa", "schema": schema, "metric": metric, "variant": f"{metric}[test variant]", "group": group}
    return values | {"value": value, "low": low, "high": high, "n_patients": 31, "n_items": 310, "provenance": provenance(**changes)}


def prediction(n, schema, **changes) -> dict:
    closed = n % 2 == 0
    return {
        "example_id": f"q{n}",
        "case_id": f"P{n // 3}",
        "task": "vqa",
        "schema": schema,
        "category": "localization",
        "answer_type": "closed" if closed else "open",
        "question": "Where is the lesion?",
        "options": ["antrum", "cardia"] if closed else [],
        "option_logprobs": [-0.1 - n, -2.25] if closed else [],
        "prediction": "antrum" if closed else "in the antrum of the stomach",
        "reference": "cardia",
        "provenance": provenance(**changes),
    }


ARGUMENTS = {
    "output_dir": "/home/someone/runs/vqa",
    "optim": "adamw_torch_fused",
    "learning_rate": 1e-3,
    "text_lr_multiplier": 2.0,
    "weight_decay": 0.01,
    "lr_scheduler_type": "linear",
    "warmup_steps": 0.1,
    "per_device_train_batch_size": 8,
    "gradient_accumulation_steps": 4,
    "num_train_epochs": 7.0,
    "lora": True,
    "lora_rank": 8,
    "lora_alpha": 16,
    "schemas": "['image', 'image+table+bbox']",
    "limit": "None",
    "bf16": False,
    "fp16": False,
    "seed": 3,
}


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory) -> Path:
    import torch
    from transformers import BertConfig, BertModel

    folder = tmp_path_factory.mktemp("bert")
    torch.manual_seed(0)
    config = BertConfig(vocab_size=40, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
    BertModel(config).save_pretrained(folder)
    return folder


@pytest.fixture
def make_run(tmp_path, tiny_bert):
    """Factory of finished run folders; `phantom` is stamped on all records."""

    def make(name="run", phantom=True) -> Path:
        run = tmp_path / name
        shutil.copytree(tiny_bert, run / "checkpoint")
        settings = {"shape": [64, 64, 32], "clip": [-100.0, 300.0], "registration": "none"}
        (run / "checkpoint" / "processor_config.json").write_text(json.dumps({"preprocessing": settings}))
        (run / "checkpoint" / "gastricx_provenance.json").write_text(json.dumps(provenance(phantom)))
        training = {"arguments": ARGUMENTS, "losses": [[10, 1.5]], "seconds": 3.0, "steps": 123}
        (run / "training.json").write_text(json.dumps(training | {"trainable_parameters": 4321, "parameters": 987654}))
        scores = [
            score("image+table+bbox", "accuracy", 71.37, 62.18, 79.94, phantom=phantom),
            score("image", "accuracy", 54.61, 47.32, 61.78, phantom=phantom),
            score("image", "f1", 50.03, 41.26, 58.49, phantom=phantom),
            score("image", "accuracy", 33.33, 20.02, 48.48, group="category=localization", phantom=phantom),
        ]
        (run / "scores.json").write_text(json.dumps(scores))
        (run / "predictions").mkdir()
        for schema in SCHEMAS:
            lines = [json.dumps(prediction(n, schema, phantom=phantom)) for n in range(6)]
            (run / "predictions" / f"vqa-{schema}.jsonl").write_text("\n".join(lines) + "\n")
        return run

    return make


@pytest.fixture
def hub():
    from hub_double import HubDouble

    with HubDouble() as double:
        yield double
