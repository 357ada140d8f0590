"""Markdown tables of scores, in the paper's columns (Table 2a, facts.md P61)."""

from __future__ import annotations

from collections.abc import Iterable

from gastricx_hf.metrics.vqa.scoring import VARIANTS
from gastricx_hf.schema import Schema, Score

COLUMNS = {"precision": "Prec.", "accuracy": "Acc.", "f1": "F1", "auc": "AUC"}
OPEN_COLUMNS = {"exact_match": "Exact match", "token_f1": "Token F1"}
SCHEMA_NAMES = {
    "none": "no input",
    Schema.IMAGE: "Image",
    Schema.IMAGE_TABLE: "Image + Table",
    Schema.IMAGE_BBOX: "Image + BBox",
    Schema.IMAGE_TABLE_BBOX: "Image + Table + BBox",
}
PHANTOM_LABEL = "PHANTOM: synthetic patients, not scores on Gastric-X"


def is_phantom(scores: Iterable[Score]) -> bool:
    """Whether these scores come from phantom patients.

    Raises:
        ValueError: some do and some do not, or there are no scores; phantom and real scores are never shown together.
    """
    found = {bool(score.provenance["phantom"]) for score in scores}
    if not found:
        raise ValueError("no scores to show")
    if len(found) > 1:
        raise ValueError("phantom and real scores together: a table or figure shows one or the other")
    return found.pop()


def score_text(score: Score | None) -> str:
    """The score as "71.2 [68.1, 74.0]", or a dash where there is no score."""
    return "–" if score is None else f"{score.value:.1f} [{score.low:.1f}, {score.high:.1f}]"


def vqa_rows(scores: Iterable[Score], columns: Iterable[str] = COLUMNS) -> list[dict]:
    """One row per model and input schema over all questions: model, schema, n_items, n_patients, partial, and a score (or None)
    for each metric in `columns`: those of closed questions, or of open ones (OPEN_COLUMNS).

    Models come in the order in which they are given, schemas in the paper's order.
    """
    cells: dict[tuple[str, str], dict[str, Score]] = {}
    for score in scores:
        if score.task == "vqa" and score.group == "all" and score.metric in columns:
            model = score.provenance["model"]
            if score.metric in cells.setdefault((model, score.schema), {}):
                raise ValueError(f"two scores for {model}, {score.schema}, {score.metric}: one table shows each run once")
            cells[model, score.schema][score.metric] = score
    return [_row(model, schema, cells[model, schema], columns) for model, schema in _ordered(cells)]


def _ordered(runs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """(model, schema) pairs: models as they come, each with its schemas in the paper's order."""
    runs = list(runs)
    models, schemas = list(dict.fromkeys(model for model, _ in runs)), list(SCHEMA_NAMES)
    return sorted(dict.fromkeys(runs), key=lambda run: (models.index(run[0]), schemas.index(run[1])))


def _row(model: str, schema: str, found: dict[str, Score], columns: Iterable[str]) -> dict:
    any_score = next(iter(found.values()))
    counts = {"n_items": any_score.n_items, "n_patients": any_score.n_patients, "partial": any_score.provenance.get("partial", "")}
    return {"model": model, "schema": SCHEMA_NAMES[schema], **counts} | {metric: found.get(metric) for metric in columns}


def vqa_table(scores: Iterable[Score]) -> str:
    """Markdown: one row per model and input schema, 95% intervals in brackets; closed questions, then open ones if there are any.

    The paper prints the four schemas side by side; with an interval in every cell they stand below each other.

    Raises:
        ValueError: as `is_phantom`, or a model and schema occur twice.
    """
    scores = list(scores)
    label = f" ({PHANTOM_LABEL})" if is_phantom(scores) else ""
    lines = [f"## VQA{label}", ""]
    for title, columns in (("Closed questions", COLUMNS), ("Open questions", OPEN_COLUMNS)):
        rows = vqa_rows(scores, columns)
        if rows:
            header = ["Model", "Input", *columns.values(), "Questions", "Patients"]
            lines += [f"{title}:", "", *_markdown(header, [_line(row, columns) for row in rows]), ""]
            lines += [f"- {column}: `{VARIANTS[metric]}`" for metric, column in columns.items()] + [""]
    interval = scores[0].provenance.get("interval", "95%")
    return "\n".join([*lines, f"In brackets: {interval}. All scores are 0-100.", ""])


def questions_text(row: dict) -> str:
    """The number of questions of a row of `vqa_rows`, saying where it is only a part of the split."""
    return f"{row['n_items']} (partial: {row['partial']})" if row["partial"] else str(row["n_items"])


def _line(row: dict, columns: Iterable[str]) -> list[str]:
    return [row["model"], row["schema"], *(score_text(row[metric]) for metric in columns), questions_text(row), str(row["n_patients"])]


def category_rows(scores: Iterable[Score], metric: str = "accuracy") -> list[dict]:
    """One row per question category: category, n_items and scores by (model, schema)."""
    found = [score for score in scores if score.task == "vqa" and score.metric == metric and score.group.startswith("category=")]
    rows: dict[str, dict] = {}
    for score in found:
        row = rows.setdefault(score.group.removeprefix("category="), {"n_items": score.n_items, "scores": {}})
        row["scores"][score.provenance["model"], score.schema] = score
    return [{"category": name, **row} for name, row in sorted(rows.items())]


def run_columns(rows: list[dict]) -> list[tuple[str, str]]:
    """The (model, schema) pairs that occur in `category_rows`, in the order of their columns."""
    return _ordered(run for row in rows for run in row["scores"])


def category_table(scores: Iterable[Score], metric: str = "accuracy") -> str:
    """Markdown: one metric for each question category (paper Appendix D), a column per model and input schema.

    Raises:
        ValueError: as `is_phantom`.
    """
    scores = list(scores)
    label = f" ({PHANTOM_LABEL})" if is_phantom(scores) else ""
    rows = category_rows(scores, metric)
    columns = run_columns(rows)
    header = ["Category", "Questions", *(f"{model}, {SCHEMA_NAMES[schema]}" for model, schema in columns)]
    body = [[row["category"], str(row["n_items"]), *(score_text(row["scores"].get(key)) for key in columns)] for row in rows]
    return "\n".join([f"## {VARIANTS[metric]} by category{label}", "", *_markdown(header, body), ""])


def _markdown(header: list[str], body: list[list[str]]) -> list[str]:
    lines = [header, ["---"] * 2 + ["---:"] * (len(header) - 2), *body]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
