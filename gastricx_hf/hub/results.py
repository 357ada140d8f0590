"""The records of a run as publishing reads them, and its scores in the two forms that the Hub reads.

The forms are `.eval_results/gastric-x.yaml` and the card's model-index.

A score on phantom patients is never filed under Gastric-X: its dataset id is the user's own `<user>/gastric-x-phantom`, which no
leaderboard lists, and its text starts with PHANTOM.
"""

from __future__ import annotations

import json
import re
from importlib import import_module
from pathlib import Path

from gastricx_hf.schema import Schema, Score

DATASET_ID = "HaoChen2/Gastric-X"
PHANTOM_LABEL = "PHANTOM: not a score on Gastric-X, the patients are synthetic"
PIPELINES = {"vqa": "visual-question-answering"}
"""Task -> the Hub's name for it."""


def read_record(path: Path, run_dir: str | Path) -> dict:
    """A JSON object that a run must have.

    Raises:
        FileNotFoundError, ValueError: it is missing or broken; the message names the file and the way to make it.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: {run_dir} is not a finished run; make one with `gastricx train`")
    try:
        return dict(json.loads(path.read_text()))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} is not a JSON object ({error}): run `gastricx train` again") from None


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
        ValueError: scores.json is not a list of scores, or one does not say whether its patients are phantoms.
    """
    path = Path(run_dir) / "scores.json"
    if not path.is_file():
        return []
    try:
        scores = [Score(**record) for record in json.loads(path.read_text())]
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} is not a list of scores ({error}): run `gastricx score {run_dir}` again") from None
    for score in scores:
        if not isinstance(score.provenance.get("phantom"), bool):
            what = f"{score.task} {score.metric} ({score.schema})"
            raise ValueError(f"{path}: {what} does not say whether its patients are phantoms: run `gastricx score {run_dir}` again")
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


def dataset_id(score: Score, repo_id: str) -> str:
    """The Hub id of the dataset that a score is a score on."""
    return f"{repo_id.split('/')[0]}/gastric-x-phantom" if score.provenance["phantom"] else DATASET_ID


def describe(score: Score) -> str:
    """What a number means, in one line: label if phantom, schema, full metric name, interval, counts."""
    label = f"{PHANTOM_LABEL}; " if score.provenance["phantom"] else ""
    boxes = " (ground-truth boxes given)" if Schema(score.schema).bbox else ""
    interval = f"95% interval {score.low:.2f} to {score.high:.2f} from resampling {score.n_patients} patients, {score.n_items} items"
    return f"{label}input schema {score.schema}{boxes}; {score.variant}; {interval}; gastricx_hf {score.provenance['package_version']}"


def eval_results_yaml(scores: list[Score], repo_id: str) -> str:
    """Content of `.eval_results/gastric-x.yaml`: one entry per task, headline metric and input schema.

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
    return yaml.safe_dump(eval_result_entries_to_yaml(entries), sort_keys=False, allow_unicode=True, width=1000)


def card_results(scores: list[Score], repo_id: str) -> list:
    """The pooled scores as `huggingface_hub.EvalResult`, for the model-index of the card."""
    from huggingface_hub import EvalResult

    return [
        EvalResult(
            task_type=PIPELINES[score.task],
            dataset_type=dataset_id(score, repo_id),
            dataset_name="PHANTOM patients (not Gastric-X)" if score.provenance["phantom"] else "Gastric-X",
            dataset_config=score.task,
            dataset_revision=_commit(score),
            dataset_args={"schema": score.schema, "language": score.provenance["language"]},
            metric_type=score.metric,
            metric_name=describe(score),
            metric_value=round(score.value, 4),
            metric_config=score.variant,
        )
        for score in scores
        if score.group == "all" and score.metric in task_metrics(score.task)[1]
    ]


def _commit(score: Score) -> str | None:
    """The dataset's commit on the Hub; a local build has a sha256 instead, which is no commit."""
    revision = score.provenance["data_revision"]
    return revision if re.fullmatch(r"[0-9a-f]{40}", revision) else None
