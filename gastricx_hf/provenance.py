"""What every artefact is stamped with, so that a number can be traced and two numbers compared."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, is_dataclass
from importlib import metadata
from pathlib import Path

MANIFEST = "gastricx.json"
"""File at the root of a built dataset folder: data revision, split hash, whether it is phantom."""


def package_version() -> str:
    """Version of the installed package, also where only the source tree is on the path."""
    try:
        return metadata.version("gastricx_hf")
    except metadata.PackageNotFoundError:
        return "0+source"


def canonical_hash(value) -> str:
    """sha256 (64 hex digits) of a JSON-able value or dataclass, independent of key order."""
    if is_dataclass(value):
        value = asdict(value)
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False, default=str).encode()).hexdigest()


@dataclass(frozen=True)
class Provenance:
    """Where an artefact comes from. Two scores are comparable when everything but model and seed is equal.

    Attributes:
        data_revision: commit of the Hub repository, or the sha256 of the local build's tables.
        phantom: made from synthetic patients; such a number is never a score on Gastric-X.
    """

    model: str
    data_revision: str
    split_hash: str
    preprocessing_hash: str
    seed: int
    phantom: bool
    package_version: str
    language: str = "en"

    def as_dict(self) -> dict:
        return asdict(self)


def read_manifest(folder: str | Path) -> dict:
    """The manifest of a built dataset folder.

    Raises:
        FileNotFoundError: the folder was not made by `gastricx build`; the message says how to make it.
    """
    path = Path(folder) / MANIFEST
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: build the dataset first with `gastricx build --source ... --out {folder}`")
    return json.loads(path.read_text())


def write_json(path: str | Path, value) -> None:
    """Write JSON aside and rename, so that a reader never sees half a file."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(path.name + ".part")
    aside.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
    aside.replace(path)
