"""Intensities: clipping and the per-volume z-score (paper Appendix B, facts.md P33)."""

from __future__ import annotations

import numpy as np


def clip_hu(hu: np.ndarray, clip: tuple[float, float]) -> np.ndarray:
    """HU limited to [low, high], same shape; the type is kept unless it is unsigned, which cannot hold negative HU (float32 then)."""
    if hu.dtype.kind not in "if":
        hu = hu.astype(np.float32)
    return np.clip(hu, *(np.asarray(limit).astype(hu.dtype) for limit in clip))


def zscore_statistics(hu: np.ndarray) -> tuple[float, float]:
    """Mean and (population) standard deviation in HU over all voxels.

    Raises:
        ValueError: the volume is constant or holds NaN or infinite values, so it has no z-score.
    """
    mean, std = float(hu.mean(dtype=np.float64)), float(hu.std(dtype=np.float64))
    if not np.isfinite(mean) or not np.isfinite(std):
        raise ValueError("the volume holds NaN or infinite values and has no z-score")
    if std < 1e-6:
        raise ValueError(f"the volume is constant ({mean:g} HU) and has no z-score")
    return mean, std


def zscore(hu: np.ndarray) -> tuple[np.ndarray, float, float]:
    """(normalised float32 volume, mean, standard deviation); raises ValueError as `zscore_statistics`."""
    mean, std = zscore_statistics(hu)
    return apply_zscore(hu, mean, std), mean, std


def apply_zscore(hu: np.ndarray, mean: float, std: float) -> np.ndarray:
    """(hu - mean) / std as float32."""
    return (hu.astype(np.float32) - np.float32(mean)) / np.float32(std)
