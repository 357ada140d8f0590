"""`gastricx demo`: the whole way once, on phantom patients, on two cores, without a network."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path

from gastricx_hf.schema import Schema, Split

RECIPE = {
    "schemas": [str(Schema.IMAGE), *[str(Schema.IMAGE_TABLE_BBOX)] * 3],
    "learning_rate": 3e-3,
    "text_lr_multiplier": 1.0,
    "per_device_train_batch_size": 48,
    "questions_per_volume": 4,
    "num_train_epochs": 12.0,
    "lora_rank": 16,
    "lora_alpha": 32,
    "logging_steps": 10,
    "save_strategy": "epoch",
    "use_cpu": True,
}
"""A tiny model starts from random weights, so it takes a far larger step than the paper's 5e-5 for pretrained ones, and it
sees mostly full inputs: every fourth batch shows the image alone."""


def demo(out: str | Path, patients: int = 400, seed: int = 0, epochs: float | None = None) -> Path:
    """Phantom patients -> dataset -> LoRA fine-tuning -> four schemas predicted and scored -> page; returns the run folder.

    Each step resumes, so a stopped demo continues where it was.
    """
    out, started = Path(out), time.time()

    def step(number: int, words: str) -> None:
        print(f"\n[{number}/6 {time.time() - started:4.0f} s] {words}", flush=True)

    step(1, f"drawing {patients} phantom patients (synthetic: no score from here on is a score on Gastric-X)")
    from gastricx_hf.sources.phantom import write_phantom

    source = write_phantom(out / "phantom", patients, seed=seed)

    step(2, 'building the dataset and reading it as anyone would: load_dataset("gastric-x", "vqa")')
    from datasets import load_dataset

    from gastricx_hf.dataset_script.build import build

    dataset = out / "gastric-x"
    build(source, dataset, seed=seed)
    with contextlib.chdir(out):
        rows = load_dataset("gastric-x", "vqa")
    print({split: len(part) for split, part in rows.items()})

    step(3, "fine-tuning X2-VLM-Med (tiny) with LoRA, on the image alone and on image, table and boxes")
    run = out / "runs" / "x2vlm-med-tiny"
    _train(run, dataset, seed, epochs)

    step(4, "answering the test questions with each input schema")
    from gastricx_hf.inference.run import predict

    for schema in Schema:
        predict(run / "checkpoint", dataset, run / "predictions" / f"vqa-{schema}.jsonl", schema=schema)

    step(5, "scoring, with intervals from resampled patients")
    from gastricx_hf.evaluation.score import score_run

    train_rows = rows["train"].select_columns(["category", "options", "answer"]).to_list()
    scores = score_run(run, expected_ids=rows["test"]["question_id"], train_rows=train_rows, seed=seed)

    step(6, "the page, with what the best possible reader would score (the oracle)")
    page = _report(run, rows[str(Split.TEST)][0], scores, patients, seed)
    print((run / "table.md").read_text())
    print(f"page        {page}\ntable       {run / 'table.md'}\ncheckpoint  {run / 'checkpoint'}\n")
    print("next, to try:")
    for command, words in _next(run, dataset):
        print(f"  {command:<90} {words}")
    print(f"\ndone in {time.time() - started:.0f} s")
    return run


def _train(run: Path, dataset: Path, seed: int, epochs: float | None) -> None:
    import torch

    from gastricx_hf.training.arguments import GastricTrainingArguments
    from gastricx_hf.training.train import train

    torch.set_num_threads(1)  # so small a model gains under a tenth from a second thread, and loses tenfold when the core is busy
    recipe = RECIPE | ({"num_train_epochs": epochs} if epochs else {})
    train(GastricTrainingArguments(output_dir=str(run), dataset=str(dataset), seed=seed, **recipe))


def _report(run: Path, row: dict, scores: list, patients: int, seed: int) -> Path:
    from gastricx_hf.evaluation.report import oracle_accuracy, write_report
    from gastricx_hf.sources.phantom import oracle_posteriors

    oracle = oracle_accuracy(run, {schema: oracle_posteriors("vqa", schema, patients, seed) for schema in (None, *Schema)})
    training = json.loads((run / "training.json").read_text())
    facts = {
        "patients": f"{patients} phantom patients, seed {seed}",
        "model": f"X2-VLM-Med tiny, {training['parameters']:,} parameters, {training['trainable_parameters']:,} trained",
        "training": f"{training['steps']} steps in {training['seconds']:.0f} s",
    }
    return write_report(run, row, scores, oracle, facts, _next(run, run.parent.parent / "gastric-x"))


def _next(run: Path, dataset: Path) -> list[tuple[str, str]]:
    return [
        (f"gastricx push {run} --repo you/gastric-x-phantom-demo", "see what would be published; nothing is sent"),
        (f"gastricx train --dataset {dataset} --schemas image --output_dir {run.parent / 'image-only'}", "train on the image alone"),
        ("gastricx build --source YOUR_RELEASE_FOLDER --out gastric-x", "build from the real release"),
    ]
