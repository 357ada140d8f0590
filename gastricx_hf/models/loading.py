"""Models in and out: a new one of a family, a checkpoint from disk or the Hub; half-loaded weights are refused."""

from __future__ import annotations

import shutil
from pathlib import Path

from gastricx_hf.models import auto


def family(name: str) -> type:
    """The adapter class of a model family, by the `model_type` of its configuration; every file in this folder is looked at.

    Raises:
        ValueError: unknown family; the message lists the known ones.
    """
    known = {module.AUTO["AutoConfig"].model_type: module.ADAPTER for module in auto.families() if hasattr(module, "ADAPTER")}
    if name not in known:
        raise ValueError(f"unknown model family {name!r}: known families are {', '.join(sorted(known))}")
    return known[name]


def new_model(name: str, size: str, preprocessing: dict, texts: list[str]):
    """A new, randomly initialised model of a family, in its adapter.

    Args:
        size: one of the family's sizes, such as "tiny" or "full".
        preprocessing: fields of the standardisation that it is made for.
        texts: what a tokenizer is trained on where the size has no pretrained vocabulary.
    """
    return family(name).create(size, preprocessing=preprocessing, texts=texts)


def load_adapter(source: str | Path):
    """Model and processor of a checkpoint folder or Hub repository, wrapped in their family's adapter.

    Raises:
        ValueError: weights are missing, unexpected or of another shape; the keys are listed. A model with unloaded
            weights would be scored as if it had been trained.
    """
    from transformers import AutoConfig, AutoModel, AutoProcessor

    auto.register()
    config = AutoConfig.from_pretrained(source)
    model, report = AutoModel.from_pretrained(source, config=config, output_loading_info=True, use_safetensors=True)
    problems = {kind: sorted(map(str, report[kind])) for kind in ("missing_keys", "unexpected_keys", "mismatched_keys") if report.get(kind)}
    if problems:
        listed = "; ".join(f"{len(keys)} {kind.replace('_', ' ')} ({', '.join(keys[:5])})" for kind, keys in problems.items())
        raise ValueError(f"{source} does not load whole: {listed}")
    model.eval()
    return family(config.model_type)(model, AutoProcessor.from_pretrained(source))


def save_aside(adapter, folder: Path) -> None:
    """Save model and processor aside and rename, so that `folder` is whole or absent."""
    aside = folder.with_name(folder.name + ".part")
    shutil.rmtree(aside, ignore_errors=True)
    adapter.model.save_pretrained(aside)
    adapter.processor.save_pretrained(aside)
    aside.rename(folder)
