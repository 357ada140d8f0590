"""bbox.json of the released tree: `zyx_min`/`zyx_max` corners to half-open boxes in nibabel's (i, j, k) order."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from gastricx_hf.schema import Box3D, Phase, Structure
from gastricx_hf.sources.fields import expected, pick, read_json

log = logging.getLogger(__name__)

BOX_FILE = "bbox.json"
CASES_COMPARED = 5
FALLBACK = (Phase.VENOUS, Phase.DELAYED, Phase.NON_CONTRAST)
"""Where a box is looked for when the patient has no arterial volume (189 patients of the release at least)."""


def read_boxes(path: Path, volumes: dict[Phase, str], max_inclusive: bool | None) -> tuple[Box3D, ...]:
    """Boxes of one patient, in voxels of the phase that they belong to.

    The phase is the file's "phase" key, else arterial; if that volume is absent, the first of venous, delayed, non-contrast whose
    grid contains every box (the first present where none does: an audit then reports the box).

    Args:
        path: bbox.json.
        volumes: the patient's phases.
        max_inclusive: whether `zyx_max` is the last voxel inside; None is read as not inclusive.

    Raises:
        ValueError: a field is unknown, or a box is malformed, empty or negative; the message names the file and the box.
    """
    corners, phase = _corners(path)
    ranges = [(structure, low, [m + 1 for m in high] if max_inclusive else high) for structure, low, high in corners]
    if phase not in volumes and volumes:
        present = [p for p in FALLBACK if p in volumes] or list(volumes)
        phase = next((p for p in present if all(_fits(high, _shape(volumes[p])) for *_, high in ranges)), present[0])
    boxes = []
    for structure, low, high in ranges:
        try:
            boxes.append(Box3D(structure, phase, tuple(low), tuple(high)))
        except ValueError as error:
            kind = "inclusive" if max_inclusive else "not inclusive"
            raise ValueError(f"{path}: {error} (i, j, k order, zyx_max read as {kind}). Correct or remove the box.") from error
    return tuple(boxes)


def decide_box_convention(root: str | Path) -> bool | None:
    """Whether `zyx_max` is inclusive in this release, told by the lesion boxes and tumour masks of up to five patients.

    On each axis where the boxes start exactly where the mask does, the end votes: on the mask's last voxel (inclusive) or one
    past it (not inclusive).

    Returns:
        True, False, or None where no mask can tell; boxes are then read as not inclusive.
    """
    votes: Counter = Counter()
    compared = 0
    for path in sorted(Path(root, "imaging").glob(f"*/{BOX_FILE}")):
        found = _votes(path)
        compared += bool(found)
        votes.update(found)
        if compared == CASES_COMPARED:
            break
    if votes[True] == votes[False]:
        log.warning("%s: no tumour mask tells whether zyx_max is inclusive; boxes are read as not inclusive", root)
        return None
    if votes[True] and votes[False]:
        log.warning("%s: tumour masks disagree on whether zyx_max is inclusive: %d axes say yes, %d no", root, votes[True], votes[False])
    return votes[True] > votes[False]


def _votes(path: Path) -> list[bool]:
    """One vote per axis that can tell; empty for a patient without lesion box or readable mask."""
    import numpy as np

    corners, phase = _corners(path)
    lesions = [(low, high) for structure, low, high in corners if structure == Structure.TUMOR]
    masks = [path.parent / f"{p}_tumor_mask.nii.gz" for p in (phase, *FALLBACK)]
    mask_file = next((m for m in masks if m.is_file()), None)
    if not lesions or mask_file is None:
        return []
    mask = _mask(mask_file)
    if mask is None or not mask.any():
        return []
    votes = []
    for axis in range(3):
        inside = np.flatnonzero(mask.any(axis=tuple(a for a in range(3) if a != axis)))
        low, high = min(b[0][axis] for b in lesions), max(b[1][axis] for b in lesions)
        if low == inside[0] and high in (inside[-1], inside[-1] + 1):
            votes.append(bool(high == inside[-1]))
    return votes


def _mask(path: Path):
    """The mask as a boolean (i, j, k) array, or None if the file cannot be read: an audit reports it."""
    import nibabel
    import numpy as np

    try:
        mask = np.asarray(nibabel.load(path).dataobj)
    except Exception as error:
        log.warning("%s cannot be read and is not used to decide the box convention: %s", path, error)
        return None
    return mask > 0 if mask.ndim == 3 else None


def _corners(path: Path) -> tuple[list[tuple[Structure, list[int], list[int]]], Phase]:
    """(structure, first, last) in (i, j, k) order as stored, and the phase that the file names (arterial if none)."""
    content = read_json(path)
    if not isinstance(content, dict):
        raise ValueError(f"{path}: expected a JSON object, found {type(content).__name__}")
    known, unknown = pick(content, "box")
    phase = Phase.parse(known.pop("phase", Phase.ARTERIAL))
    if unknown and not known:
        raise ValueError(f"{path}: found {unknown}, expected {expected('box')}")
    if unknown:
        log.warning("%s: fields %s are not recognised and not read: expected %s", path, unknown, expected("box"))
    corners = []
    for structure, boxes in known.items():
        for n, box in enumerate([boxes] if isinstance(boxes, dict) else boxes or []):
            corners.append((Structure(structure), *_ijk(box, f"{path}: {structure} box {n}")))
    return corners, phase


def _ijk(box, where: str) -> Iterator[list[int]]:
    corner, _ = pick(box if isinstance(box, dict) else {}, "corner")
    for end in ("min", "max"):
        zyx = corner.get(end)
        if not isinstance(zyx, list) or len(zyx) != 3 or not all(isinstance(x, int | float) and x == int(x) for x in zyx):
            raise ValueError(f"{where}: found {box}, expected whole voxel indices as {expected('corner')}, each [z, y, x]")
        yield [int(x) for x in reversed(zyx)]


def _shape(path: str) -> tuple[int, ...]:
    """Shape from the header; empty if it cannot be read, so that nothing fits (an audit reports the file)."""
    import nibabel

    try:
        return nibabel.load(path).shape
    except Exception as error:
        log.warning("%s cannot be read: %s", path, error)
        return ()


def _fits(high: list[int], shape: tuple[int, ...]) -> bool:
    return len(shape) == 3 and all(h <= n for h, n in zip(high, shape, strict=True))
