"""TNM to overall stage, and the label spaces of T, N, M and stage.

The grouping is the pathological one (pTNM) of the AJCC Cancer Staging Manual, 8th edition (2017), chapter 17, Stomach. The paper
names T, N, M "pathologic" (Table 8) but neither the edition nor the classes (facts.md P13), so sub-stages are an option everywhere.
"""

from __future__ import annotations

import re
import unicodedata

STAGES = ("I", "II", "III", "IV")
SUBSTAGES = ("IA", "IB", "IIA", "IIB", "IIIA", "IIIB", "IIIC", "IV")
LABELS = {
    # target: (merged classes, classes with sub-stages)
    "t": (("T1", "T2", "T3", "T4"), ("T1", "T2", "T3", "T4a", "T4b")),
    "n": (("N0", "N1", "N2", "N3"), ("N0", "N1", "N2", "N3a", "N3b")),
    "m": (("M0", "M1"), ("M0", "M1")),
    "stage": (STAGES, SUBSTAGES),
}

_GROUPS = {
    #       N0      N1      N2      N3a     N3b
    "T1": ("IA", "IB", "IIA", "IIB", "IIIB"),
    "T2": ("IB", "IIA", "IIB", "IIIA", "IIIB"),
    "T3": ("IIA", "IIB", "IIIA", "IIIB", "IIIC"),
    "T4a": ("IIB", "IIIA", "IIIA", "IIIB", "IIIC"),
    "T4b": ("IIIA", "IIIB", "IIIB", "IIIC", "IIIC"),
}
_CATEGORIES = {
    # letter: (what may follow it, an example for the message)
    "T": (r"0|is|x|1[ab]?|2|3|4[ab]?", "T1, T1a, T2, T3, T4, T4a, T4b, Tis, T0 or TX"),
    "N": (r"x|0|1|2|3[ab]?", "N0, N1, N2, N3, N3a, N3b or NX"),
    "M": (r"x|0|1", "M0, M1 or MX"),
}
_ROMAN = {"0": "0", "1": "I", "2": "II", "3": "III", "4": "IV", "i": "I", "ii": "II", "iii": "III", "iv": "IV"}


def label_space(target: str, substages: bool = False) -> tuple[str, ...]:
    """The classes of `target` ("t", "n", "m", "stage") in rising order.

    Stage 0 (Tis), T0, TX, NX and MX are no class: the benchmark is one of invasive cancer.

    Raises:
        ValueError: no such target.
    """
    if target not in LABELS:
        raise ValueError(f"unknown staging target {target!r}: expected one of {list(LABELS)}")
    return LABELS[target][substages]


def parse_t(text: str) -> str:
    """Read a T category ("pT3", "t4A", "ypT1b", "4a") as "T3", "T4a", "T1b"; also "Tis", "T0", "TX".

    Raises:
        ValueError: it is no T category; the message lists what is accepted.
    """
    return _parse_category("T", text)


def parse_n(text: str) -> str:
    """Read an N category ("pN3a", "N 1", "2") as "N3a", "N1", "N2"; also "NX". Raises ValueError as `parse_t`."""
    return _parse_category("N", text)


def parse_m(text: str) -> str:
    """Read an M category ("cM0", "pM1") as "M0", "M1"; also "MX". Raises ValueError as `parse_t`."""
    return _parse_category("M", text)


def parse_stage(text: str, substages: bool = False) -> str:
    """Read an overall stage ("III B", "Stage IIIb", "Ⅲ期", "3B", "pStage II") as "III", or "IIIB" with `substages`.

    Without `substages` the sub-stage is merged away. With it, a stage written without its letter is returned as it is ("III").
    IVA and IVB exist in the clinical grouping only and are read as "IV"; stage 0 is read as "0".

    Raises:
        ValueError: it is no stage of gastric cancer.
    """
    match = re.fullmatch(r"(?:yp|yc|p|c|r)?(?:stage)?(iii|ii|iv|i|[0-4])([abc]?)期?", _normalise(text))
    stage, letter = (_ROMAN[match[1]], match[2].upper()) if match else ("", "")
    if not match or letter not in {"0": ("",), "III": ("", "A", "B", "C")}.get(stage, ("", "A", "B")):
        raise ValueError(f"unknown overall stage {text!r}: expected 0, I, IA, IB, II, IIA, IIB, III, IIIA, IIIB, IIIC or IV")
    return stage + letter if substages and stage != "IV" else stage


def parse_label(target: str, text: str, substages: bool = False) -> str:
    """Read `text` into a class of `label_space(target, substages)`, merging T4a into T4, N3b into N3, IIIB into III.

    T1a and T1b are T1 in either space.

    Raises:
        ValueError: it cannot be read, or is no class of that space (T0, NX, stage 0; with `substages` a T4, N3 or III without letter).
    """
    classes = label_space(target, substages)
    if target == "stage":
        label = parse_stage(text, substages)
    else:
        label = _parse_category(target.upper(), text)
        label = label if label in classes else label[:2]
    if label not in classes:
        raise ValueError(f"{text!r} is no class of {target!r}: expected one of {list(classes)}")
    return label


def overall_stage(t: str, n: str, m: str, substages: bool = False, ambiguous: str = "lower") -> str:
    """Stage group of a T, N and M category: "0", "I" .. "IV", or "IA" .. "IIIC" with `substages`.

    Args:
        ambiguous: what to do where T4 or N3 is written without its letter and the stage depends on it. "lower" takes the lower
            stage, AJCC's rule for uncertain information; "error" refuses.

    Raises:
        ValueError: a category cannot be read, is not assessed (TX, NX, MX), has no group (T0, or Tis with nodes), or is ambiguous.
    """
    if ambiguous not in ("lower", "error"):
        raise ValueError(f"ambiguous={ambiguous!r}: expected 'lower' or 'error'")
    stages = possible_stages(t, n, m, substages)
    if len(stages) > 1 and ambiguous == "error":
        raise ValueError(f"{t} {n} {m} could be stage {' or '.join(stages)}: give the letter of T4 (a, b) and N3 (a, b)")
    return stages[0]


def possible_stages(t: str, n: str, m: str, substages: bool = False) -> tuple[str, ...]:
    """Every stage group that T, N, M may mean, lowest first; several only where T4 or N3 lacks its letter.

    Raises:
        ValueError: as `overall_stage`.
    """
    t, n, m = parse_t(t), parse_n(n), parse_m(m)
    if m == "M1":
        return ("IV",)
    if m == "M0" and (t, n) == ("Tis", "N0"):
        return ("0",)
    t = "T1" if t in ("T1a", "T1b") else t
    depths = ("T4a", "T4b") if t == "T4" else (t,)
    nodes = ("N3a", "N3b") if n == "N3" else (n,)
    columns = label_space("n", substages=True)
    if m == "MX" or any(d not in _GROUPS for d in depths) or any(k not in columns for k in nodes):
        raise ValueError(f"{t} {n} {m} has no AJCC 8 stage group: T1-T4b with N0-N3b and M0, Tis N0 M0, or M1 are needed")
    found = {_GROUPS[d][columns.index(k)] for d in depths for k in nodes}
    order, found = (SUBSTAGES, found) if substages else (STAGES, {parse_stage(s) for s in found})
    return tuple(s for s in order if s in found)


def _parse_category(letter: str, text: str) -> str:
    pattern, expected = _CATEGORIES[letter]
    match = re.fullmatch(rf"(?:yp|yc|p|c|r)?{letter.lower()}?({pattern})期?", _normalise(text))
    if not match:
        raise ValueError(f"unknown {letter} category {text!r}: expected {expected}")
    return letter + (match[1].upper() if match[1] == "x" else match[1])


def _normalise(text: str) -> str:
    """Lower case without blanks, hyphens and underscores; full-width letters and Roman numeral signs made plain."""
    return re.sub(r"[\s_-]", "", unicodedata.normalize("NFKC", str(text))).lower()
