"""95% intervals by resampling patients: all questions of a patient stay together, because they share one set of pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

CHUNK = 100
"""Resamples worked on at a time: 100 x 26,760 questions as float64 are 21 MB."""


def patient_bootstrap_weights(case_ids: Sequence[str], n: int = 1000, seed: int = 0) -> np.ndarray:
    """How often each question occurs in each resample of patients with replacement.

    Patients are taken in sorted order, so two runs over the same patients with the same seed get the same resamples.

    Args:
        case_ids: the patient of each of Q questions.
        n: number of resamples.

    Returns:
        (n, Q) counts, uint16; all questions of a patient have the patient's count.

    Raises:
        ValueError: there are no questions or no resamples.
    """
    if not len(case_ids) or n < 1:
        raise ValueError(f"cannot resample {len(case_ids)} questions {n} times: both must be at least 1")
    patients, index = np.unique(np.asarray(case_ids), return_inverse=True)
    draws = np.random.default_rng(seed).multinomial(len(patients), np.full(len(patients), 1 / len(patients)), size=n)
    return draws.astype(np.uint16)[:, index]


def percentile_interval(values: np.ndarray) -> tuple[float, float]:
    """2.5th and 97.5th percentile of the resampled scores; resamples in which the score is undefined (NaN) are left out."""
    defined = values[~np.isnan(values)]
    if not len(defined):
        return float("nan"), float("nan")
    low, high = np.percentile(defined, [2.5, 97.5])
    return float(low), float(high)


def bootstrap_intervals(scores: Callable[[np.ndarray], dict[str, np.ndarray]], weights: np.ndarray) -> dict[str, tuple[float, float]]:
    """Percentile interval of every score that a function of question weights returns.

    Args:
        scores: takes (r, Q) float weights and returns, by name, (r,) scores.
        weights: (R, Q) counts from `patient_bootstrap_weights`.
    """
    chunks = [scores(weights[start : start + CHUNK].astype(float)) for start in range(0, len(weights), CHUNK)]
    return {name: percentile_interval(np.concatenate([chunk[name] for chunk in chunks])) for name in chunks[0]}
