"""What may not leave: local paths, identifiers, tokens, pickles, numbers that are not numbers.

Findings name file and place. A token or an identifier is never repeated in a finding; a local path is, since it helps to find it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

TEXT = {".json", ".jsonl", ".md", ".yaml", ".yml", ".txt", ".jinja"}
SAFETENSORS = ".safetensors"
VOCABULARIES = {"tokenizer.json", "vocab.json", "vocab.txt", "merges.txt", "added_tokens.json"}
"""Lists of word pieces: a piece such as "/usr" is no path."""

BINARY = {
    rb"\x80[\x02-\x05]": "a Python pickle, which runs code when it is opened",
    rb"PK\x03\x04": "a zip archive, which is how torch.save stores a pickle",
    rb"\x1f\x8b": "compressed, so it cannot be screened",
    rb"\x89HDF": "HDF5, not safetensors",
}

_LOCAL_PATH = re.compile(
    r"""(?<![\w:/.<~%-])(?:~|/(?!/))(?:/?[\w.+-]+/)(?:[\w.+@-]+/?)+   # /two/parts or more; not the tail of a web address
      | (?<!\w)[A-Za-z]:(?:\\|/(?!/))[\w.]                            # C:\Users, C:/Users
      | \\\\[\w.-]+\\\w                                               # \\server\share
      | file://""",
    re.VERBOSE,
)
_ONE_PART_PATH = re.compile(r"/[\w.+-]+/?")
_IDENTITY_NUMBER = "a Chinese identity number"
_IDENTIFIERS = {
    "an e-mail address": re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)*\.[A-Za-z]{2,}\b"),
    _IDENTITY_NUMBER: re.compile(
        r"(?<![0-9A-Za-z.])[1-9]\d{5}(?:18|19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])\d{3}[\dXx](?![0-9A-Za-z])"
    ),
    "a telephone number": re.compile(
        r"(?<![\w.+-])(?:(?:\+?86[ -]?)?1[3-9]\d[ -]?\d{4}[ -]?\d{4}|0\d{2,3}-\d{7,8}"
        r"|\+\d{1,3}(?:[ -]?\d{2,4}){3,4}|\(?\d{3}\)?[ -]\d{3}[ -]\d{4})(?![\w-])"
    ),
    "a Hugging Face token": re.compile(r"\bhf_[A-Za-z0-9]{16,}"),
}


@dataclass(frozen=True)
class Finding:
    """One reason not to push. `where` is the path in the repository, with line or field."""

    where: str
    problem: str
    fix: str

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}. {self.fix}"


def is_local_path(text: str) -> bool:
    """Whether a text is, or holds, a path on somebody's machine."""
    return bool(_LOCAL_PATH.search(text) or _ONE_PART_PATH.fullmatch(text.strip()))


def screen(path: str, content: bytes) -> list[Finding]:
    """Everything in one file that may not leave; an empty list is good news.

    Args:
        path: the path in the repository, which decides how the content is read.
        content: the file, or for safetensors at least its header.
    """
    name, suffix = PurePosixPath(path).name, PurePosixPath(path).suffix
    for magic, what in BINARY.items():
        if re.match(magic, content):
            return [Finding(path, f"is {what}", "Save weights as safetensors and leave this file out of the run")]
    if suffix not in TEXT and suffix != SAFETENSORS:
        allowed = ", ".join(sorted(TEXT | {SAFETENSORS}))
        return [Finding(path, f"files of type {suffix or '(no suffix)'} are not published", f"Move it out of the run; allowed: {allowed}")]
    found = {}
    try:
        for place, value in _values(path, content):
            for finding in _screen_value(f"{path}{place}", value, paths=name not in VOCABULARIES):
                found.setdefault((finding.where, finding.problem), finding)
    except (ValueError, RecursionError) as error:
        return [*found.values(), Finding(path, f"cannot be read as {suffix[1:]} ({str(error)[:120]})", "Write it again")]
    return list(found.values())


def _screen_value(where: str, value, paths: bool) -> Iterator[Finding]:
    if isinstance(value, float):
        if not math.isfinite(value):
            yield Finding(where, f"holds {value}", "A missing number is left out or null, never NaN or infinity")
        return
    text = str(value)
    if paths and isinstance(value, str) and is_local_path(text):
        shown = _LOCAL_PATH.search(text)
        start = shown.start() if shown else 0
        yield Finding(where, f"names a local path, {text[start : start + 60]!r}", "Use a path relative to the run, or a Hub id")
    for kind, pattern in _IDENTIFIERS.items():
        # A whole number may be a count of parameters, so only an identity number, which holds a birth date, is looked for there.
        if (isinstance(value, str) or kind == _IDENTITY_NUMBER) and pattern.search(text):
            yield Finding(where, f"holds {kind}", "Remove it (it is not repeated here)")


def _values(path: str, content: bytes) -> Iterator[tuple[str, str | float]]:
    """(place, value) for every text and number of a file: fields of JSON, lines of other text, metadata of safetensors."""
    suffix = PurePosixPath(path).suffix
    if suffix == SAFETENSORS:
        yield from _leaves(_safetensors_metadata(content))
    elif suffix == ".json":
        yield from _leaves(json.loads(content.decode()))
    elif suffix == ".jsonl":
        for n, line in enumerate(content.decode().splitlines(), 1):
            if line.strip():
                yield from ((f" line {n}{field}", value) for field, value in _leaves(json.loads(line)))
    else:
        yield from ((f" line {n}", line) for n, line in enumerate(content.decode().splitlines(), 1))


def _leaves(value, place: str = "") -> Iterator[tuple[str, str | float]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield f"{place} key", key
            yield from _leaves(inner, f"{place} {key}"[:200] if len(key) < 60 else place)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, place)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield place, value


def _safetensors_metadata(content: bytes) -> dict:
    """The free-text part of a safetensors header (8 bytes of length, then JSON)."""
    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 + length:
        raise ValueError("the safetensors header is cut off")
    return json.loads(content[8 : 8 + length]).get("__metadata__", {})
