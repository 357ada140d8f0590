"""From a scored run to something one wants to look at: table.md, pictures, and the page."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from gastricx_hf.evaluation import figures, tables
from gastricx_hf.evaluation.baseline import MAJORITY
from gastricx_hf.evaluation.page import write_page
from gastricx_hf.evaluation.patient import row_figure
from gastricx_hf.evaluation.predictions import read_predictions
from gastricx_hf.evaluation.score import score_rows
from gastricx_hf.schema import Schema, Score


def oracle_accuracy(run: str | Path, posteriors: Mapping[Schema | None, Mapping[str, Mapping[str, float]]]) -> dict:
    """Accuracy (0-100) of phantom oracles on the very questions that the run answered, by the code that scores the model.

    Args:
        posteriors: schema (`None`: the question alone) -> question id -> answer -> probability.
    """
    rows = [row for row in read_predictions(next(iter(sorted((Path(run) / "predictions").glob("vqa-*.jsonl"))))) if row["options"]]
    found = {}
    for schema, by_question in posteriors.items():
        best = [_best_answer(row, by_question[row["example_id"]]) for row in rows]
        scores = score_rows(best, n_resamples=2)
        found[schema] = next(s.value for s in scores if s.metric == "accuracy" and s.group == "all")
    return found


def _best_answer(row: dict, posterior: Mapping[str, float]) -> dict:
    logprobs = [math.log(max(posterior.get(option, 0.0), 1e-12)) for option in row["options"]]
    best = max(range(len(logprobs)), key=logprobs.__getitem__)
    logprobs[best] += 1e-6  # equally likely answers: a reader picks one, where scoring counts an exact tie as wrong
    return {**row, "option_logprobs": logprobs, "prediction": row["options"][best]}


def write_report(
    run: str | Path,
    row: Mapping,
    scores: Sequence[Score],
    oracle: Mapping[Schema | None, float] | None = None,
    facts: Mapping[str, str] | None = None,
    next_commands: Sequence[tuple[str, str]] = (),
) -> Path:
    """Write `table.md`, the pictures and `page/index.html` of a run and return the page's path.

    Args:
        row: a dataset row of a patient of the scored split, for the picture.
        scores: as `score_run` returns them, baseline included if it was scored.
        oracle: of `oracle_accuracy`, for phantom runs.
    """
    run = Path(run)
    page = run / "page"
    page.mkdir(parents=True, exist_ok=True)
    (run / "table.md").write_text(tables.vqa_table(scores) + "\n", encoding="utf-8")
    ours = [score for score in scores if score.schema != "none"]
    chance = next((s.value for s in scores if s.metric == "accuracy" and s.group == "all" and s.provenance["model"] == MAJORITY), None)
    ceiling = oracle.get(None) if oracle else None
    by_schema = {str(schema): value for schema, value in oracle.items() if schema} if oracle else None
    pictures = {
        "patient": row_figure(row, page / "patient.png", title=f"Patient {row['case_id']}"),
        "schemas": figures.schemas_figure(ours, by_schema, chance, ceiling, page / "schemas.png"),
    }
    record = run / "training.json"
    losses = json.loads(record.read_text())["losses"] if record.is_file() else []
    if losses:
        pictures["training"] = figures.training_figure(losses, page / "training.png")
    return write_page(run, scores, pictures, facts or {}, next_commands=next_commands, case_id=row["case_id"])
