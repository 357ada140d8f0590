"""Boxes as model input: mask channels for 3D towers, coloured outlines on RGB slices (paper Section 4, facts.md P52)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from gastricx_hf.preprocessing.pipeline import StandardCase
from gastricx_hf.schema import Structure

COLOURS = {Structure.TUMOR: (255, 0, 0), Structure.LYMPH_NODE: (255, 255, 0), Structure.STOMACH: (0, 255, 255)}
"""RGB outline of each structure: red, yellow, cyan. The paper does not name its colours."""
LINE_WIDTH = 1
"""Pixels; unspecified in the paper."""


def box_masks(standard_case: StandardCase, structures: Iterable[Structure] = tuple(Structure)) -> np.ndarray:
    """One channel per structure, 1 inside its boxes and 0 elsewhere: (S, X, Y, Z) uint8. A structure without box is all 0."""
    structures = tuple(structures)
    masks = np.zeros((len(structures), *standard_case.hu.shape[1:]), np.uint8)
    for channel, structure in zip(masks, structures, strict=True):
        for low, high in standard_case.boxes.get(Structure(structure), ()):
            channel[tuple(slice(a, b) for a, b in zip(low, high, strict=True))] = 1
    return masks


def slice_boxes(standard_case: StandardCase, index: int, axis: int = 2) -> list[tuple[Structure, tuple, tuple]]:
    """The boxes that slice `index` along `axis` cuts: (structure, min, max) in the slice's two remaining axes, half-open."""
    kept = [a for a in range(3) if a != axis]
    return [
        (structure, tuple(low[a] for a in kept), tuple(high[a] for a in kept))
        for structure, found in standard_case.boxes.items()
        for low, high in found
        if low[axis] <= index < high[axis]
    ]


def draw_overlay(
    rgb: np.ndarray,
    boxes: Iterable[tuple[Structure, tuple, tuple]],
    colours: Mapping[Structure, tuple[int, int, int]] = COLOURS,
    line_width: int = LINE_WIDTH,
) -> np.ndarray:
    """A copy of an RGB slice with the outline of each box drawn inside its border.

    Args:
        rgb: (A, B, 3) uint8; A and B are the array axes that the boxes are given in.
        boxes: (structure, min, max), each corner (a, b), half-open, as `slice_boxes` gives them.

    Raises:
        ValueError: not an RGB slice of 8 bits.
    """
    if rgb.ndim != 3 or rgb.shape[2] != 3 or rgb.dtype != np.uint8:
        raise ValueError(f"draw_overlay needs an (A, B, 3) uint8 slice, not {rgb.shape} {rgb.dtype}: window the slice to 8-bit RGB first")
    picture = rgb.copy()
    for structure, low, high in boxes:
        outline = np.zeros(rgb.shape[:2], bool)
        outline[low[0] : high[0], low[1] : high[1]] = True
        outline[low[0] + line_width : high[0] - line_width, low[1] + line_width : high[1] - line_width] = False
        picture[outline] = colours[Structure(structure)]
    return picture
