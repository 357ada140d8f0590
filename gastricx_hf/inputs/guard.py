"""The leak guard: no prompt may hold what it asks for, and no row may carry what its task must never show (facts.md I28)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping

from gastricx_hf.inputs.labs import abnormal_labs_text
from gastricx_hf.tasks import vqa

ALLOWED = {vqa.NAME: vqa.COLUMNS}
"""Task -> the only columns that its rows may carry."""

PATTERNS = {
    "T, N or M code": r"(?<![a-z0-9])[acprmuy]{0,2}(?:t(?:[0-4][a-d]?|is)|n[0-3][a-c]?|m[01][a-c]?)+(?![a-z0-9])",
    "T, N or M stage": r"(?<![a-z0-9])[acpruy]{0,2}[tnm][ _-]*(?:stage|category|classification|分期|期)",
    "stage": r"(?<![a-z])(?:stage[sd]?|staging|tnm|ajcc)(?![a-z])|分期|(?<![a-z0-9])(?:iv|i{1,3}|[1-4一二三四])[abc]?\s*期",
    "node count": r"(?<![a-z])(?:lymph ?nodes?|nodes?|nodal|lns?)(?![a-z])|淋巴结",
    "fraction of nodes": r"(?<![\d./])\d{1,2} ?/ ?\d{1,3}(?![\d./])",
}
"""What no context of a question may hold, matched without case after Unicode normalisation; T1-T4, N0-N3, M0-M1 with
boundaries, so that "CA125" and "CA724" pass."""
SHORTEST_QUOTE = 8
"""A sentence of the evidence or of a report counts as quoted from this length on (characters)."""


class LeakError(ValueError):
    """A prompt or row holds what the model is asked for."""


def check_row(row: Mapping, allowed_columns: Iterable[str], task: str = "vqa") -> None:
    """Refuse a row with any column outside the task's own.

    Raises:
        LeakError: names the task and the columns.
    """
    extra = sorted(set(row) - set(allowed_columns))
    if extra:
        raise LeakError(f"{task}: the row carries columns that the task must never show: {', '.join(extra)}. Remove them from the dataset.")


def check_prompt(prompt_without_question: str, row: Mapping, case_labels: Mapping | None = None, task: str = "vqa") -> None:
    """Refuse what a prompt says beyond its question if it gives the case's labels away.

    Checked: the answer as whole words (yes/no excepted; a bare number is not looked for inside the row's own laboratory
    entries, where it may stand by chance), sentences of the evidence and reports, T, N, M and stage words, node counts, and
    every value of `case_labels`.

    Args:
        prompt_without_question: the table text and every fixed word around it.
        row: the dataset row; `answer`, `evidence` and `labs` are read where present.
        case_labels: what is known of the case beyond the row, e.g. {"overall_stage": "III", "reports": {"ct": ...}}.

    Raises:
        LeakError: names task, question, what leaked and where it stood.
    """
    text = _normal(prompt_without_question)
    for kind, pattern in PATTERNS.items():
        if found := re.search(pattern, text):
            _refuse(task, row, kind, found.group())
    answer = vqa.normalise_answer(row.get("answer") or "")
    if answer and not vqa.yes_no_options(answer):
        place = _without_lab_values(text, row) if re.fullmatch(r"[-+<>]?[\d.,]+%?", answer) else text
        if _contains(place, _normal(answer)):
            _refuse(task, row, "answer", answer)
    for column, value in {"evidence": row.get("evidence"), **(case_labels or {})}.items():
        for label in _texts(value):
            if not vqa.yes_no_options(vqa.normalise_answer(label)) and (leak := _quoted(text, _normal(label))):
                _refuse(task, row, column, leak)


def _refuse(task: str, row: Mapping, column: str, found: str):
    who = row.get("question_id") or row.get("case_id") or "row"
    raise LeakError(f"{task}, {who}: the prompt outside the question gives away {column}: {found!r}")


def _normal(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).lower().split())


def _contains(text: str, words: str) -> bool:
    """As whole words; between Chinese characters there are no word boundaries."""
    start = r"(?<![a-z0-9])(?<!\d\.)" if words[0].isascii() else ""
    end = r"(?![a-z0-9]|\.\d)" if words[-1].isascii() else ""
    return re.search(start + re.escape(words) + end, text) is not None


def _without_lab_values(text: str, row: Mapping) -> str:
    """The text less each of the row's own laboratory entries: name, value and ratio."""
    for lab in row.get("labs") or ():
        text = text.replace(_normal(abnormal_labs_text([lab])), " ")
    return text


def _texts(value) -> list[str]:
    """Every text in a label: itself, or those in a dict or list; numbers are left to the patterns."""
    if isinstance(value, str):
        return [value] if value.strip() else []
    if isinstance(value, Mapping):
        return [text for part in value.values() for text in _texts(part)]
    return [text for part in value for text in _texts(part)] if isinstance(value, (list, tuple)) else []


def _quoted(text: str, label: str) -> str | None:
    """The part of the label that stands in the text: a short label as whole words, a long one sentence by sentence."""
    sentences = [part.strip() for part in re.split(r"[;。；!?！？]|\.(?!\d)", label) if part.strip()]
    for part in [label, *sentences]:
        if (part == label or len(part) >= SHORTEST_QUOTE) and _contains(text, part):
            return part
    return None
