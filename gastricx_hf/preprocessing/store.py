"""Standardised cases made once and kept: in memory up to a limit, and on disk if a folder is given."""

from __future__ import annotations

import json
import os
import re
import threading
import uuid
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from gastricx_hf.preprocessing.pipeline import StandardCase, standardize_row
from gastricx_hf.preprocessing.settings import Standardization
from gastricx_hf.preprocessing.volumes import fingerprint
from gastricx_hf.provenance import canonical_hash
from gastricx_hf.schema import Phase, Structure


class StandardStore:
    """Serves `StandardCase`s of one setting; a case is standardised again whenever its cells, boxes or the settings differ.

    On disk a case is `<case_id>-<key>.npy` (HU, memory-mapped on reading) and `<case_id>-<key>.json` (everything else), each written
    aside and renamed, the sidecar last: a killed run leaves a case complete or absent. Several processes and threads may share
    a folder; at worst two of them make the same case.

    Args:
        folder: where to keep cases between runs; None keeps them in memory only.
        memory_bytes: limit of the cases kept in memory, least recently used leave first. Mapped cases do not count.
    """

    def __init__(self, folder: str | Path | None, settings: Standardization, memory_bytes: int = 2 * 1024**3):
        self.folder = None if folder is None else Path(folder)
        self.settings = settings
        self.memory_bytes = memory_bytes
        self._forget()

    def _forget(self):
        self._kept: OrderedDict[str, StandardCase] = OrderedDict()
        self._lock = threading.Lock()

    def __getstate__(self):
        return {"folder": self.folder, "settings": self.settings, "memory_bytes": self.memory_bytes}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._forget()

    def get(self, row: Mapping) -> StandardCase:
        """The standardised case of a dataset row; raises ValueError as `standardize_row`."""
        key = self.key(row)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        case = self._read(row["case_id"], key)
        if case is None:
            case = standardize_row(row, self.settings)
            if self.folder is not None:
                self._write(case, key)
                case = self._read(case.case_id, key) or case
        self._keep(key, case)
        return case

    def key(self, row: Mapping) -> str:
        """sha256 of the settings' hash, the case id, the boxes and a fingerprint of every volume cell."""
        try:
            cells = {str(phase): fingerprint(row.get(f"ct_{phase}")) for phase in Phase}
        except ValueError as e:
            raise ValueError(f"case {row['case_id']}: {e}") from e
        return canonical_hash([self.settings.hash, row["case_id"], cells, list(row.get("boxes") or ())])

    def _keep(self, key: str, case: StandardCase) -> None:
        with self._lock:
            self._kept[key] = case
            while len(self._kept) > 1 and sum(map(_memory, self._kept.values())) > self.memory_bytes:
                self._kept.popitem(last=False)

    def _paths(self, case_id: str, key: str) -> tuple[Path, Path]:
        stem = f"{re.sub(r'[^A-Za-z0-9_.-]', '_', case_id)}-{key[:20]}"
        return self.folder / f"{stem}.npy", self.folder / f"{stem}.json"

    def _read(self, case_id: str, key: str) -> StandardCase | None:
        """The stored case, or None where it is absent, incomplete, or was made for another key or other settings."""
        if self.folder is None:
            return None
        volume, sidecar = self._paths(case_id, key)
        try:
            about = json.loads(sidecar.read_text())
            hu = np.load(volume, mmap_mode="r")
        except (OSError, ValueError, EOFError):
            return None
        asked = {"key": key, "case_id": case_id, "settings_hash": self.settings.hash}
        if any(about.get(name) != value for name, value in asked.items()):
            return None
        if hu.shape != (len(Phase), *self.settings.shape) or hu.dtype != np.int16:
            return None
        return StandardCase(
            case_id=case_id,
            hu=hu,
            phase_mask=np.array(about["phase_mask"], bool),
            boxes={Structure(s): [(tuple(low), tuple(high)) for low, high in found] for s, found in about["boxes"].items()},
            affine=np.array(about["affine"], float),
            mean=tuple(about["mean"]),
            std=tuple(about["std"]),
            settings_hash=about["settings_hash"],
            lost_boxes=tuple(about["lost_boxes"]),
        )

    def _write(self, case: StandardCase, key: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        volume, sidecar = self._paths(case.case_id, key)
        about = {
            "key": key,
            "case_id": case.case_id,
            "settings_hash": case.settings_hash,
            "phase_mask": case.phase_mask.tolist(),
            "boxes": {str(structure): found for structure, found in case.boxes.items()},
            "affine": case.affine.tolist(),
            "mean": case.mean,
            "std": case.std,
            "lost_boxes": case.lost_boxes,
        }
        _replace(volume, lambda file: np.save(file, case.hu))
        _replace(sidecar, lambda file: file.write(json.dumps(about, indent=1).encode()))


def store_beside(dataset: str | Path, settings: Standardization | Mapping) -> StandardStore:
    """The store of a built dataset folder, kept in the sibling folder `<dataset>-standardised`, never inside what is published.

    Args:
        settings: or their fields, as a processor carries them in its configuration.
    """
    settings = settings if isinstance(settings, Standardization) else Standardization(**settings)
    dataset = Path(dataset).resolve()
    return StandardStore(dataset.with_name(f"{dataset.name}-standardised"), settings)


def _memory(case: StandardCase) -> int:
    return 0 if isinstance(case.hu, np.memmap) else case.hu.nbytes


def _replace(path: Path, write) -> None:
    """Write under a name of this process's own, then rename."""
    aside = path.with_name(f".{path.name}.{os.getpid()}-{uuid.uuid4().hex[:8]}.part")
    try:
        with aside.open("wb") as file:
            write(file)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
