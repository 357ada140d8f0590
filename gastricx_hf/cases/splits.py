"""Train, validation and test: split by patient, stratified by overall stage, frozen by a hash.

The paper does not publish its split (facts.md: counts are read from the data), so 70/15/15 by patient is ours.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from gastricx_hf.cases.staging import parse_stage
from gastricx_hf.provenance import canonical_hash, write_json
from gastricx_hf.schema import Split

Splits = dict[Split, list[str]]


def make_splits(stages: Mapping[str, str | None], seed: int = 0, fractions: tuple[float, float, float] = (0.70, 0.15, 0.15)) -> Splits:
    """Divide patients into train, validation and test; the same patients and seed always give the same lists.

    The sizes are `fractions` of all patients by largest remainder, except that from three patients on no split is empty. Within
    each stage (sub-stages merged; not recorded is a stratum of its own) the sizes are within two patients of the fractions. The
    order of the input plays no part.

    Args:
        stages: case id -> overall stage, or None where it is not recorded.

    Raises:
        ValueError: no patients, fractions that are not three positive numbers adding up to 1, or an unreadable stage.
    """
    if not stages:
        raise ValueError("there are no patients to split")
    if len(fractions) != len(Split) or min(fractions) <= 0 or abs(sum(fractions) - 1) > 1e-9:
        raise ValueError(f"fractions {fractions}: expected three positive numbers (train, validation, test) that add up to 1")
    patients = sorted(stages, key=lambda case_id: (_stratum(case_id, stages[case_id]), _draw(case_id, seed)))
    # Splits take evenly spaced places in the stage-by-stage queue, so that every stretch of it has about the same mixture.
    places = sorted((((j + 0.5) / size, s) for s, size in enumerate(_sizes(len(patients), fractions)) for j in range(size)))
    splits: Splits = {split: [] for split in Split}
    for case_id, (_, s) in zip(patients, places, strict=True):
        splits[list(Split)[s]].append(case_id)
    return {split: sorted(ids) for split, ids in splits.items()}


def split_hash(splits: Mapping[Split, list[str]]) -> str:
    """sha256 (64 hex digits) of which patient is in which split, whatever the order of the lists."""
    return canonical_hash({str(split): sorted(splits[split]) for split in Split})


def save_splits(splits: Mapping[Split, list[str]], path: str | Path) -> None:
    """Write the lists with their hash as JSON.

    Raises:
        ValueError: a patient is listed twice.
    """
    _refuse_duplicates(splits, path)
    write_json(path, {"split_hash": split_hash(splits)} | {str(split): sorted(splits[split]) for split in Split})


def load_splits(path: str | Path) -> Splits:
    """Read what `save_splits` wrote.

    Raises:
        ValueError: not a splits file, a patient is listed twice, or the lists no longer match their hash.
        FileNotFoundError: no such file.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        splits: Splits = {split: [str(case_id) for case_id in content[split]] for split in Split}
        recorded = content["split_hash"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: not a splits file (needs split_hash, {', '.join(Split)}): build the dataset again") from error
    _refuse_duplicates(splits, path)
    if split_hash(splits) != recorded:
        raise ValueError(
            f"{path}: the lists do not match their split_hash, so the file was changed by hand: restore it or build the dataset again"
        )
    return splits


def _stratum(case_id: str, stage: str | None) -> str:
    try:
        return "" if stage is None else parse_stage(stage)
    except ValueError as error:
        raise ValueError(f"case {case_id}, overall stage: {error}; use None where it is not recorded") from error


def _draw(case_id: str, seed: int) -> str:
    return hashlib.sha256(f"{seed}:{case_id}".encode()).hexdigest()


def _sizes(n: int, fractions: tuple[float, ...]) -> list[int]:
    """Whole numbers that add up to n, by largest remainder; none is zero where n allows."""
    exact = [n * f for f in fractions]
    sizes = [int(x + 1e-9) for x in exact]
    by_remainder = sorted(range(len(exact)), key=lambda s: (sizes[s] - exact[s], s))
    for s in by_remainder[: n - sum(sizes)]:
        sizes[s] += 1
    while n >= len(sizes) and 0 in sizes:
        sizes[sizes.index(max(sizes))] -= 1
        sizes[sizes.index(0)] += 1
    return sizes


def _refuse_duplicates(splits: Mapping[Split, list[str]], path: str | Path) -> None:
    counts = Counter(case_id for split in Split for case_id in splits[split])
    twice = sorted(case_id for case_id, count in counts.items() if count > 1)
    if twice:
        raise ValueError(f"{path}: {len(twice)} patients are listed twice, first {twice[0]!r}: a patient belongs to one split")
