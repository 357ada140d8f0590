"""From a predictions file alone to scores with intervals; no model and no dataset is opened."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import numpy as np

from gastricx_hf.evaluation.baseline import majority_baseline
from gastricx_hf.evaluation.intervals import bootstrap_intervals, patient_bootstrap_weights
from gastricx_hf.evaluation.predictions import check_predictions, kind, read_predictions, refuse
from gastricx_hf.metrics.vqa.scoring import VARIANTS, closed_scores, encode_closed, encode_open, open_scores
from gastricx_hf.provenance import write_json
from gastricx_hf.schema import Score


def score_rows(rows: list[dict], n_resamples: int = 1000, seed: int = 0) -> list[Score]:
    """Scores of one run on `vqa`: group "all" and one group per category; closed and open questions apart.

    The interval is the 95% percentile interval over resamples of patients. A score that is undefined is left out
    (AUC where every answer is the same).

    Raises:
        ValueError: as `read_predictions`, or the task is not vqa.
    """
    check_predictions(rows)
    if rows[0]["task"] != "vqa":
        raise ValueError(f"no scores are defined for task {rows[0]['task']!r}; known: vqa")
    weights = patient_bootstrap_weights([row["case_id"] for row in rows], n_resamples, seed)
    categories = np.array([row["category"] for row in rows])
    kinds = np.array([kind(row) for row in rows])
    groups = {"all": np.ones(len(rows), dtype=bool)} | {f"category={name}": categories == name for name in np.unique(categories)}
    provenance = {**rows[0]["provenance"], "interval": f"95% percentile, {n_resamples} resamples of patients, seed {seed}"}
    scores = []
    for group, mask in groups.items():
        for answer_type in ("closed", "open"):
            chosen = np.flatnonzero(mask & (kinds == answer_type))
            if len(chosen):
                scores += _group_scores([rows[i] for i in chosen], group, weights[:, chosen], provenance)
    return scores


def _group_scores(rows: list[dict], group: str, weights: np.ndarray, provenance: dict) -> list[Score]:
    """Scores of rows of one kind; weights (R, Q)."""
    case_ids = [row["case_id"] for row in rows]
    patients = np.unique(case_ids, return_inverse=True)[1]
    references = [row["reference"] for row in rows]
    if rows[0]["options"]:
        answers = encode_closed([row["options"] for row in rows], [row["option_logprobs"] for row in rows], references)
        scores = partial(closed_scores, answers, patients)
    else:
        answers = encode_open([row["prediction"] for row in rows], references)
        scores = partial(open_scores, answers, patients)
    intervals = bootstrap_intervals(scores, weights)
    return [
        Score(
            task=rows[0]["task"],
            schema=rows[0]["schema"],
            metric=metric,
            variant=VARIANTS[metric],
            group=group,
            value=round(value, 9),  # so that rounding errors of sums do not show
            low=round(intervals[metric][0], 9),
            high=round(intervals[metric][1], 9),
            n_patients=len(set(case_ids)),
            n_items=len(rows),
            provenance=provenance,
        )
        for metric, value in scores().items()
        if not math.isnan(value)
    ]


def score_file(
    path: str | Path, n_resamples: int = 1000, seed: int = 0, expected_ids: Iterable[str] | None = None, allow_partial: bool = False
) -> list[Score]:
    """Scores of one predictions file.

    Args:
        expected_ids: the example ids of the whole split; a file that lacks some is refused, or with `allow_partial`
            scored with "partial" in its provenance.

    Raises:
        ValueError: as `read_predictions`, or predictions are missing, or are not of this split.
    """
    rows = read_predictions(path)
    if expected_ids is not None:
        rows = _complete(rows, set(expected_ids), path, allow_partial)
    return score_rows(rows, n_resamples, seed)


def _complete(rows: list[dict], expected: set[str], name: str | Path, allow_partial: bool) -> list[dict]:
    found = {row["example_id"] for row in rows}
    refuse(name, sorted(found - expected), "an example_id that is not in the split")
    if not expected - found:
        return rows
    if not allow_partial:
        refuse(name, sorted(expected - found), f"no prediction, of {len(expected)} expected (allow_partial scores what is there)")
    note = f"{len(found)} of {len(expected)} questions"
    return [{**row, "provenance": {**row["provenance"], "partial": note}} for row in rows]


def score_run(
    run: str | Path,
    expected_ids: Iterable[str] | None = None,
    train_rows: list[dict] | None = None,
    allow_partial: bool = False,
    n_resamples: int = 1000,
    seed: int = 0,
) -> list[Score]:
    """Score every `predictions/*.jsonl` of a run; the model's scores go to its `scores.json`, a baseline's to `baselines.json`.

    Args:
        expected_ids: see `score_file`; without it the files must agree with each other.
        train_rows: training rows (category, options, answer); with them the majority answer is scored beside the model.

    Returns:
        The baseline's scores, then those of each file.

    Raises:
        FileNotFoundError: the run has no predictions.
        ValueError: as `score_file`, or the files are of different data, splits or languages.
    """
    run = Path(run)
    files = sorted((run / "predictions").glob("*.jsonl"))
    if not files:
        raise FileNotFoundError(f"{run / 'predictions'} has no .jsonl file: make predictions first with `gastricx predict`")
    tables = {path: read_predictions(path) for path in files}
    whole = {row["example_id"] for rows in tables.values() for row in rows} if expected_ids is None else set(expected_ids)
    tables = {path: _complete(rows, whole, path, allow_partial) for path, rows in tables.items()}
    for field in ("data_revision", "split_hash", "language", "phantom"):
        values = {str(rows[0]["provenance"].get(field)) for rows in tables.values()}
        if len(values) > 1:
            raise ValueError(f"{run}: the predictions files differ in {field}: {sorted(values)}; keep one run per folder")
    scores = [score for rows in tables.values() for score in score_rows(rows, n_resamples, seed)]
    write_json(run / "scores.json", [score.as_dict() for score in scores])
    if train_rows is None:
        return scores
    baseline = score_rows(majority_baseline(tables[files[0]], train_rows), n_resamples, seed)
    write_json(run / "baselines.json", [score.as_dict() for score in baseline])
    return baseline + scores
