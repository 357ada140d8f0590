"""Markdown tables of scores, in the paper's columns (Table 2a, facts.md P61)."""

from __future__ import annotations

from collections.abc import Iterable

from gastricx_hf.metrics.vqa.scoring import VARIANTS
from gastricx_hf.schema import Schema, Score

COLUMNS = {"precision": "Prec.", "accuracy": "Acc.", "f1": "F1", "auc": "AUC"}
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


def vqa_rows(scores: Iterable[Score], group: str = "all") -> list[dict]:
    """One row per model and input schema: model, schema, n_items, n_patients and the four scores by metric name.

    Models come in the order in which they are given, schemas in the paper's order.
    """
    cells: dict[tuple[str, str], dict[str, Score]] = {}
    models = []
    for score in scores:
        if score.task == "vqa" and score.group == group and score.metric in COLUMNS:
            model = score.provenance["model"]
            models += [] if model in models else [model]
            if score.metric in cells.setdefault((model, score.schema), {}):
                raise ValueError(f"two scores for {model}, {score.schema}, {score.metric}: one table shows each run once")
            cells[model, score.schema][score.metric] = score
    order = list(SCHEMA_NAMES)
    keys = sorted(cells, key=lambda key: (models.index(key[0]), order.index(key[1])))
    return [_row(model, schema, cells[model, schema]) for model, schema in keys]


def _row(model: str, schema: str, found: dict[str, Score]) -> dict:
    any_score = next(iter(found.values()))
    counts = {"n_items": any_score.n_items, "n_patients": any_score.n_patients, "partial": any_score.provenance.get("partial", "")}
    return {"model": model, "schema": SCHEMA_NAMES[schema], **counts} | {metric: found.get(metric) for metric in COLUMNS}


def vqa_table(scores: Iterable[Score]) -> str:
    """Markdown: closed questions of `vqa`, one row per model and input schema, 95% intervals in brackets.

    The paper prints the four schemas side by side; with an interval in every cell they stand below each other.

    Raises:
        ValueError: as `is_phantom`, or a model and schema occur twice.
    """
    scores = list(scores)
    title = "VQA, closed questions" + (f" ({PHANTOM_LABEL})" if is_phantom(scores) else "")
    rows = vqa_rows(scores)
    header = ["Model", "Input", *COLUMNS.values(), "Questions", "Patients"]
    body = [
        [row["model"], row["schema"], *(score_text(row[metric]) for metric in COLUMNS), _questions(row), str(row["n_patients"])]
        for row in rows
    ]
    notes = [f"- {column}: `{VARIANTS[metric]}`" for metric, column in COLUMNS.items()]
    interval = next(score.provenance.get("interval", "95%") for score in scores)
    return "\n".join([f"## {title}", "", *_markdown(header, body), "", f"In brackets: {interval}. All scores are 0-100.", "", *notes, ""])


def _questions(row: dict) -> str:
    return f"{row['n_items']} (partial: {row['partial']})" if row["partial"] else str(row["n_items"])


def category_rows(scores: Iterable[Score], metric: str = "accuracy") -> list[dict]:
    """One row per question category: category, n_items and the score of each model and schema by "model, schema"."""
    found = [score for score in scores if score.task == "vqa" and score.metric == metric and score.group.startswith("category=")]
    rows: dict[str, dict] = {}
    for score in found:
        row = rows.setdefault(score.group.removeprefix("category="), {"n_items": score.n_items, "scores": {}})
        row["scores"][score.provenance["model"], SCHEMA_NAMES[score.schema]] = score
    return [{"category": name, **row} for name, row in sorted(rows.items())]


def category_table(scores: Iterable[Score], metric: str = "accuracy") -> str:
    """Markdown: one metric for each question category (paper Appendix D), a column per model and input schema.

    Raises:
        ValueError: as `is_phantom`.
    """
    scores = list(scores)
    label = f" ({PHANTOM_LABEL})" if is_phantom(scores) else ""
    rows = category_rows(scores, metric)
    columns = list(dict.fromkeys(key for row in rows for key in row["scores"]))
    header = ["Category", "Questions", *(", ".join(key) for key in columns)]
    body = [[row["category"], str(row["n_items"]), *(score_text(row["scores"].get(key)) for key in columns)] for row in rows]
    return "\n".join([f"## {VARIANTS[metric]} by category{label}", "", *_markdown(header, body), ""])


def _markdown(header: list[str], body: list[list[str]]) -> list[str]:
    lines = [header, ["---"] * 2 + ["---:"] * (len(header) - 2), *body]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
