"""A hand-made standardised case and vqa rows, independent of the phantom."""

import nibabel
import numpy as np
import pytest

from gastricx_hf.preprocessing.pipeline import StandardCase
from gastricx_hf.schema import Structure

PHASES = ("non_contrast", "arterial", "venous", "delayed")
SHAPE = (8, 6, 5)


@pytest.fixture
def standard_case():
    """Four phases of (8, 6, 5) voxels of 2 x 2 x 3 mm; the arterial one is missing; two tumour boxes and a stomach box."""
    hu = np.random.default_rng(0).integers(-100, 300, (4, *SHAPE)).astype(np.int16)
    hu[1] = -100
    present = np.array([True, False, True, True])
    return StandardCase(
        case_id="P01",
        hu=hu,
        phase_mask=present,
        boxes={
            Structure.TUMOR: [((1, 2, 0), (4, 5, 2)), ((5, 0, 3), (6, 1, 5))],
            Structure.STOMACH: [((0, 1, 0), (8, 6, 4))],
        },
        affine=np.diag([2.0, 2.0, 3.0, 1.0]),
        mean=tuple(float(v.mean()) if p else 0.0 for v, p in zip(hu, present, strict=True)),
        std=tuple(float(v.std()) if p else 1.0 for v, p in zip(hu, present, strict=True)),
        settings_hash="0" * 64,
    )


def lab(name, value, unit, lower, upper, before_surgery=True) -> dict:
    return {"name": name, "value": value, "unit": unit, "lower": lower, "upper": upper, "before_surgery": before_surgery}


@pytest.fixture
def make_question(tmp_path):
    """Factory of vqa rows with undecoded cells; the volumes of a case are written once."""

    def make(case_id="P01", question="Where is the tumour?", answer="antrum", number=0, **changes) -> dict:
        row = {"question_id": f"{case_id}-{number}", "case_id": case_id}
        for n, phase in enumerate(PHASES):
            path = tmp_path / f"{case_id}-{phase}.nii.gz"
            if not path.exists():
                data = np.random.default_rng([n, *case_id.encode()]).integers(-1000, 400, SHAPE).astype(np.int16)
                nibabel.save(nibabel.Nifti1Image(data, np.diag([2.0, 2.0, 3.0, 1.0])), path)
            row[f"ct_{phase}"] = {"path": str(path), "bytes": None}
        row |= {"endoscopy": None, "sex": "male", "age": 61}
        row["labs"] = [lab("Tumor Markers CEA", 23.4, "ng/mL", None, 5.0), lab("CBC Hemoglobin", 95.0, "g/L", 130.0, 175.0)]
        row["boxes"] = [{"structure": "tumor", "phase": "venous", "min": [1, 2, 0], "max": [4, 5, 2]}]
        row |= {"question": question, "answer": answer, "category": "localization", "answer_type": "closed"}
        row |= {"options": ["antrum", "body", "cardia"], "source_report": "ct"}
        return row | changes

    return make
