"""Gastric-X VQA as an `evaluate` module: `evaluate.load("<folder of this file>")` opens it without network.

The definitions are in `scoring.py` beside it. The loader of `evaluate` reads one `import` a line.
"""

import datasets
import evaluate
import numpy

from .scoring import VARIANTS, closed_scores, encode_closed, encode_open, open_scores

_DESCRIPTION = """\
Scores of Gastric-X visual question answering. Closed questions (with options) are scored by the log-probability of each
option: macro precision, accuracy, macro F1, macro one-vs-rest AUC. Open questions (no options) are scored apart by exact
match and token F1. All scores are 0-100, and each key is the full name of its variant."""

_INPUTS = """
Args:
    predictions: one dict per question, {"prediction": str, "options": [str], "option_logprobs": [float]};
        `options` and `option_logprobs` are empty for an open question, `prediction` is not read for a closed one.
    references: one dict per question, {"answer": str, "case_id": str, "category": str}; an empty category
        takes no part in the scores by category.
Returns:
    dict: full variant name -> score; for each category also "<category>/<full variant name>" -> score.
"""


class VQA(evaluate.Metric):
    def _info(self):
        prediction = {
            "prediction": datasets.Value("string"),
            "options": datasets.Sequence(datasets.Value("string")),
            "option_logprobs": datasets.Sequence(datasets.Value("float64")),
        }
        reference = {name: datasets.Value("string") for name in ("answer", "case_id", "category")}
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation="",
            inputs_description=_INPUTS,
            features=datasets.Features({"predictions": prediction, "references": reference}),
        )

    def _compute(self, predictions, references):
        if not predictions:
            raise ValueError("no predictions to score")
        rows = [{**prediction, **reference} for prediction, reference in zip(predictions, references, strict=True)]
        scores = _score(rows)
        for category in sorted({row["category"] for row in rows} - {""}):
            chosen = [row for row in rows if row["category"] == category]
            scores |= {f"{category}/{name}": value for name, value in _score(chosen).items()}
        return scores


def _score(rows: list[dict]) -> dict[str, float]:
    """Scores of the closed and of the open ones among these rows; a kind that does not occur gives no scores."""
    closed = [row for row in rows if len(row["options"])]
    text = [row for row in rows if not len(row["options"])]
    scores = {}
    if closed:
        options, logprobs, answers = ([row[key] for row in closed] for key in ("options", "option_logprobs", "answer"))
        scores |= closed_scores(encode_closed(options, logprobs, answers), [row["case_id"] for row in closed])
    if text:
        guesses, answers, cases = ([row[key] for row in text] for key in ("prediction", "answer", "case_id"))
        scores |= open_scores(encode_open(guesses, answers), cases)
    return {VARIANTS[name]: float(value) for name, value in scores.items() if not numpy.isnan(value)}
