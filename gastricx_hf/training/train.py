"""One fine-tuning run: dataset folder in, run folder with a checkpoint that stands alone out. Killed, it resumes."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import numpy as np

from gastricx_hf.inputs.collate import VQACollator, undecoded
from gastricx_hf.inputs.schemas import build_prompt
from gastricx_hf.models.loading import load_adapter, new_model, save_aside
from gastricx_hf.preprocessing.settings import PRESETS
from gastricx_hf.preprocessing.store import store_beside
from gastricx_hf.provenance import Provenance, package_version, read_manifest, write_json
from gastricx_hf.schema import Schema
from gastricx_hf.training.arguments import GastricTrainingArguments
from gastricx_hf.training.lora import add_lora

CHECKPOINT_PROVENANCE = "gastricx_provenance.json"
RESUME_MAY_CHANGE = {"output_dir", "logging_dir", "disable_tqdm", "local_rank", "save_total_limit", "logging_steps"}
"""Arguments that may differ between a killed run and the one that resumes it."""


def train(arguments: GastricTrainingArguments) -> Path:
    """Fine-tune on the `vqa` training split and return the checkpoint folder `<output_dir>/checkpoint`.

    Resumes by itself from the last complete step checkpoint in `output_dir`; data order, dropout and schema draws are
    functions of the seed, so the resumed weights equal those of an uninterrupted run.

    Raises:
        FileNotFoundError: the dataset folder was not built.
        ValueError: `output_dir` holds a run with other arguments; the message names them.
    """
    from datasets import load_dataset
    from transformers import set_seed

    from gastricx_hf.training.trainer import GastricTrainer

    run = Path(arguments.output_dir)
    manifest = read_manifest(arguments.dataset)
    if (run / "checkpoint").is_dir():
        print(f"{run / 'checkpoint'} is complete: nothing to train")
        return run / "checkpoint"
    _check_same_run(run, arguments)
    rows = undecoded(load_dataset(str(Path(arguments.dataset)), "vqa", split="train"))
    if arguments.limit:
        rows = rows.select(range(min(arguments.limit, len(rows))))
    set_seed(arguments.seed)
    base = _base(run, arguments, rows)
    processor = base.processor
    set_seed(arguments.seed)
    model = base.model
    if arguments.lora:
        model = add_lora(model, arguments.lora_rank, arguments.lora_alpha, arguments.lora_dropout)
    store = store_beside(arguments.dataset, processor.preprocessing)
    trainer = GastricTrainer(
        model=model,
        args=arguments,
        train_dataset=rows,
        data_collator=VQACollator(processor, store, arguments.schemas, train=True, seed=arguments.seed),
    )
    result = trainer.train(resume_from_checkpoint=_last_complete_checkpoint(run))
    provenance = Provenance(
        model=arguments.model if ":" in arguments.model else Path(arguments.model).name,  # never a local path
        data_revision=manifest["data_revision"],
        split_hash=manifest["split_hash"],
        preprocessing_hash=store.settings.hash,
        seed=arguments.seed,
        phantom=manifest["phantom"],
        package_version=package_version(),
        language=manifest["language"],
    )
    _write_training_record(run, arguments, trainer, result)
    return _write_checkpoint(run, trainer.model, processor, provenance, arguments.lora)


def _base(run: Path, arguments: GastricTrainingArguments, rows):
    """The model before fine-tuning, kept in `<run>/base` so that a resumed run starts from the very same weights."""
    folder = run / "base"
    if not folder.is_dir():
        if ":" in arguments.model and not Path(arguments.model).exists():
            family, size = arguments.model.split(":", 1)
            adapter = new_model(family, size, preprocessing=asdict(PRESETS[arguments.preset]), texts=_texts(rows))
        else:
            adapter = load_adapter(arguments.model)
        save_aside(adapter, folder)
    return load_adapter(folder)


def _texts(rows) -> list[str]:
    """Everything that a model of this split reads or writes, for a tokenizer without a pretrained vocabulary."""
    first = {row["case_id"]: row for row in rows}
    prompts = [build_prompt(row, Schema.IMAGE_TABLE).text for row in first.values()]
    return [*rows["question"], *rows["answer"], *prompts]


def _check_same_run(run: Path, arguments: GastricTrainingArguments) -> None:
    path = run / "arguments.json"
    now = json.loads(json.dumps(arguments.to_sanitized_dict(), default=str))
    if path.is_file():
        before = json.loads(path.read_text())
        changed = sorted(k for k in now if k not in RESUME_MAY_CHANGE and before.get(k) != now[k])
        if changed:
            words = ", ".join(f"{k}: {before.get(k)} -> {now[k]}" for k in changed)
            raise ValueError(f"{run} holds an unfinished run with other arguments ({words}): use them, or another --output_dir")
    write_json(path, now)


def _last_complete_checkpoint(run: Path) -> str | None:
    """The newest `checkpoint-N` whose last file (trainer_state.json) was written; half-written ones are removed."""
    complete = {}
    for folder in run.glob("checkpoint-*"):
        try:
            complete[json.loads((folder / "trainer_state.json").read_text())["global_step"]] = folder
        except (OSError, json.JSONDecodeError, KeyError):
            shutil.rmtree(folder)
    return str(complete[max(complete)]) if complete else None


def _write_training_record(run: Path, arguments, trainer, result) -> None:
    logs = trainer.state.log_history
    write_json(
        run / "training.json",
        {
            "arguments": json.loads((run / "arguments.json").read_text()),
            "losses": [[entry["step"], entry["loss"]] for entry in logs if "loss" in entry],
            "seconds": round(result.metrics["train_runtime"], 1),
            "steps": trainer.state.global_step,
            "trainable_parameters": sum(p.numel() for p in trainer.model.parameters() if p.requires_grad),
            "parameters": sum(p.numel() for p in trainer.model.parameters()),
        },
    )


def _write_checkpoint(run: Path, model, processor, provenance: Provenance, lora: bool) -> Path:
    """Write model (adapters merged), processor, adapters and provenance; reload and compare before it gets its name."""
    aside = run / "checkpoint.part"
    shutil.rmtree(aside, ignore_errors=True)
    if lora:
        model.save_pretrained(aside / "adapter")
        (aside / "adapter" / "README.md").unlink(missing_ok=True)  # PEFT's own card names a local path
        _forget_local_base(aside / "adapter" / "adapter_config.json")
        model = model.merge_and_unload()
    model.save_pretrained(aside)
    processor.save_pretrained(aside)
    write_json(aside / CHECKPOINT_PROVENANCE, provenance.as_dict())
    _compare_reloaded(model, aside)
    aside.rename(run / "checkpoint")
    for folder in run.glob("checkpoint-*"):
        shutil.rmtree(folder)
    return run / "checkpoint"


def _forget_local_base(path: Path) -> None:
    config = json.loads(path.read_text())
    config["base_model_name_or_path"] = None  # the base is the folder above; a local path must never leave the machine
    write_json(path, config)


def _compare_reloaded(model, folder: Path) -> None:
    reloaded = load_adapter(folder).model.state_dict()
    for name, value in model.state_dict().items():
        if not np.array_equal(value.float().cpu().numpy(), reloaded[name].float().cpu().numpy(), equal_nan=True):
            raise RuntimeError(f"{folder}: {name} changed when the checkpoint was read back; it is not published")
