"""Laboratory values as text: only what lies outside its reference range (paper Section 4, facts.md P51)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

from gastricx_hf.schema import Lab

PREFIXES = ("Tumor Markers ", "Biochemistry ", "CBC ")
"""Panel names that the record puts before an item; dropped from the text."""
ORDERS = ("record", "deviation")


@dataclass(frozen=True)
class LabTemplate:
    """The wording, which the paper leaves unspecified.

    Attributes:
        entry: one abnormal value; `{limit}` is "upper" or "lower".
        entry_without_ratio: where the limit is not positive, so that no ratio to it exists.
        decimals_above, decimals_below: decimals of a ratio from 1 up, and of one below 1.
        none_measured, all_normal: what is said when there is nothing to list; not measured is not normal.
    """

    entry: str = "{name} {value}{unit}, {ratio}x the {limit} limit"
    entry_without_ratio: str = "{name} {value}{unit}, {side} the {limit} limit"
    separator: str = "; "
    decimals_above: int = 1
    decimals_below: int = 2
    none_measured: str = "No laboratory values were recorded."
    all_normal: str = "No laboratory value is outside its reference range."


def abnormal_labs_text(labs: Iterable[Lab | Mapping], order: str = "record", template: LabTemplate = LabTemplate()) -> str:
    """One entry for each value outside its range, e.g. "CEA 23.4 ng/mL, 4.7x the upper limit; Hemoglobin 95 g/L, 0.73x the lower limit".

    Values taken after surgery, or without word on when, are left out; so is a value that was not measured.

    Args:
        labs: `Lab`s or a row's dicts of the same fields.
        order: "record" keeps the order given, "deviation" puts the largest ratio to its limit first (below: the inverse ratio).

    Raises:
        ValueError: unknown order.
    """
    if order not in ORDERS:
        raise ValueError(f"unknown order {order!r} of laboratory values: choose one of {ORDERS}")
    records = [asdict(lab) if isinstance(lab, Lab) else lab for lab in labs or ()]
    measured = [lab for lab in records if lab["before_surgery"] and lab["value"] is not None and math.isfinite(lab["value"])]
    abnormal = [(lab, side) for lab in measured if (side := _side(lab))]
    if order == "deviation":
        abnormal.sort(key=lambda pair: _deviation(*pair), reverse=True)
    if not abnormal:
        return template.all_normal if measured else template.none_measured
    return template.separator.join(_entry(lab, side, template) for lab, side in abnormal)


def _side(lab: Mapping) -> str:
    """ "above", "below", or "" for a value within its range; a limit itself is within."""
    if lab.get("upper") is not None and lab["value"] > lab["upper"]:
        return "above"
    return "below" if lab.get("lower") is not None and lab["value"] < lab["lower"] else ""


def _limit(lab: Mapping, side: str) -> float:
    return lab["upper"] if side == "above" else lab["lower"]


def _deviation(lab: Mapping, side: str) -> float:
    over, under = (lab["value"], _limit(lab, side)) if side == "above" else (_limit(lab, side), lab["value"])
    return over / under if under > 0 else math.inf


def _entry(lab: Mapping, side: str, template: LabTemplate) -> str:
    limit = _limit(lab, side)
    name = lab["name"]
    for prefix in PREFIXES:
        name = name.removeprefix(prefix)
    words = {"name": name, "value": f"{lab['value']:g}", "side": side, "limit": "upper" if side == "above" else "lower"}
    words["unit"] = f" {lab['unit']}" if lab.get("unit") else ""
    if limit <= 0:
        return template.entry_without_ratio.format(**words)
    ratio = lab["value"] / limit
    decimals = template.decimals_above if ratio >= 1 else template.decimals_below
    return template.entry.format(**words, ratio=f"{ratio:.{decimals}f}")
