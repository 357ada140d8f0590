"""Standardised cases as what a visual encoder takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gastricx_hf.inputs.overlay import box_masks
from gastricx_hf.preprocessing.intensity import apply_zscore
from gastricx_hf.preprocessing.pipeline import StandardCase
from gastricx_hf.schema import Schema


@dataclass(frozen=True)
class VolumeInput:
    """One patient's volume for a model; P = 4 phases in the order of `Phase`, S = 3 structures in that of `Structure`.

    Attributes:
        pixel_values: (P, X, Y, Z) float32, z-scored per phase; a missing phase is 0 throughout, the mean of a present one.
        phase_mask: (P,) bool, True where the phase exists.
        box_mask: (S, X, Y, Z) uint8, 1 inside the reference boxes; None where the schema shows none.
        spacing: mm along (i, j, k).
    """

    pixel_values: np.ndarray
    phase_mask: np.ndarray
    box_mask: np.ndarray | None
    spacing: tuple[float, float, float]


def channels3d(standard_case: StandardCase, schema: Schema | str) -> VolumeInput:
    """Phases as channels of one 3D volume; boxes as further channels only in the bbox schemas."""
    case = standard_case
    pixels = np.zeros(case.hu.shape, np.float32)
    for n in np.flatnonzero(case.phase_mask):
        pixels[n] = apply_zscore(case.hu[n], case.mean[n], case.std[n])
    boxes = box_masks(case) if Schema(schema).bbox else None
    return VolumeInput(pixels, case.phase_mask.copy(), boxes, case.spacing)
