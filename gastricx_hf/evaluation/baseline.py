"""The answer to beat: what a reader scores who looks at nothing but the kind of question."""

from __future__ import annotations

import math
from collections import Counter

from gastricx_hf.metrics.vqa.scoring import normalise

MAJORITY = "majority answer"
"""Model name of the baseline; its input schema is "none"."""


def majority_baseline(predictions: list[dict], train_rows: list[dict]) -> list[dict]:
    """The most frequent TRAINING answer for each category and set of options, in place of the model's answers.

    Option scores are the logarithms of the training frequencies, one added to each count; of equally frequent answers the
    first in alphabetical order is taken. Open questions get the most frequent open training answer of their category.

    Args:
        predictions: prediction rows, for the questions and their references.
        train_rows: dicts with category, options and answer, of the training split only.

    Returns:
        Prediction rows of the model "majority answer" with schema "none".
    """
    counts: dict[tuple, Counter] = {}
    for row in train_rows:
        counts.setdefault(_question_kind(row), Counter())[normalise(row["answer"])] += 1
    return [_majority_answer(row, counts.get(_question_kind(row), Counter())) for row in predictions]


def _question_kind(row: dict) -> tuple:
    return row["category"], tuple(sorted(normalise(option) for option in row["options"]))


def _majority_answer(row: dict, count: Counter) -> dict:
    options = row["options"]
    candidates = options or sorted(count) or [""]
    best = max(sorted(candidates), key=lambda answer: count[normalise(answer)])
    frequency = [count[normalise(option)] + 1 + 1e-6 * (option == best) for option in options]
    return {
        **row,
        "schema": "none",
        "prediction": best,
        "option_logprobs": [math.log(value / sum(frequency)) for value in frequency],
        "provenance": {**row["provenance"], "model": MAJORITY},
    }
