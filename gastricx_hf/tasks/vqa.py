"""Visual question answering: one row per question, four input schemas, five question categories (paper 5.1, Appendix D)."""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping

from gastricx_hf.schema import Case, Phase, Schema, Split

NAME = "vqa"
VOLUME_COLUMNS = tuple(f"ct_{phase}" for phase in Phase)
"""One column per phase, in the order of `Phase`; `None` where the phase was not acquired."""
INPUT_COLUMNS = (*VOLUME_COLUMNS, "endoscopy", "sex", "age", "labs", "boxes")
COLUMNS = (
    "question_id",
    "case_id",
    *INPUT_COLUMNS,
    "question",
    "answer",
    "category",
    "answer_type",
    "options",
    "source_report",
)
SCHEMAS = tuple(Schema)
TARGET = "answer"
NEVER_SHOW = ("answer", "evidence", "reports", "items", "t_stage", "n_stage", "m_stage", "overall_stage")
"""Fields of a case or row that no prompt may contain. Answers come from the reports and the staging record (facts.md P42, I28)."""
METRICS = ("precision", "accuracy", "f1", "auc", "exact_match", "token_f1")
HEADLINE = "accuracy"

CATEGORIES = ("lesion_centric", "enhancement_phase", "staging_related", "localization", "yes_no_factual")
YES_NO = (("no", "yes"), ("否", "是"))
MAX_CLOSED_WORDS = 3
MAX_CLOSED_CHARACTERS = 12
"""The same limit for text written without spaces."""
MIN_CLOSED_COUNT = 5
MIN_CLOSED_SHARE = 0.01

_ARTICLES = {"a", "an", "the"}


def normalise_answer(text: str) -> str:
    """The one normalisation behind every comparison of answers.

    NFKC, lower case, whitespace collapsed, punctuation stripped at both ends, English articles dropped (not as the last word:
    "stage III A"). Inside the text nothing is touched, so "T4a", "3.5 cm" and "non-contrast" stay what they are.
    """
    words = _strip_ends(unicodedata.normalize("NFKC", text).lower()).split()
    return _strip_ends(" ".join(word for n, word in enumerate(words) if word not in _ARTICLES or n == len(words) - 1))


def _strip_ends(text: str) -> str:
    """Without punctuation at the ends, but with a closing % and a sign before a number, which carry meaning."""
    start, end = 0, len(text)
    while start < end and not text[start].isalnum():
        start += 1
    while end > start and not text[end - 1].isalnum():
        end -= 1
    if text[end : end + 1] == "%":
        end += 1
    if 0 < start < len(text) and text[start - 1] in "+-<>" and text[start].isdigit():
        start -= 1
    return text[start:end]


def yes_no_options(answer: str) -> tuple[str, ...]:
    """The yes/no pair that a normalised answer belongs to, negative first; empty if it is neither."""
    return next((pair for pair in YES_NO if answer in pair), ())


def closed_answer_sets(questions: Iterable) -> dict[str, tuple[str, ...]]:
    """Answer set of each category, from the questions (or rows' equivalents) of the TRAINING split only.

    An answer belongs to its category's set if it is not yes/no, is short (at most three words; at most twelve characters where the
    text has no spaces between words) and was seen at least max(5, 1% of the category's questions that are not yes/no) times.
    A set of one answer would make a question that cannot be wrong, so it is dropped.

    Args:
        questions: objects with `.answer` and `.category`.

    Returns:
        category -> normalised answers, sorted.
    """
    counts: dict[str, Counter] = {}
    for question in questions:
        answer = normalise_answer(question.answer)
        if not yes_no_options(answer):
            counts.setdefault(question.category, Counter())[answer] += 1
    sets = {}
    for category, counter in sorted(counts.items()):
        least = max(MIN_CLOSED_COUNT, math.ceil(MIN_CLOSED_SHARE * counter.total()))
        kept = tuple(sorted(answer for answer, n in counter.items() if n >= least and _is_short(answer)))
        if len(kept) > 1:
            sets[category] = kept
    return sets


def _is_short(answer: str) -> bool:
    spaceless = any("\u4e00" <= c <= "\u9fff" for c in answer)
    return bool(answer) and (len(answer) <= MAX_CLOSED_CHARACTERS if spaceless else len(answer.split()) <= MAX_CLOSED_WORDS)


def options_of(answer: str, category: str, sets: Mapping[str, tuple[str, ...]]) -> list[str]:
    """The options that a question is scored over; empty means that it is open."""
    answer = normalise_answer(answer)
    if pair := yes_no_options(answer):
        return list(pair)
    return list(sets[category]) if answer in sets.get(category, ()) else []


def input_row(case: Case) -> dict:
    """What a row may show of a patient: volumes and endoscopy as path strings, sex, age, labs and boxes as plain dicts."""
    row = {"case_id": case.case_id}
    row |= {f"ct_{phase}": case.volumes.get(phase) for phase in Phase}
    row |= {"endoscopy": case.endoscopy, "sex": case.sex, "age": case.age}
    row["labs"] = [
        {"name": x.name, "value": x.value, "unit": x.unit, "lower": x.lower, "upper": x.upper, "before_surgery": x.before_surgery}
        for x in case.labs
    ]
    row["boxes"] = [{"structure": str(b.structure), "phase": str(b.phase), "min": list(b.min), "max": list(b.max)} for b in case.boxes]
    return row


def rows(cases: Iterable[Case], splits: Mapping[Split, Iterable[str]]) -> dict[Split, list[dict]]:
    """One row per question and split, with the columns of COLUMNS; split order is that of the id lists.

    Raises:
        KeyError: a split names a patient that is not among the cases.
    """
    by_id = {case.case_id: case for case in cases}
    sets = closed_answer_sets(q for case_id in splits[Split.TRAIN] for q in by_id[case_id].questions)
    return {split: [row for case_id in ids for row in _case_rows(by_id[case_id], sets)] for split, ids in splits.items()}


def _case_rows(case: Case, sets: Mapping[str, tuple[str, ...]]) -> list[dict]:
    shown = input_row(case)
    made = []
    for q in case.questions:
        options = options_of(q.answer, q.category, sets)
        row = shown | {"question_id": q.question_id, "question": q.question, "answer": q.answer, "category": q.category}
        row |= {"answer_type": "closed" if options else "open", "options": options, "source_report": q.source_report}
        made.append({column: row[column] for column in COLUMNS})
    return made
