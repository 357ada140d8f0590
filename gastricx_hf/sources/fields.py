"""Names used by the released JSON files. They are not public below `metadata/EN` (notes on the release), so all live in one table."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Collection
from pathlib import Path

log = logging.getLogger(__name__)

FIELDS: dict[str, dict[str, tuple[str, ...]]] = {
    "file": {
        "meta": ("meta", "metadata", "clinical", "records", "ehr"),
        "reports": ("reports", "report"),
        "vqa": ("vqa", "qa", "vqa_pairs"),
    },
    "patient": {"id": ("id", "patient_id", "case_id", "patient", "case", "编号")},
    "report": {
        "ct": ("ct_report", "ct", "ct_description", "ct_imaging_report", "CT报告"),
        "endoscopy": ("endoscopy_report", "endoscopy", "内镜报告"),
        "diagnosis": ("diagnosis", "diagnosis_report", "diagnostic_conclusion", "诊断", "诊断报告"),
    },
    "question": {
        "question": ("question", "q", "问题"),
        "answer": ("answer", "a", "答案"),
        "category": ("category", "prompt_type", "prompt_category", "question_type", "type", "类别"),
        "source_report": ("source_report", "source", "report", "来源"),
        "evidence": ("evidence", "evidence_sentence", "source_sentence", "依据"),
    },
    "box": {
        "tumor": ("lesion", "tumor", "tumour"),
        "lymph_node": ("nodule", "lymph_node", "node"),
        "stomach": ("stomach_body", "stomach"),
        "phase": ("phase",),
    },
    "corner": {"min": ("zyx_min",), "max": ("zyx_max",)},
    "category": {
        "lesion_centric": ("lesion_centric", "lesion_focused", "lesion"),
        "enhancement_phase": ("enhancement_phase", "enhancement", "enhancement_phase_reasoning"),
        "staging_related": ("staging_related", "staging_focused", "staging"),
        "localization": ("localization", "localisation", "anatomical_localization", "location"),
        "yes_no_factual": ("yes_no_factual", "yes/no", "binary", "yes/no_factual_verification"),
    },
}
"""record -> canonical field -> accepted spellings (case, spaces and punctuation do not matter). Add a spelling here, nowhere else."""


def plain(name: str) -> str:
    """A name without case, spaces, punctuation and the "(De-ID)" mark of Table 8."""
    name = re.sub(r"\(de-?id\)", "", name, flags=re.IGNORECASE)
    return "".join(c for c in name.casefold() if c.isalnum())


def canonical(name: str, record: str) -> str | None:
    """The canonical field of `record` that a found name stands for, or None."""
    wanted = plain(name)
    return next((field for field, spellings in FIELDS[record].items() if wanted in map(plain, spellings)), None)


def expected(record: str) -> str:
    """The accepted spellings of a record's fields, for messages."""
    return "; ".join(f"{field}: {', '.join(spellings)}" for field, spellings in FIELDS[record].items())


def pick(found: dict, record: str) -> tuple[dict, list[str]]:
    """Split a JSON object into its recognised fields, under their canonical names, and the names that were not recognised."""
    named = {key: canonical(key, record) for key in found}
    return {field: found[key] for key, field in named.items() if field}, [key for key, field in named.items() if not field]


def read_json(path: Path):
    """Parse one JSON file.

    Raises:
        ValueError: the file is truncated or not JSON; the message names it.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not valid JSON ({error}). The file may be truncated: copy or download it again.") from error


def read_metadata(root: Path, language: str, patients: Collection[str]) -> dict[str, dict[str, tuple[object, Path]]]:
    """Everything under `metadata/<LANGUAGE>`: kind ("meta", "reports", "vqa") -> patient -> (content, file it came from).

    Accepted layouts: `<kind>.json` keyed by patient or a list of records with an id; `<kind>/<ID>.json`; `<ID>.json` holding the
    kinds as keys.

    Raises:
        FileNotFoundError: the release has no metadata in this language.
        ValueError: a file is malformed, or a record names no patient.
    """
    folder = root / "metadata" / language.upper()
    if not folder.is_dir():
        there = sorted(p.name for p in (root / "metadata").glob("*") if p.is_dir())
        raise FileNotFoundError(f"{folder} is missing: metadata found in {there or 'no language'}; choose the language with --language")
    content: dict[str, dict] = {kind: {} for kind in FIELDS["file"]}
    for path in sorted(folder.iterdir()):
        kind = canonical(path.stem, "file")
        if path.is_dir() and kind:
            content[kind] |= {file.stem: (read_json(file), file) for file in sorted(path.glob("*.json"))}
        elif path.suffix == ".json" and kind:
            content[kind] |= {case_id: (record, path) for case_id, record in _by_patient(path, kind).items()}
        elif path.suffix == ".json" and path.stem in patients:
            kinds, unknown = pick(_object(read_json(path), path), "file")
            if not kinds:
                raise ValueError(f"{path}: found {unknown}, expected one of {expected('file')}")
            for kind, record in kinds.items():
                content[kind][path.stem] = (record, path)
        else:
            log.warning("%s is not recognised and not read: expected %s, or one JSON file per patient", path, expected("file"))
    return content


def _object(value, path: Path) -> dict:
    if not isinstance(value, dict):
        raise ValueError(f"{path}: expected a JSON object, found {type(value).__name__}")
    return value


def _by_patient(path: Path, kind: str) -> dict[str, object]:
    """One file for all patients, keyed by patient or as a list of records."""
    data = read_json(path)
    if not isinstance(data, list):
        return _object(data, path)
    grouped: dict[str, list] = {}
    for n, record in enumerate(data):
        key = next((k for k in _object(record, path) if canonical(k, "patient")), None)
        if key is None:
            raise ValueError(f"{path}: record {n} names no patient: found {sorted(record)}, expected {expected('patient')}")
        grouped.setdefault(str(record[key]), []).append({k: v for k, v in record.items() if k != key})
    if kind == "vqa":
        return grouped
    twice = sorted(case_id for case_id, records in grouped.items() if len(records) > 1)
    if twice:
        raise ValueError(f"{path}: patients with more than one record: {twice[:5]}")
    return {case_id: records[0] for case_id, records in grouped.items()}
