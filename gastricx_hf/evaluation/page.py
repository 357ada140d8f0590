"""One self-contained HTML page about a run: what it is, what the model saw, what it answered, how good that is."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from gastricx_hf.evaluation import tables
from gastricx_hf.evaluation.predictions import read_predictions
from gastricx_hf.metrics.vqa.scoring import VARIANTS, exact_match
from gastricx_hf.schema import Schema, Score

TEMPLATE = Path(__file__).with_name("page.html")
FIGURES = ("patient", "schemas", "training")


def write_page(
    run_dir: str | Path,
    scores: Sequence[Score],
    figures: Mapping[str, str | Path],
    facts: Mapping[str, str],
    out: str | Path | None = None,
    next_commands: Sequence[tuple[str, str]] = (),
    case_id: str | None = None,
) -> Path:
    """Write the page of a run; pictures are embedded and nothing is loaded from elsewhere.

    Args:
        run_dir: the run folder; example answers come from its predictions/vqa-*.jsonl.
        scores: of this run and its baselines, as `score_run` returns them.
        figures: "patient", "schemas" and "training" -> PNG; one that is absent is left out.
        facts: what was run, shown in this order above the provenance.
        out: where to write; default <run_dir>/page/index.html.
        next_commands: (command, what it does) to try next.
        case_id: the patient whose answers are shown; default the first of the predictions.

    Returns:
        The path of the page.

    Raises:
        ValueError: phantom and real scores together, an unknown figure, or this patient has no predictions.
    """
    import jinja2

    unknown = sorted(set(figures) - set(FIGURES))
    if unknown:
        raise ValueError(f"unknown figures {unknown}: the page shows {', '.join(FIGURES)}")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.globals |= {"questions_text": tables.questions_text, "variants": VARIANTS}
    category_rows = tables.category_rows(scores)
    html = environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        phantom=tables.is_phantom(scores),
        phantom_label=tables.PHANTOM_LABEL,
        headline=_headline(scores),
        figures={name: _embedded(figures[name]) if name in figures else None for name in FIGURES},
        tables=[(columns, rows) for columns in (tables.COLUMNS, tables.OPEN_COLUMNS) if (rows := tables.vqa_rows(scores, columns))],
        category_rows=category_rows,
        category_columns=tables.run_columns(category_rows),
        schema_names=tables.SCHEMA_NAMES,
        examples=_examples(Path(run_dir), case_id),
        facts={**facts, **_provenance(scores)},
        next_commands=next_commands,
    )
    out = Path(out) if out else Path(run_dir) / "page" / "index.html"
    out.parent.mkdir(parents=True, exist_ok=True)
    aside = out.with_name(out.name + ".part")
    aside.write_text(html, encoding="utf-8")
    aside.replace(out)
    return out


def _headline(scores: Sequence[Score]) -> dict:
    """Accuracy of the model with the richest schema it was scored with, and of the baseline if it was scored."""
    accuracy = [score for score in scores if score.metric == "accuracy" and score.group == "all"]
    model = [score for score in accuracy if score.schema != "none"]
    if not model:
        raise ValueError("no accuracy on closed questions among the scores: nothing to head the page with")
    return {
        "score": max(model, key=lambda score: list(Schema).index(Schema(score.schema))),
        "baseline": next((score for score in accuracy if score.schema == "none"), None),
    }


def _embedded(path: str | Path) -> str:
    return "data:image/png;base64," + base64.b64encode(Path(path).read_bytes()).decode("ascii")


def _provenance(scores: Sequence[Score]) -> dict[str, str]:
    """The provenance of the model's scores, words spaced and hashes cut to twelve digits."""
    stamp = next(score.provenance for score in scores if score.schema != "none")
    return {key.replace("_", " "): str(value)[:12] if key.endswith(("hash", "revision")) else str(value) for key, value in stamp.items()}


def _examples(run: Path, case_id: str | None) -> dict:
    """The first question of each category of one patient, with the answer under each schema: not chosen by correctness."""
    by_schema = {}
    for path in sorted((run / "predictions").glob("vqa-*.jsonl")):
        rows = read_predictions(path)
        case_id = case_id or rows[0]["case_id"]
        by_schema[rows[0]["schema"]] = {row["example_id"]: row for row in rows if row["case_id"] == case_id}
    schemas = [schema for schema in Schema if schema in by_schema]
    if not any(by_schema.values()):
        raise ValueError(f"{run / 'predictions'}: no predictions for patient {case_id}; choose a patient of the predicted split")
    firsts: dict[str, dict] = {}
    for row in by_schema[schemas[0]].values():
        firsts.setdefault(row["category"], row)
    questions = []
    for row in firsts.values():
        found = (by_schema[schema].get(row["example_id"]) for schema in schemas)
        questions.append({**row, "answers": [answer and _answer(answer) for answer in found]})
    return {"case_id": case_id, "schemas": schemas, "questions": questions}


def _answer(row: dict) -> dict:
    """What the model said, whether it is right, and for a closed question the probability of its answer among the options."""
    best = max(row["option_logprobs"], default=0.0)
    probability = 1 / sum(math.exp(value - best) for value in row["option_logprobs"]) if row["options"] else None
    return {"text": row["prediction"], "right": bool(exact_match(row["prediction"], row["reference"])), "probability": probability}
