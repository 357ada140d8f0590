"""A tiny release tree written by hand, so that readers are not tested against our own phantom writer."""

import json
from pathlib import Path

import nibabel
import numpy as np
import pytest
from PIL import Image

SHAPE = (8, 10, 6)
AFFINE = np.diag([0.8, 0.7, 5.0, 1.0])
TUMOR = (slice(2, 5), slice(3, 7), slice(1, 4))
PHASES = ("non_contrast", "arterial", "venous", "delayed")
STAGES = ("I", "II", "III", "IV")


def write_patient(folder: Path, seed: int, phases=PHASES, inclusive=True) -> None:
    """One patient: the tumour of every phase fills TUMOR; the box is stored in z, y, x order."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    mask = np.zeros(SHAPE, np.uint8)
    mask[TUMOR] = 1
    for phase in phases:
        volume = rng.integers(-1000, 400, SHAPE).astype(np.int16)
        nibabel.save(nibabel.Nifti1Image(volume, AFFINE), folder / f"{phase}.nii.gz")
        nibabel.save(nibabel.Nifti1Image(mask, AFFINE), folder / f"{phase}_tumor_mask.nii.gz")
        nibabel.save(nibabel.Nifti1Image(mask * 6, AFFINE), folder / f"{phase}_organ_mask.nii.gz")
    end = 1 if inclusive else 0
    lesion = {"zyx_min": [1, 3, 2], "zyx_max": [4 - end, 7 - end, 5 - end]}
    (folder / "bbox.json").write_text(json.dumps({"lesion": [lesion], "stomach_body": [{"zyx_min": [0, 1, 0], "zyx_max": [4, 8, 6]}]}))
    Image.fromarray(rng.integers(0, 255, (6, 9, 3), dtype=np.uint8)).save(folder / "endoscopy.png")


def record(n: int) -> dict:
    return {
        "Sex": "male" if n % 2 else "female",
        "Age": 50 + n,
        "tumor markers cea": 3.5 + n,
        "CBC Hemoglobin": "101" if n else None,
        "T Stage": "pT3",
        "N Stage": "N1",
        "M Stage": "M0",
        "Overall Stage": STAGES[n % 4],
        "Ward Colour": "green",
    }


def questions(n: int) -> list[dict]:
    return [
        {"question": "Where is it?", "answer": "Antrum.", "category": "Localization", "source_report": "ct", "evidence": "in the antrum"},
        {"question": "Is it big?", "answer": "Yes" if n % 2 else "No", "category": "yes_no_factual", "source_report": "diagnosis"},
        {"question": "What is seen?", "answer": f"Wall thickening of {n} mm with ulceration", "category": "Lesion-focused"},
    ]


@pytest.fixture
def make_release(tmp_path):
    """Factory of release folders; returns the root. P01 has no arterial volume, P02 no masks, boxes or endoscopy, P03 no texts."""

    def make(patients: int = 8, name: str = "release", inclusive: bool = True) -> Path:
        root = tmp_path / name
        ids = [f"P{n:02d}" for n in range(patients)]
        for n, case_id in enumerate(ids):
            phases = tuple(p for p in PHASES if p != "arterial") if n == 1 else PHASES
            write_patient(root / "imaging" / case_id, n, phases, inclusive)
        for path in (root / "imaging" / "P02").glob("*"):
            if "mask" in path.name or path.suffix in (".json", ".png"):
                path.unlink()
        folder = root / "metadata" / "EN"
        folder.mkdir(parents=True)
        reports = {"ct_report": "Wall thickening.", "endoscopy_report": "Ulcer.", "diagnosis": "Cancer."}
        texts = [case_id for n, case_id in enumerate(ids) if n != 3]
        (folder / "meta.json").write_text(json.dumps({case_id: record(n) for n, case_id in enumerate(ids)}))
        (folder / "reports.json").write_text(json.dumps(dict.fromkeys(texts, reports)))
        (folder / "vqa.json").write_text(json.dumps({case_id: questions(int(case_id[1:])) for case_id in texts}))
        return root

    return make
