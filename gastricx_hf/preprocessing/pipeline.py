"""A dataset row to a standardised case: every phase on one grid as clipped HU, its boxes in that grid's voxels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from gastricx_hf.cases.volumes import volume_problem
from gastricx_hf.preprocessing import geometry
from gastricx_hf.preprocessing.intensity import clip_hu, zscore_statistics
from gastricx_hf.preprocessing.settings import Standardization
from gastricx_hf.preprocessing.volumes import read_image
from gastricx_hf.schema import Box3D, Phase, Structure

REFERENCE_ORDER = (Phase.VENOUS, Phase.ARTERIAL, Phase.DELAYED, Phase.NON_CONTRAST)
"""The first phase present defines the grid; the first phase that has boxes of a structure gives them (P36: venous is the reference)."""


@dataclass(frozen=True)
class StandardCase:
    """One patient on the standardised grid; P = 4 phases in the order of `Phase`.

    Attributes:
        hu: (P, X, Y, Z) int16, HU clipped and rounded; axes (i, j, k) of the settings' orientation. A phase that is missing
            holds `pad_hu` throughout. May be memory-mapped and is read-only.
        phase_mask: (P,) bool, True where the phase exists.
        boxes: structure -> half-open (min, max) voxel boxes of this grid, each ((i, j, k), (i, j, k)).
        affine: (4, 4) voxel -> mm, RAS+.
        mean, std: per phase in HU over the whole standardised volume; 0 and 1 for a missing phase.
        lost_boxes: one sentence per box that lies outside the grid.
    """

    case_id: str
    hu: np.ndarray
    phase_mask: np.ndarray
    boxes: dict[Structure, list[tuple]]
    affine: np.ndarray
    mean: tuple[float, ...]
    std: tuple[float, ...]
    settings_hash: str
    lost_boxes: tuple[str, ...] = field(default=())

    @property
    def spacing(self) -> tuple[float, float, float]:
        """mm along (i, j, k)."""
        return tuple(float(s) for s in np.linalg.norm(self.affine[:3, :3], axis=0))


def standardize_row(row: Mapping, settings: Standardization) -> StandardCase:
    """Standardise the volumes and boxes of a dataset row.

    Steps: orient -> clip -> one resampling onto the grid centred on the reference phase -> z-score statistics. Boxes follow the
    same geometry; each structure's are taken from the first phase of REFERENCE_ORDER that has any, since the phases of a patient
    share the scanner's frame and repeating a structure per phase would only blur its box.

    Args:
        row: `case_id`, `ct_<phase>` cells (see `volumes.read_image`; absent or None: not acquired) and `boxes`, a list of
            {"structure", "phase", "min", "max"} in voxels of the phase's stored volume.

    Raises:
        ValueError: no volume, an unreadable volume, one that is not HU, or a box outside its volume; names case and phase.
    """
    case_id = row["case_id"]
    images = {}
    for phase in Phase:
        if (cell := row.get(f"ct_{phase}")) is not None:
            images[phase] = _readable(case_id, phase, cell)
    if not images:
        raise ValueError(f"case {case_id} has no CT volume: it cannot be standardised")
    boxes = [_checked_box(case_id, raw, images) for raw in row.get("boxes") or ()]
    reference = next(phase for phase in REFERENCE_ORDER if phase in images)
    with _naming(case_id, reference):
        shape, affine = geometry.target_grid(images[reference], settings)
    hu = np.full((len(Phase), *shape), round(settings.pad_hu), np.int16)
    mean, std = [0.0] * len(Phase), [1.0] * len(Phase)
    for n, phase in enumerate(Phase):
        if phase in images:
            with _naming(case_id, phase):
                hu[n] = _standard_volume(images[phase], shape, affine, settings)
                mean[n], std[n] = zscore_statistics(hu[n])
    hu.flags.writeable = False
    mapped, lost = _map_boxes(boxes, images, shape, affine)
    present = np.array([phase in images for phase in Phase])
    return StandardCase(case_id, hu, present, mapped, affine, tuple(mean), tuple(std), settings.hash, lost)


class _naming:
    """Adds case and phase to the ValueError of a step that knows neither."""

    def __init__(self, case_id: str, phase: Phase):
        self.who = f"case {case_id}, {phase}"

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is not None and issubclass(kind, ValueError):
            raise ValueError(f"{self.who}: {error}") from error


def _readable(case_id: str, phase: Phase, cell):
    with _naming(case_id, phase):
        image = read_image(cell)
        colour = image.get_data_dtype().fields is not None
        if problem := volume_problem(image, None if colour else np.asanyarray(image.dataobj)):
            raise ValueError(f"the volume {problem}")
        return image


def _standard_volume(image, shape, affine, settings: Standardization) -> np.ndarray:
    import nibabel

    oriented = geometry.to_orientation(image, settings.orientation)
    clipped = clip_hu(np.asanyarray(oriented.dataobj), settings.clip)
    oriented = nibabel.Nifti1Image(clipped, oriented.affine, dtype=clipped.dtype)
    return np.rint(geometry.resample(oriented, shape, affine, settings.pad_hu)).astype(np.int16)


def _checked_box(case_id: str, raw: Mapping, images: Mapping) -> Box3D:
    who = f"case {case_id}, {raw['phase']}"
    try:
        box = Box3D(Structure(raw["structure"]), Phase.parse(raw["phase"]), tuple(raw["min"]), tuple(raw["max"]))
    except ValueError as e:
        raise ValueError(f"{who}: {e}") from e
    if box.phase not in images:
        raise ValueError(f"{who}: a {box.structure} box belongs to this phase, but the row has no volume of it to place the box in")
    if not box.inside(images[box.phase].shape):
        shape = tuple(images[box.phase].shape)
        raise ValueError(f"{who}: the {box.structure} box {box.min}..{box.max} lies outside its volume of shape {shape}")
    return box


def _map_boxes(boxes: list[Box3D], images, shape, affine) -> tuple[dict[Structure, list[tuple]], tuple[str, ...]]:
    mapped: dict[Structure, list[tuple]] = {}
    lost = []
    for structure in Structure:
        of_structure = [box for box in boxes if box.structure == structure]
        phase = next((p for p in REFERENCE_ORDER if any(box.phase == p for box in of_structure)), None)
        for box in of_structure:
            if box.phase != phase:
                continue
            placed = geometry.map_box(box.min, box.max, images[phase].affine, affine, shape)
            if placed is None:
                lost.append(f"{structure} box {box.min}..{box.max} of the {phase} volume lies outside the standardised grid")
            else:
                mapped.setdefault(structure, []).append(placed)
    return mapped, tuple(lost)
