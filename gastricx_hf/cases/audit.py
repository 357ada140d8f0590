"""Everything that can be wrong with a dataset, one row per finding.

An error makes a case unfit for training or scoring; a warning is worth a look.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from gastricx_hf.cases.staging import parse_m, parse_n, parse_stage, parse_t, possible_stages
from gastricx_hf.cases.volumes import check_volume, open_volume, volume_problem
from gastricx_hf.schema import Case, Phase

REQUIRED_PHASES = (Phase.NON_CONTRAST, Phase.VENOUS, Phase.DELAYED)
"""The release has them for every patient; arterial is optional."""
SPACING_TOLERANCE = 0.01
"""Relative difference up to which two spacings count as equal."""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong. `severity` is "error" or "warning"; `fix` says what to do about it."""

    case_id: str
    file: str
    field: str
    severity: str
    message: str
    fix: str


def audit(cases: Iterable[Case], voxels: bool = False, progress: bool = True) -> list[Finding]:
    """Check every case, and that no id occurs twice (in one language).

    Args:
        voxels: also read the voxels, which finds truncated files and volumes that are not HU; takes seconds a volume.
        progress: show a progress bar.
    """
    from tqdm import tqdm

    findings: list[Finding] = []
    seen: set[tuple[str, str]] = set()
    for case in tqdm(cases, desc="audit", unit="case", disable=not progress):
        if (case.case_id, case.language) in seen:
            message = f"case id occurs twice in language {case.language!r}"
            findings.append(Finding(case.case_id, "", "case_id", "error", message, "give every patient an id of its own, or drop the copy"))
        seen.add((case.case_id, case.language))
        findings += audit_case(case, voxels)
    return findings


def audit_case(case: Case, voxels: bool = False) -> list[Finding]:
    """Check one case: files, geometry, boxes, stage, age. Volumes behind `hf://` are not opened, which is a warning."""
    return [*_check_record(case), *_check_files(case, voxels)]


def write_audit(findings: Iterable[Finding], path: str | Path) -> None:
    """Write the findings as CSV, one row each under a header; written aside and renamed."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(path.name + ".part")
    with aside.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [f.name for f in fields(Finding)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(finding) for finding in findings)
    aside.replace(path)


def _check_record(case: Case) -> Iterator[Finding]:
    """What can be seen without opening a file: phases, age, sex, stage."""
    for phase in REQUIRED_PHASES:
        if phase not in case.volumes:
            yield Finding(
                case.case_id, "", str(phase), "warning", "required phase is missing", "add the volume; models see the phase as absent"
            )
    if case.age is not None and not 0 <= case.age <= 120:
        yield Finding(case.case_id, "", "age", "error", f"impossible age {case.age}", "correct it, or leave it empty")
    elif case.age is not None and case.age < 18:
        yield Finding(case.case_id, "", "age", "warning", f"age {case.age}: reference ranges are for adults", "check the record")
    if case.sex not in ("male", "female", None):
        yield Finding(case.case_id, "", "sex", "error", f"unknown sex {case.sex!r}", "use 'male' or 'female', or leave it empty")
    yield from _check_stage(case)


def _check_stage(case: Case) -> Iterator[Finding]:
    """Each label must be readable; where all four are recorded, the stage must follow from T, N and M."""
    labels = {"t_stage": parse_t, "n_stage": parse_n, "m_stage": parse_m, "overall_stage": lambda text: parse_stage(text, substages=True)}
    read = {}
    for field, parse in labels.items():
        text = getattr(case, field)
        if text is not None:
            try:
                read[field] = parse(text)
            except ValueError as error:
                yield Finding(case.case_id, "", field, "error", str(error), "correct the label, or leave it empty")
    if len(read) < len(labels):
        return
    *tnm, stage = read.values()
    fix = "check the record: another edition, clinical instead of pathological stage, or a slip"
    try:
        expected = possible_stages(*tnm, substages=stage not in ("I", "II", "III"))
    except ValueError as error:
        yield Finding(case.case_id, "", "overall_stage", "warning", f"stage {stage} cannot be checked: {error}", fix)
        return
    if stage not in expected:
        message = f"stage {stage} does not follow from {' '.join(tnm)}: AJCC 8 gives {' or '.join(expected)}"
        yield Finding(case.case_id, "", "overall_stage", "warning", message, fix)


def _check_files(case: Case, voxels: bool) -> Iterator[Finding]:
    images = {}
    for phase, path in case.volumes.items():
        if str(path).startswith("hf://"):
            yield Finding(case.case_id, path, str(phase), "warning", "not checked: the file is remote", "audit a local copy")
            continue
        try:
            images[phase] = check_volume(path, str(phase), voxels)
        except (ValueError, FileNotFoundError) as error:
            yield _unfit(case, path, str(phase), error)
    yield from _check_masks(case, images, voxels)
    yield from _check_same_geometry(case, images)
    for box in case.boxes:
        field = f"box {box.structure} {box.phase}"
        if box.phase not in case.volumes:
            fix = "read the box against another phase on the same grid, or leave it out"
            yield Finding(case.case_id, "", field, "warning", f"box refers to the {box.phase} phase, which is absent", fix)
        elif box.phase in images and not box.inside(images[box.phase].shape):
            message = f"box {box.min}..{box.max} lies outside its volume of shape {images[box.phase].shape}"
            fix = "check the axis order (the release stores z, y, x) and whether the maximum is inclusive"
            yield Finding(case.case_id, case.volumes[box.phase], field, "error", message, fix)


def _check_masks(case: Case, images: dict, voxels: bool) -> Iterator[Finding]:
    import numpy as np

    masks = [(f"tumor_mask {phase}", phase, path) for phase, path in case.tumor_masks.items()]
    masks += [(f"organ_mask {phase}", phase, path) for phase, path in case.organ_masks.items()]
    for field, phase, path in masks:
        if phase not in images or str(path).startswith("hf://"):
            continue
        try:
            mask, _ = open_volume(path, field, voxels)
        except (ValueError, FileNotFoundError) as error:
            yield _unfit(case, path, field, error)
            continue
        volume = images[phase]
        if problem := volume_problem(mask):
            yield _unfit(case, path, field, ValueError(problem))
        elif mask.shape != volume.shape or not np.allclose(mask.affine, volume.affine, atol=0.01):
            message = f"grid differs from its volume (shape {mask.shape} against {volume.shape}, or another affine)"
            yield Finding(case.case_id, path, field, "error", message, "resample the mask to the grid of its phase")


def _check_same_geometry(case: Case, images: dict) -> Iterator[Finding]:
    """Warn where the phases of one case differ in orientation, shape or spacing."""
    import nibabel
    import numpy as np

    def warn(field: str, values: dict) -> Finding:
        message = "phases differ: " + ", ".join(f"{phase} {value}" for phase, value in values.items())
        return Finding(
            case.case_id, "", field, "warning", message, "bring the phases to one grid before stacking them (the processor does)"
        )

    orientations = {phase: "".join(nibabel.aff2axcodes(image.affine)) for phase, image in images.items()}
    shapes = {phase: image.shape for phase, image in images.items()}
    spacings = {phase: nibabel.affines.voxel_sizes(image.affine) for phase, image in images.items()}
    if len(set(orientations.values())) > 1:
        yield warn("orientation", orientations)
    if len(set(shapes.values())) > 1:
        yield warn("shape", shapes)
    if spacings and any(not np.allclose(s, next(iter(spacings.values())), rtol=SPACING_TOLERANCE) for s in spacings.values()):
        yield warn("spacing", {phase: " x ".join(f"{x:.3g}" for x in s) + " mm" for phase, s in spacings.items()})


def _unfit(case: Case, path: str, field: str, error: Exception) -> Finding:
    """A refused file as a finding. Its sentence reads "PATH (FIELD): what is wrong: what to do"."""
    message, _, fix = str(error).removeprefix(f"{path} ({field}): ").rpartition(": ")
    return Finding(case.case_id, str(path), field, "error", message or fix, fix if message else "restore the file, or exclude the case")
