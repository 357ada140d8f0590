"""Reading predictions files: what can be wrong with one is said here, before anything is scored."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import fields
from pathlib import Path

from gastricx_hf.metrics.vqa.scoring import best_options, normalise
from gastricx_hf.schema import Prediction

TYPES = {field.name: str for field in fields(Prediction)} | {"options": list, "option_logprobs": list, "provenance": dict}
"""Fields of a line and what they must be."""


def read_predictions(path: str | Path) -> list[dict]:
    """The lines of a predictions file, checked.

    Raises:
        ValueError: the file is empty, or has malformed lines, missing fields, duplicate ids, scores that are not finite,
            predictions that are not the best of their options, or lines of different runs. The message names the file,
            the number of such lines and the first few.
    """
    lines = [line for line in Path(path).read_text(encoding="utf-8").split("\n") if line.strip()]
    rows, malformed = [], []
    for number, line in enumerate(lines, start=1):
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            malformed.append(f"line {number}")
    refuse(path, malformed, "not JSON (a run was interrupted? run `gastricx predict` again, it resumes)")
    check_predictions(rows, path)
    return rows


def check_predictions(rows: list[dict], name: str | Path = "predictions") -> None:
    """Refuse rows that cannot be scored as one run on one task and schema; see `read_predictions`."""
    if not rows:
        raise ValueError(f"{name}: no predictions to score")
    refuse(name, [f"line {n}" for n, row in enumerate(rows, start=1) if not isinstance(row, dict)], "not a JSON object")
    wrong = [(n, [field for field, kind in TYPES.items() if not isinstance(row.get(field), kind)]) for n, row in enumerate(rows, start=1)]
    refuse(name, [f"line {n}: {', '.join(absent)}" for n, absent in wrong if absent], "missing fields, or fields of the wrong type")
    repeated = [key for key, count in Counter(row["example_id"] for row in rows).items() if count > 1]
    refuse(name, repeated, "duplicate example_id")
    for problem, is_bad in PROBLEMS.items():
        refuse(name, [row["example_id"] for row in rows if is_bad(row)], problem)
    for field in ("task", "schema", "provenance"):
        found = Counter(json.dumps(row[field], sort_keys=True) for row in rows)
        if len(found) > 1:
            raise ValueError(f"{name}: {len(found)} different values of {field}, of different runs: {_differing(found)}; score them apart")


def refuse(name: str | Path, bad: list, problem: str) -> None:
    """Raise a ValueError that counts the bad ones and shows the first three; silent if there are none."""
    if bad:
        raise ValueError(f"{name}: {len(bad)} with {problem}: {'; '.join(map(str, bad[:3]))}{' ...' if len(bad) > 3 else ''}")


def _differing(found: Counter) -> str:
    """The values that occur, or of two provenances only the fields that differ."""
    values = [json.loads(text) for text in found]
    if not isinstance(values[0], dict):
        return ", ".join(map(str, values))
    by_field = {key: sorted({str(value.get(key)) for value in values}) for value in values for key in value}
    return "; ".join(f"{key} {seen}" for key, seen in by_field.items() if len(seen) > 1)


def kind(row: dict) -> str:
    """The answer type that the options speak of: "closed" where there are some, else "open"."""
    return "closed" if row["options"] else "open"


def _finite(value) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _lacks_reference(row: dict) -> bool:
    return bool(row["options"]) and normalise(row["reference"]) not in map(normalise, row["options"])


def _is_not_best(row: dict) -> bool:
    if not row["options"]:
        return False
    return normalise(row["prediction"]) not in {normalise(row["options"][n]) for n in best_options(row["option_logprobs"])}


PROBLEMS = {
    "an answer_type that does not fit the options": lambda row: kind(row) != row["answer_type"],
    "not one option_logprob per option": lambda row: len(row["options"]) != len(row["option_logprobs"]),
    "option_logprobs that are not finite numbers": lambda row: not all(map(_finite, row["option_logprobs"])),
    "a reference that is not among the options": _lacks_reference,
    "a prediction that is not the best of the options": _is_not_best,
}
"""What can be wrong with a line by itself, checked in this order."""
