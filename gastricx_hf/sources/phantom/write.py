"""Write phantom patients as the release's own tree, so that one reader serves both."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from gastricx_hf.provenance import write_json
from gastricx_hf.schema import Phase
from gastricx_hf.sources.phantom import anatomy, endoscopy, wording
from gastricx_hf.sources.phantom.truth import Truth, draw_truth

GENERATOR_VERSION = 1
SIZES = {
    "tests": ((64, 64, 32), (6.0, 6.0, 8.0)),
    "small": ((128, 128, 64), (3.0, 3.0, 4.0)),
    "full": ((512, 512, 100), (0.75, 0.75, 2.56)),
}
"""Name -> (shape in voxels, spacing in mm)."""
CN_SEX = {"male": "男", "female": "女"}


def write_phantom(root: str | Path, patients: int, seed: int = 0, size: str = "tests", workers: int = 2, progress: bool = True) -> Path:
    """Write `patients` phantom patients below `root` in the layout of the release (DESIGN: phantom patients).

    Each patient's folder is written aside and renamed, so a killed run resumes with the patients still missing.

    Args:
        size: a key of SIZES.
        workers: threads; NumPy and gzip release the interpreter lock for most of the work.

    Raises:
        ValueError: unknown size, or `root` holds phantoms made with other settings.
    """
    from tqdm import tqdm

    if size not in SIZES:
        raise ValueError(f"unknown phantom size {size!r}: choose one of {sorted(SIZES)}")
    root = Path(root)
    settings = {"phantom": True, "seed": seed, "patients": patients, "size": size, "generator_version": GENERATOR_VERSION}
    _claim(root, settings)
    truths = [draw_truth(index, seed) for index in range(patients)]
    with ThreadPoolExecutor(workers) as pool:
        jobs = pool.map(lambda truth: _write_imaging(root, truth, *SIZES[size]), truths)
        for _ in tqdm(jobs, total=patients, desc="phantom patients", unit="patient", disable=not progress):
            continue
    for folder, language in (("EN", "en"), ("CN", "cn")):
        target = root / "metadata" / folder
        write_json(target / "meta.json", {t.case_id: _meta(t, language) for t in truths})
        write_json(target / "reports.json", {t.case_id: _reports(t, language) for t in truths})
        write_json(target / "vqa.json", {t.case_id: wording.questions(t, language) for t in truths})
    return root


def _claim(root: Path, settings: dict) -> None:
    import json

    marker = root / "PHANTOM.json"
    if marker.is_file() and json.loads(marker.read_text()) != settings:
        raise ValueError(f"{marker} was made with other settings ({marker.read_text().strip()}): choose an empty folder")
    if root.is_dir() and not marker.is_file() and any(root.iterdir()):
        raise ValueError(f"{root} is not empty and holds no phantom patients: choose an empty folder")
    write_json(marker, settings)


def _write_imaging(root: Path, truth: Truth, shape, spacing) -> None:
    folder = root / "imaging" / truth.case_id
    if folder.is_dir():
        return
    aside = root / "imaging" / f".{truth.case_id}.part"
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    annotated = Phase.ARTERIAL if Phase.ARTERIAL in truth.phases else Phase.VENOUS
    for phase in truth.phases:
        hu, organs, structures, affine = anatomy.render(truth, phase, shape, spacing)
        _save(aside / f"{phase}.nii.gz", hu, affine)
        _save(aside / f"{phase}_organ_mask.nii.gz", organs, affine)
        _save(aside / f"{phase}_tumor_mask.nii.gz", (structures == 1).astype(np.uint8), affine)
        if phase is annotated and truth.boxed:
            write_json(aside / "bbox.json", _boxes(phase, structures, organs))
    endoscopy.picture(truth).save(aside / "endoscopy.png")
    aside.rename(folder)


def _save(path: Path, array: np.ndarray, affine: np.ndarray) -> None:
    import nibabel

    image = nibabel.Nifti1Image(array, affine)
    image.header.set_xyzt_units("mm")
    image.set_sform(affine, code=1)
    image.set_qform(affine, code=1)
    nibabel.save(image, path)


def _boxes(phase: Phase, structures: np.ndarray, organs: np.ndarray) -> dict:
    """bbox.json: corners in (z, y, x) voxel order, `zyx_max` inclusive; a class without voxels has no box."""
    regions = {"lesion": structures == 1, "nodule": structures == 2, "stomach_body": organs == anatomy.STOMACH}
    content: dict = {"phase": str(phase)}
    for name, region in regions.items():
        inside = np.argwhere(region)
        boxes = [{"zyx_min": inside.min(0)[::-1].tolist(), "zyx_max": inside.max(0)[::-1].tolist()}] if len(inside) else []
        content[name] = boxes
    return content


def _meta(truth: Truth, language: str) -> dict:
    facts = truth.facts
    return {
        "Sex": truth.sex if language == "en" else CN_SEX[truth.sex],
        "Age": truth.age,
        "T Stage": facts.t,
        "N Stage": facts.n,
        "M Stage": "M0" if facts.spread == "none" else "M1",
        "Overall Stage": truth.overall_stage,
        "Maximum Tumor Diameter": facts.size_cm,
        "Tumor Anatomical Location": facts.site if language == "en" else wording.CN_WORDS[facts.site],
        **{lab.name: lab.value for lab in truth.labs},
    }


def _reports(truth: Truth, language: str) -> dict:
    texts, _ = wording.reports(truth, language)
    return {"ct_report": texts["ct"], "endoscopy_report": texts["endoscopy"], "diagnosis": texts["diagnosis"]}
