"""The record items of Table 8: what each is, its reference range, when it is known, and what it would give away.

The table is indicators.csv, one row per printed item (117, not the 134 of its caption: facts.md P20, I9), in the paper's order:
- `group` is the heading as printed, `true_group` the one the item belongs to (headings sit at column breaks);
- `type` and `unit` are not printed in the paper: the units are the ones usual in Chinese hospitals, sizes in cm;
- `lower`, `upper` is the adult reference range, and the male one where `lower_female`, `upper_female` are given;
- `deidentify` is "printed" for the 12 names that carry "(De-ID)", "unmarked" for those as sensitive without it (I32), else "no";
- `gives_away` lists the tasks whose answer the item holds or implies (I28).
"""

from __future__ import annotations

import csv
import difflib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gastricx_hf.schema import Lab

TABLE = Path(__file__).with_name("indicators.csv")
TASKS = ("vqa", "report_generation", "retrieval", "stage_classification", "phase_classification", "lesion_detection")
_MARK = " (De-ID)"


@dataclass(frozen=True)
class Indicator:
    """One row of indicators.csv; a limit that does not exist is `None`."""

    name: str
    group: str
    true_group: str
    kind: str
    type: str
    unit: str
    lower: float | None
    upper: float | None
    lower_female: float | None
    upper_female: float | None
    reference: str
    before_surgery: bool
    deidentify: str
    gives_away: frozenset[str]
    description: str

    @property
    def sex_specific(self) -> bool:
        return (self.lower_female, self.upper_female) != (None, None)


@cache
def load_indicators() -> tuple[Indicator, ...]:
    """All items in the order of Table 8."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return tuple(_read_row(row) for row in csv.DictReader(file))


@cache
def labs() -> tuple[Indicator, ...]:
    """The laboratory values that have a reference range: the only items that may become table text (facts.md I28)."""
    return tuple(i for i in load_indicators() if i.kind == "lab" and (i.lower, i.upper) != (None, None))


def indicator(name: str) -> Indicator:
    """The item of that name; "(De-ID)" may be left out ("Age" finds "Age (De-ID)").

    Raises:
        ValueError: no such item; the message names the nearest ones.
    """
    items = _by_name()
    found = items.get(name) or items.get(name + _MARK)
    if found is None:
        near = difflib.get_close_matches(name, items, n=3, cutoff=0.5)
        raise ValueError(f"unknown record item {name!r}: " + (f"nearest are {near}" if near else "see cases/indicators.csv"))
    return found


def reference_range(name: str, sex: str | None) -> tuple[float | None, float | None]:
    """Lower and upper limit of an item in its own unit, each `None` where there is no limit.

    With `sex=None` a sex-specific item gets the span of both ranges, so that nothing is called abnormal on a guess.

    Raises:
        ValueError: unknown item, or `sex` is not "male", "female" or None.
    """
    if sex not in ("male", "female", None):
        raise ValueError(f"sex {sex!r}: expected 'male', 'female' or None")
    item = indicator(name)
    male, female = (item.lower, item.upper), (item.lower_female, item.upper_female)
    if not item.sex_specific or sex == "male":
        return male
    if sex == "female":
        return female
    lower = None if None in (male[0], female[0]) else min(male[0], female[0])
    upper = None if None in (male[1], female[1]) else max(male[1], female[1])
    return lower, upper


def make_lab(name: str, value: float | None, sex: str | None) -> Lab:
    """A laboratory value with its unit and the reference range for this sex; `value=None` is not measured.

    Raises:
        ValueError: the item is not a laboratory value, or as `reference_range`.
    """
    item = indicator(name)
    if item.kind != "lab":
        raise ValueError(f"{item.name!r} is not a laboratory value but of kind {item.kind!r}")
    lower, upper = reference_range(name, sex)
    return Lab(item.name, None if value is None else float(value), item.unit, lower, upper, item.before_surgery)


def safe_for(task: str) -> tuple[str, ...]:
    """Names of the items a model may see in `task`: known before surgery, no identifier, no date, not giving its answer away.

    Raises:
        ValueError: no such task.
    """
    if task not in TASKS:
        raise ValueError(f"unknown task {task!r}: expected one of {list(TASKS)}")
    seen = (i for i in load_indicators() if i.before_surgery and i.kind not in ("identifier", "date"))
    return tuple(i.name for i in seen if task not in i.gives_away)


@cache
def _by_name() -> dict[str, Indicator]:
    return {i.name: i for i in load_indicators()}


def _read_row(row: dict[str, str]) -> Indicator:
    limits = {key: float(row[key]) if row[key] else None for key in ("lower", "upper", "lower_female", "upper_female")}
    tasks = frozenset(task for task in row["gives_away"].split(";") if task)
    return Indicator(**row | limits | {"before_surgery": row["before_surgery"] == "yes", "gives_away": tasks})
