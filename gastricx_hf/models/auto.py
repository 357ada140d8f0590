"""Families and the Auto classes of transformers. A family is one file in this folder: there is no list to edit.

A file that has a module-level `AUTO = {"AutoConfig": ..., "AutoModel": ..., ...}` is registered; loading.py reads its `ADAPTER`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from types import ModuleType

import gastricx_hf.models as folder


def families() -> Iterator[ModuleType]:
    """The modules of this folder that declare `AUTO`."""
    for info in pkgutil.iter_modules(folder.__path__):
        module = importlib.import_module(f"{folder.__name__}.{info.name}")
        if hasattr(module, "AUTO"):
            yield module


def register() -> None:
    """Make `AutoConfig`, `AutoModel`, `AutoModelForImageTextToText` and `AutoProcessor` know every family; safe to repeat."""
    import transformers

    for module in families():
        config = module.AUTO["AutoConfig"]
        for auto, cls in module.AUTO.items():
            key = config.model_type if auto == "AutoConfig" else config
            getattr(transformers, auto).register(key, cls, exist_ok=True)
