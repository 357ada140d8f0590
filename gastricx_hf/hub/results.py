"""The records of a run as publishing reads them, and its scores in the two forms that the Hub reads.

The forms are `.eval_results/gastric-x.yaml` and the card's model-index.

A score on phantom patients is never filed under Gastric-X: its dataset id is the user's own `<user>/gastric-x-phantom`, which no
leaderboard lists, and its text starts with PHANTOM.
"""

from __future__ import annotations

import dataclasses
import json
import re
from importlib import import_module
from pathlib import Path

from gastricx_hf.provenance import Provenance
from gastricx_hf.schema import Schema, Score

DATASET_ID = "HaoChen2/Gastric-X"
PHANTOM_LABEL = "PHANTOM: not a score on Gastric-X, the patients are synthetic"
PIPELINES = {"vqa": "visual-question-answering"}
"""Task -> the Hub's name for it."""


def read_record(path: Path, run_dir: str | Path, fields: tuple[str, ...] = ()) -> dict:
    """A JSON object that a run must have, with at least these fields.

    Raises:
        FileNotFoundError, ValueError: it is missing, broken or lacks a field; the message names file, field and the way to make it.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: {run_dir} is not a finished run; make one with `gastricx train`")
    try:
        record = dict(json.loads(path.read_text()))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} is not a JSON object ({error}): run `gastricx train` again") from None
    if missing := [field for field in fields if field not in record]:
        raise ValueError(f"{path} lacks {', '.join(missing)}: run `gastricx train` again")
    return record


def read_provenance(run_dir: str | Path) -> dict:
    """What the run's checkpoint was trained on and with (the fields of `provenance.Provenance`)."""
    names = tuple(field.name for field in dataclasses.fields(Provenance))
    return read_record(Path(run_dir) / "checkpoint" / "gastricx_provenance.json", run_dir, names)


def config_name(predictions: Path) -> str:
    """Name of a predictions file as a dataset configuration: "vqa-image+table.jsonl" is "vqa-image-table"."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", predictions.stem)


def prediction_files(run_dir: str | Path) -> list[Path]:
    """The predictions of a run, in the order of the input schemas."""
    order = [str(schema) for schema in Schema]
    files = sorted((Path(run_dir) / "predictions").glob("*.jsonl"))
    return sorted(files, key=lambda p: (order.index(p.stem.partition("-")[2]) if p.stem.partition("-")[2] in order else 99, p.name))


def read_scores(run_dir: str | Path) -> list[Score]:
    """The scores of a run, by task, schema and group; empty if it has not been scored.

    Raises:
        ValueError: scores.json is not a list of scores.
    """
    path = Path(run_dir) / "scores.json"
    if not path.is_file():
        return []
    try:
        scores = [Score(**record) for record in json.loads(path.read_text())]
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} is not a list of scores ({error}): run `gastricx score {run_dir}` again") from None
    order = list(Schema)
    return sorted(scores, key=lambda s: (s.task, order.index(Schema(s.schema)), s.group != "all", s.group))


def read_predictions(path: Path) -> list[dict]:
    """The lines of a predictions file.

    Raises:
        ValueError: a line is not one; the message names file and line.
    """
    lines = []
    for n, text in enumerate(path.read_text().splitlines(), 1):
        try:
            line = json.loads(text)
            line["provenance"].get("phantom")
        except (ValueError, TypeError, KeyError, AttributeError):
            raise ValueError(f"{path} line {n} is not a prediction with its provenance: run `gastricx predict` again") from None
        lines.append(line)
    return lines


def task_metrics(task: str) -> tuple[str, tuple[str, ...]]:
    """A task's headline metric, and all its metrics in the order of the paper's table."""
    module = import_module(f"gastricx_hf.tasks.{task}")
    return module.HEADLINE, module.METRICS


def is_phantom(score: Score) -> bool:
    """Whether a score is on synthetic patients; one that does not say is not taken for real."""
    return score.provenance.get("phantom") is not False


def dataset_id(score: Score, repo_id: str) -> str:
    """The Hub id of the dataset that a score is a score on."""
    return f"{repo_id.split('/')[0]}/gastric-x-phantom" if is_phantom(score) else DATASET_ID


def label(score: Score) -> str:
    """What a number on synthetic patients starts with; nothing for any other."""
    return f"{PHANTOM_LABEL}; " if is_phantom(score) else ""


def describe(score: Score) -> str:
    """What a number means, in one line: label if phantom, schema, full metric name, interval, counts."""
    boxes = " (ground-truth boxes given)" if Schema(score.schema).bbox else ""
    interval = f"95% interval {score.low:.2f} to {score.high:.2f} from resampling {score.n_patients} patients, {score.n_items} items"
    return (
        f"{label(score)}input schema {score.schema}{boxes}; {score.variant}; {interval}; gastricx_hf {score.provenance['package_version']}"
    )


def eval_results_yaml(scores: list[Score], repo_id: str) -> str:
    """Content of `.eval_results/gastric-x.yaml`: one entry per task, headline metric and input schema; "" if there is none.

    The task id is `<task>_<metric>`, as in the dataset's eval.yaml; the schema, the interval and the full metric name are in the notes.
    """
    import yaml
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

    entries = [
        EvalResultEntry(
            dataset_id=dataset_id(score, repo_id),
            task_id=f"{score.task}_{score.metric}",
            value=round(score.value, 4),
            dataset_revision=_commit(score),
            notes=describe(score),
        )
        for score in scores
        if score.group == "all" and score.metric == task_metrics(score.task)[0]
    ]
    return yaml.safe_dump(eval_result_entries_to_yaml(entries), sort_keys=False, allow_unicode=True, width=1000) if entries else ""


def card_results(scores: list[Score], repo_id: str) -> list:
    """The pooled scores as `huggingface_hub.EvalResult`, for the model-index of the card."""
    from huggingface_hub import EvalResult

    return [
        EvalResult(
            task_type=PIPELINES[score.task],
            dataset_type=dataset_id(score, repo_id),
            dataset_name="PHANTOM patients (not Gastric-X)" if is_phantom(score) else "Gastric-X",
            dataset_config=score.task,
            dataset_revision=_commit(score),
            metric_type=score.metric,
            metric_name=f"{label(score)}{score.metric}, {score.schema}, 95% interval {score.low:.2f} to {score.high:.2f}",
            metric_value=round(score.value, 4),
            metric_config=score.variant,
            metric_args={"schema": score.schema},  # not dataset_args: the library merges results of one dataset configuration
        )
        for score in scores
        if score.group == "all" and score.metric in task_metrics(score.task)[1]
    ]


def _commit(score: Score) -> str | None:
    """The dataset's commit on the Hub; a local build has a sha256 instead, which is no commit."""
    revision = score.provenance["data_revision"]
    return revision if re.fullmatch(r"[0-9a-f]{40}", revision) else None
