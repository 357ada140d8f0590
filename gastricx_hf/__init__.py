"""Gastric-X in the Hugging Face ecosystem. Importing it registers the model families with transformers' Auto classes."""

from __future__ import annotations

import importlib

from gastricx_hf import _auto_hook

_HOME = {
    "Box3D": "schema",
    "Case": "schema",
    "Lab": "schema",
    "Phase": "schema",
    "Prediction": "schema",
    "Question": "schema",
    "Schema": "schema",
    "Score": "schema",
    "Split": "schema",
    "Structure": "schema",
    "Provenance": "provenance",
    "X2VLMMedConfig": "models.x2vlm_med_config",
    "X2VLMMedModel": "models.x2vlm_med",
    "X2VLMMedProcessor": "models.x2vlm_med_processor",
    "read_release": "sources.release",
    "register": "dataset_script.gastric_x",
}
"""Public name -> module that defines it, imported when the name is first used."""

__all__ = [*_HOME, "__version__"]


def __getattr__(name: str):
    if name == "__version__":
        from gastricx_hf.provenance import package_version

        return package_version()
    if name not in _HOME:
        raise AttributeError(f"module 'gastricx_hf' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"gastricx_hf.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


_auto_hook.install()
