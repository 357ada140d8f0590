"""Rows with small hand-made CT volumes, stored LPS like a scanner's, so that every step of the chain has something to do."""

import nibabel
import numpy as np
import pytest

SHAPE = (12, 10, 8)
AFFINE = np.array([[-2.0, 0, 0, 10], [0, -2, 0, 20], [0, 0, 3, -5], [0, 0, 0, 1]])
PHASES = ("non_contrast", "arterial", "venous", "delayed")


@pytest.fixture
def volume():
    """Voxels of the phase with this number."""
    return lambda n, shape=SHAPE: np.random.default_rng(n).integers(-1000, 400, shape).astype(np.int16)


@pytest.fixture
def make_row(tmp_path, volume):
    """Factory of rows with undecoded cells; by default without arterial phase. `arrays` replaces the voxels of a phase."""

    def make(case_id="P01", phases=("non_contrast", "venous", "delayed"), boxes=(), arrays=None, affine=AFFINE) -> dict:
        folder = tmp_path / case_id
        folder.mkdir(exist_ok=True)
        row = {"case_id": case_id, "boxes": list(boxes)} | {f"ct_{phase}": None for phase in PHASES}
        for phase in phases:
            data = (arrays or {}).get(phase)
            data = volume(PHASES.index(phase)) if data is None else data
            nibabel.save(nibabel.Nifti1Image(data, affine), folder / f"{phase}.nii.gz")
            row[f"ct_{phase}"] = {"path": str(folder / f"{phase}.nii.gz"), "bytes": None}
        return row

    return make


@pytest.fixture
def box():
    return lambda structure, low, high, phase="venous": {"structure": structure, "phase": phase, "min": list(low), "max": list(high)}
