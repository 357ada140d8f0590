"""Scores of `vqa`, from arrays alone (paper Table 2a, facts.md P61; the definitions are ours where the paper gives none).

Closed questions offer options and the model gives the log-probability of each ("raw": summed over the option's tokens).
Open questions are compared as text. The two kinds are never averaged together. Answers are compared after the normalisation of
`gastricx_hf.tasks.vqa`.

Labels are answers, pooled over questions: "no" is one class wherever it is offered, and a question says nothing about a
class it does not offer. The macro scores are unweighted means over the classes that occur among the references; a class
that is never predicted has precision 0. AUC is one-vs-rest: for each class over the questions that offer it, ranked by
the probability among the question's own options, equal probabilities counting one half; a class for which these
questions are all positive or all negative is left out. If several options share the highest probability, the answer
counts as the first wrong one of them in alphabetical order: a tie goes against the model.

Every score takes question weights, shape (Q,) or (R, Q) for R resamples, and returns a float or an array of shape (R,).
A class with no weight among the references of a resample is absent from that resample. All scores are 0-100.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from gastricx_hf.tasks.vqa import normalise_answer

VARIANTS = {
    "precision": "macro_precision[closed, option-logprob, raw, pooled labels]",
    "accuracy": "accuracy[closed, option-logprob, raw]",
    "f1": "macro_f1[closed, option-logprob, raw, pooled labels]",
    "auc": "macro_auc[closed, option-logprob, raw, ovr, questions offering the label]",
    "patient_accuracy": "accuracy[closed, option-logprob, raw, mean over patients]",
    "exact_match": "exact_match[open, normalised]",
    "token_f1": "token_f1[open, normalised, chinese characters as tokens]",
    "patient_token_f1": "token_f1[open, normalised, chinese characters as tokens, mean over patients]",
}
"""Short name of each score -> its full name, which is stored with every number."""

_CHINESE = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_TOKEN = re.compile(rf"[{_CHINESE}]|(?<!\w)-(?=\d)|\d+(?:\.\d+)*|(?:(?![{_CHINESE}\d])[^\W_])(?:(?![{_CHINESE}])[^\W_])*|[<>≤≥+%]")


@lru_cache(maxsize=100_000)  # the same few answers come again and again
def normalise(text: str) -> str:
    """The form in which answers are compared: `normalise_answer`, or the bare text where that leaves nothing ("-")."""
    return normalise_answer(text) or text.strip().lower()


def tokens(text: str) -> list[str]:
    """Words, numbers and single Chinese characters of a normalised text.

    Punctuation separates and is dropped, but for what changes an answer: decimal points, a leading minus, < > ≤ ≥ + %.
    """
    text = normalise(text)
    return _TOKEN.findall(text) or text.split()


def exact_match(prediction: str, reference: str) -> float:
    """1.0 where the normalised texts are equal, else 0.0."""
    return float(normalise(prediction) == normalise(reference))


def token_f1(prediction: str, reference: str) -> float:
    """F1 of the overlap of the two bags of tokens, 0.0 to 1.0; an empty prediction scores 0."""
    predicted, expected = tokens(prediction), tokens(reference)
    shared = sum((Counter(predicted) & Counter(expected)).values())
    return 2 * shared / (len(predicted) + len(expected)) if shared else 0.0


@dataclass(frozen=True)
class Closed:
    """Q closed questions over L pooled labels.

    Attributes:
        labels: the L distinct normalised answers, sorted.
        reference, predicted: (Q,) index into `labels`.
        log_odds: (Q, L) log p/(1-p) of each offered label; NaN where the question does not offer the label. It ranks as
            the probability does, and still tells 1 - 1e-20 from 1 - 1e-30.
    """

    labels: tuple[str, ...]
    reference: np.ndarray
    predicted: np.ndarray
    log_odds: np.ndarray

    @property
    def correct(self) -> np.ndarray:
        """(Q,) 1.0 where the answer is right."""
        return (self.reference == self.predicted).astype(float)

    def take(self, index: np.ndarray) -> Closed:
        """The questions at this index or mask; the labels stay."""
        return Closed(self.labels, self.reference[index], self.predicted[index], self.log_odds[index])


def best_options(logprobs: list[float]) -> list[int]:
    """Positions of the highest log-probability: more than one in a tie."""
    best = max(logprobs)
    return [position for position, value in enumerate(logprobs) if value == best]


def encode_closed(options: list[list[str]], logprobs: list[list[float]], references: list[str]) -> Closed:
    """Closed questions as arrays.

    Args:
        options, logprobs: for each of Q questions, its options and their log-probabilities.
        references: the right answers.

    Raises:
        ValueError: a question has fewer than two options, two equal ones, a score that is missing or not finite, or a
            reference that is not among its options; the message says how many questions and shows the first.
    """
    names = [[normalise(option) for option in row] for row in options]
    answers = [normalise(reference) for reference in references]
    _check_closed(names, logprobs, answers)
    labels = sorted({name for row in names for name in row})
    index = {label: position for position, label in enumerate(labels)}
    log_odds = np.full((len(names), len(labels)), np.nan)
    predicted = np.empty(len(names), dtype=int)
    for q, (row, scores) in enumerate(zip(names, logprobs, strict=True)):
        columns = [index[name] for name in row]
        log_odds[q, columns] = _log_odds(np.asarray(scores, dtype=float))
        tied = {row[position] for position in best_options(scores)}
        predicted[q] = index[min(tied - {answers[q]} or tied)]
    return Closed(tuple(labels), np.array([index[answer] for answer in answers], dtype=int), predicted, log_odds)


def _check_closed(names: list[list[str]], logprobs: list[list[float]], answers: list[str]) -> None:
    checks = {
        "has fewer than two options": lambda row, scores, answer: len(row) < 2,
        "has two options that are equal once normalised": lambda row, scores, answer: len(set(row)) < len(row),
        "needs one log-probability per option": lambda row, scores, answer: len(scores) != len(row),
        "has a log-probability that is not a finite number": lambda row, scores, answer: not np.isfinite(np.asarray(scores, float)).all(),
        "has a reference that is not among its options": lambda row, scores, answer: answer not in row,
    }
    if not len(names) == len(logprobs) == len(answers):
        raise ValueError(f"options, log-probabilities and references differ in number: {len(names)}, {len(logprobs)}, {len(answers)}")
    for problem, wrong in checks.items():
        bad = [row for row in zip(names, logprobs, answers, strict=True) if wrong(*row)]
        if bad:
            first = "options {}, log-probabilities {}, reference {!r}".format(*bad[0])
            raise ValueError(f"{len(bad)} of {len(names)} closed questions: each {problem}; the first: {first}")


def _log_odds(scores: np.ndarray) -> np.ndarray:
    """log p/(1-p) of the softmax of (K,) scores, rounded so that the order of the options cannot break a tie."""
    others = np.where(np.eye(len(scores), dtype=bool), -np.inf, scores)
    highest = others.max(axis=1)
    return np.round(scores - highest - np.log(np.exp(others - highest[:, None]).sum(axis=1)), 9)


def _weights(weights: np.ndarray | None, n: int) -> tuple[np.ndarray, bool]:
    """Weights as floats of shape (R, Q), and whether one number rather than an array is wanted."""
    weights = np.ones(n) if weights is None else np.asarray(weights, dtype=float)
    if weights.shape[-1] != n or weights.ndim > 2:
        raise ValueError(f"weights of shape {weights.shape} for {n} questions: expected ({n},) or (resamples, {n})")
    return np.atleast_2d(weights), weights.ndim == 1


def mean(values: np.ndarray, weights: np.ndarray | None = None) -> float | np.ndarray:
    """Weighted mean over (Q,) questions of values 0-1, times 100; NaN where all weights are zero."""
    w, scalar = _weights(weights, len(values))
    with np.errstate(invalid="ignore"):
        result = 100 * (w @ values) / w.sum(axis=1)
    return float(result[0]) if scalar else result


def patient_mean(values: np.ndarray, case_ids: Sequence, weights: np.ndarray | None = None) -> float | np.ndarray:
    """Mean over patients of each patient's mean over questions, 0-100: every patient counts the same."""
    w, scalar = _weights(weights, len(values))
    _, patient, count = np.unique(np.asarray(case_ids), return_inverse=True, return_counts=True)
    w = w / count[patient]
    return mean(values, w[0] if scalar else w)


def macro_precision_f1(closed: Closed, weights: np.ndarray | None = None) -> tuple[float | np.ndarray, float | np.ndarray]:
    """Macro precision and macro F1 over the classes among the references (scikit-learn's with `zero_division=0`)."""
    w, scalar = _weights(weights, len(closed.reference))
    classes = np.unique(closed.reference)
    actual = (closed.reference[:, None] == classes).astype(float)
    chosen = (closed.predicted[:, None] == classes).astype(float)
    hits, support, guesses = w @ (actual * chosen), w @ actual, w @ chosen
    present = support > 0
    with np.errstate(invalid="ignore"):
        precision = np.where(guesses > 0, hits / np.maximum(guesses, np.finfo(float).tiny), 0.0)
        f1 = 2 * hits / np.maximum(support + guesses, np.finfo(float).tiny)
        averaged = [100 * np.where(present, score, 0.0).sum(axis=1) / present.sum(axis=1) for score in (precision, f1)]
    return tuple(float(score[0]) if scalar else score for score in averaged)


def macro_auc(closed: Closed, weights: np.ndarray | None = None) -> float | np.ndarray:
    """Macro one-vs-rest AUC over the classes among the references; NaN where no class has both positives and negatives."""
    w, scalar = _weights(weights, len(closed.reference))
    by_question = np.ascontiguousarray(w.T)
    per_class = []
    for label in np.unique(closed.reference):
        offered = np.flatnonzero(~np.isnan(closed.log_odds[:, label]))
        order = offered[np.argsort(closed.log_odds[offered, label], kind="stable")]
        per_class.append(_sorted_auc(closed.log_odds[order, label], closed.reference[order] == label, by_question[order]))
    scores = np.array(per_class)
    defined = ~np.isnan(scores)
    with np.errstate(invalid="ignore"):
        result = 100 * np.where(defined, scores, 0.0).sum(axis=0) / defined.sum(axis=0)
    return float(result[0]) if scalar else result


def _sorted_auc(values: np.ndarray, positive: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """AUC 0-1 for each of R resamples from (n,) ascending values and (n, R) weights; NaN where one side has no weight.

    Summing over positives the weight of all questions below, ties as half, counts the pairs of a positive with a
    negative and, exactly P^2/2 in weight, those with another positive: one cumulative sum serves.
    """
    first = np.searchsorted(values, values[positive], side="left")
    last = np.searchsorted(values, values[positive], side="right")
    below = np.vstack([np.zeros(weights.shape[1]), np.cumsum(weights, axis=0)])
    chosen = weights[positive]
    positives = chosen.sum(axis=0)
    pairs = positives * (below[-1] - positives)
    ordered = ((chosen * (below[first] + below[last])).sum(axis=0) - positives**2) / 2
    return np.where(pairs > 0, ordered / np.where(pairs > 0, pairs, 1.0), np.nan)


def closed_scores(closed: Closed, case_ids: Sequence, weights: np.ndarray | None = None) -> dict[str, float | np.ndarray]:
    """All scores of closed questions, by the short names of `VARIANTS`."""
    precision, f1 = macro_precision_f1(closed, weights)
    return {
        "precision": precision,
        "accuracy": mean(closed.correct, weights),
        "f1": f1,
        "auc": macro_auc(closed, weights),
        "patient_accuracy": patient_mean(closed.correct, case_ids, weights),
    }


@dataclass(frozen=True)
class Open:
    """Q open questions: `exact` and `f1`, each (Q,) between 0 and 1."""

    exact: np.ndarray
    f1: np.ndarray


def encode_open(predictions: list[str], references: list[str]) -> Open:
    """Open questions as arrays.

    Raises:
        ValueError: a reference is empty.
    """
    empty = sum(not reference.strip() for reference in references)
    if empty:
        raise ValueError(f"{empty} of {len(references)} open questions have an empty reference")
    pairs = list(zip(predictions, references, strict=True))
    return Open(np.array([exact_match(*pair) for pair in pairs]), np.array([token_f1(*pair) for pair in pairs]))


def open_scores(answers: Open, case_ids: Sequence, weights: np.ndarray | None = None) -> dict[str, float | np.ndarray]:
    """All scores of open questions, by the short names of `VARIANTS`."""
    return {
        "exact_match": mean(answers.exact, weights),
        "token_f1": mean(answers.f1, weights),
        "patient_token_f1": patient_mean(answers.f1, case_ids, weights),
    }
