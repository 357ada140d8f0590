"""The released Gastric-X tree to cases. Phantom patients are written in the same tree and read by the same code.

    imaging/<ID>/<phase>.nii.gz  <phase>_tumor_mask.nii.gz  <phase>_organ_mask.nii.gz  bbox.json  endoscopy.png
    metadata/<EN|CN>/meta.json  reports.json  vqa.json

Only non-contrast, venous and delayed are in every released patient; everything else may be missing. No volume is read here.
"""

from __future__ import annotations

import hashlib
import logging
import math
import re
import struct
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

from gastricx_hf.cases import staging
from gastricx_hf.cases.indicators import labs, load_indicators, make_lab
from gastricx_hf.provenance import canonical_hash
from gastricx_hf.schema import Case, Lab, Phase, Question
from gastricx_hf.sources.boxes import BOX_FILE, decide_box_convention, read_boxes
from gastricx_hf.sources.fields import canonical, expected, pick, plain, read_metadata

log = logging.getLogger(__name__)

LANGUAGES = ("en", "cn")
PHANTOM_FILE = "PHANTOM.json"
SEX = {"male": "male", "m": "male", "男": "male", "男性": "male", "female": "female", "f": "female", "女": "female", "女性": "female"}
NOT_RECORDED = {"", "-", "/", "na", "n/a", "nan", "null", "未查", "未知", "不详"}
STAGES = {
    "t_stage": ("T Stage", staging.parse_t),
    "n_stage": ("N Stage", staging.parse_n),
    "m_stage": ("M Stage", staging.parse_m),
    "overall_stage": ("Overall Stage", staging.parse_stage),
}
_VOLUME = re.compile(r"(?P<phase>.+?)(?P<mask>_tumor_mask|_organ_mask)?\.nii(\.gz)?")


def read_release(root: str | Path, language: str = "en") -> list[Case]:
    """Read every patient of a release folder, in order of case id (the folder names under `imaging/`).

    Args:
        language: "en" or "cn": which `metadata/` folder the record, reports and questions come from.

    Raises:
        FileNotFoundError: this is not a release folder, or it lacks the language.
        ValueError: a JSON file is malformed, a question's patient has no folder, or a box is malformed; the message names the file.
    """
    return list(iter_release(root, language, decide_box_convention(root)))


def iter_release(root: str | Path, language: str, max_inclusive: bool | None) -> Iterator[Case]:
    """As `read_release`, one patient at a time, with the box convention already decided (`decide_box_convention`)."""
    root = Path(root).absolute()
    if language not in LANGUAGES:
        raise ValueError(f"unknown language {language!r}: expected one of {list(LANGUAGES)}")
    folders = {p.name: p for p in sorted((root / "imaging").glob("*")) if p.is_dir()}
    if not folders:
        raise FileNotFoundError(f"{root} is not a release folder: no patient folders found under {root / 'imaging'}")
    metadata = read_metadata(root, language, folders)
    _check_patients(metadata, folders)
    unknown: set[str] = set()
    for case_id, folder in folders.items():
        case = _read_imaging(folder, language, max_inclusive)
        case = _add_record(case, metadata["meta"].get(case_id), unknown)
        yield replace(
            case,
            reports=_reports(case_id, metadata["reports"].get(case_id)),
            questions=_questions(case_id, metadata["vqa"].get(case_id)),
        )
    if unknown:
        log.warning("record fields not in indicators.csv, kept under their own name: %s", sorted(unknown))


def release_digest(cases: list[Case]) -> str:
    """sha256 of what a set of cases says: records, reports, questions and boxes in full, and a fingerprint of every image file.

    The fingerprint of a `.gz` is the checksum and length of its content (its last eight bytes), otherwise the file's size: no
    volume is read, and copies on two machines give the same digest whatever their paths and times.
    """

    def stamp(path: str | None):
        return path and ["/".join(Path(path).parts[-2:]), _fingerprint(path)]

    files = ("volumes", "tumor_masks", "organ_masks")
    records = []
    for case in sorted(cases, key=lambda c: c.case_id):
        record = asdict(case)
        record |= {name: {str(phase): stamp(path) for phase, path in getattr(case, name).items()} for name in files}
        records.append(record | {"endoscopy": stamp(case.endoscopy)})
    return hashlib.sha256("".join(map(canonical_hash, records)).encode()).hexdigest()


def _fingerprint(path: str) -> list[int] | None:
    file = Path(path)
    if "://" in path or not file.is_file():
        return None
    size = file.stat().st_size
    if not path.endswith(".gz") or size < 8:
        return [size]
    with file.open("rb") as f:
        f.seek(-8, 2)
        return list(struct.unpack("<II", f.read(8)))


def _check_patients(metadata: dict, folders: dict[str, Path]) -> None:
    for kind, records in metadata.items():
        missing = sorted(set(records) - set(folders))
        if missing and kind == "vqa":
            file = records[missing[0]][1]
            raise ValueError(
                f"{file}: questions of patient {missing[0]!r}, who has no folder under imaging/ ({len(missing)} such patients). "
                f"Add imaging/{missing[0]}/ or remove the patient's questions."
            )
        if missing:
            log.warning("%s names %d patients without a folder under imaging/, not read: %s", kind, len(missing), missing[:5])


def _read_imaging(folder: Path, language: str, max_inclusive: bool | None) -> Case:
    found: dict[str | None, dict[Phase, str]] = {None: {}, "_tumor_mask": {}, "_organ_mask": {}}
    for path in sorted(folder.iterdir()):
        match = _VOLUME.fullmatch(path.name)
        if match:
            try:
                found[match["mask"]][Phase.parse(match["phase"])] = str(path)
            except ValueError as error:
                log.warning("%s is not read: %s", path, error)
    volumes = {phase: found[None][phase] for phase in Phase if phase in found[None]}
    box_file = folder / BOX_FILE
    pictures = [p for p in sorted(folder.glob("endoscopy*")) if p.suffix.lower() in (".png", ".jpg", ".jpeg")]
    return Case(
        folder.name,
        language,
        volumes=volumes,
        tumor_masks=found["_tumor_mask"],
        organ_masks=found["_organ_mask"],
        endoscopy=str(pictures[0]) if pictures else None,
        boxes=read_boxes(box_file, volumes, max_inclusive) if box_file.is_file() else (),
    )


def _add_record(case: Case, found: tuple[object, Path] | None, unknown: set[str]) -> Case:
    if found is None:
        return case
    record, path = found
    if not isinstance(record, dict):
        raise ValueError(f"{path}: record of {case.case_id}: expected a JSON object, found {type(record).__name__}")
    exact = {indicator.name for indicator in load_indicators()}
    names = {plain(name): name for name in exact}
    unknown |= {key for key in record if plain(key) not in names}
    items = {key if key in exact else names.get(plain(key), key): _recorded(value) for key, value in record.items()}
    where = f"{path}: {case.case_id}"
    sex = SEX.get(str(_item(items, "Sex")).strip().lower())
    stages = {field: _parsed(items, name, parse, where) for field, (name, parse) in STAGES.items()}
    return replace(case, items=items, sex=sex, age=_age(_item(items, "Age")), labs=_labs(items, sex, where), **stages)


def _item(items: dict, name: str):
    """An item by its name in Table 8, with or without the mark "(De-ID)"."""
    return next((value for key, value in items.items() if plain(key) == plain(name)), None)


def _recorded(value) -> str | float | None:
    """The value as text or number; None where the record leaves it open."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    text = str(value).strip()
    return None if text.lower() in NOT_RECORDED else text


def _parsed(items: dict, name: str, parse, where: str) -> str | None:
    value = _item(items, name)
    if value is None:
        return None
    try:
        return parse(f"{value:g}" if isinstance(value, int | float) else value)
    except ValueError as error:
        log.warning("%s: %s is left out: %s", where, name, error)
        return None


def _age(value) -> int | None:
    match = re.match(r"\d+", str(value))
    return int(match[0]) if match else None


def _labs(items: dict, sex: str | None, where: str) -> tuple[Lab, ...]:
    """Every laboratory item in the order of indicators.csv; not measured is None.

    A value beyond the assay's range ("<0.61", ">1000") is read as the bound.
    """
    values = []
    for indicator in labs():
        value = items.get(indicator.name)
        if isinstance(value, str):
            match = re.fullmatch(r"[<>≤≥]?\s*([-+]?\d+(?:\.\d+)?)\s*(\S*)", value)
            known_unit = match and plain(match[2]) in ("", plain(indicator.unit))
            if not known_unit:
                log.warning("%s: %s %r is not a number in %s and is read as not measured", where, indicator.name, value, indicator.unit)
            value = float(match[1]) if known_unit else None
        values.append(make_lab(indicator.name, value, sex))
    return tuple(values)


def _reports(case_id: str, found: tuple[object, Path] | None) -> dict[str, str]:
    if found is None:
        return {}
    record, path = found
    known, unknown = pick(record, "report") if isinstance(record, dict) else ({}, [type(record).__name__])
    if unknown and not known:
        raise ValueError(f"{path}: reports of {case_id}: found {unknown}, expected {expected('report')}")
    if unknown:
        log.warning("%s: reports of %s: %s are not recognised and not read: expected %s", path, case_id, unknown, expected("report"))
    return {kind: text for kind, text in known.items() if text}


def _questions(case_id: str, found: tuple[object, Path] | None) -> tuple[Question, ...]:
    if found is None:
        return ()
    records, path = found
    if not isinstance(records, list):
        raise ValueError(f"{path}: questions of {case_id}: expected a list, found {type(records).__name__}")
    questions = []
    for n, record in enumerate(records):
        known, _ = pick(record, "question") if isinstance(record, dict) else ({}, [])
        if not known.get("question") or known.get("answer") is None:
            names = sorted(record) if isinstance(record, dict) else type(record).__name__
            raise ValueError(f"{path}: question {n} of {case_id}: found {names}, expected {expected('question')}")
        text = {field: str(value).strip() for field, value in known.items() if value is not None}
        category = text.get("category", "")
        text["category"] = canonical(category, "category") or category
        text["source_report"] = canonical(text.get("source_report", ""), "report") or text.get("source_report", "")
        questions.append(Question(f"{case_id}-{n:03d}", **text))
    return tuple(questions)
