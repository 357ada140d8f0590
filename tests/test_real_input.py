"""The same chain on real CT: volumes, stomach labels and endoscopy from ../shared/data; texts and labs are invented and say so."""

import json
from pathlib import Path

import nibabel
import numpy as np
import pytest

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="../shared/data with the real CT volumes is not beside the repository")

SOURCES = {  # patient -> volumes by phase; the whole CT and its crop stand in for two phases of one patient
    "REAL0001": {"venous": "totalseg_example_ct_sm", "delayed": "totalseg_example_ct_sm"},
    "REAL0002": {"venous": "totalseg_example_ct", "non_contrast": "totalseg_example_ct"},
    "REAL0003": {"venous": "acrin_flt_breast_013_ct"},
}
TILES = ["13", "16", "22"]


def stomach_box(labels: np.ndarray) -> dict:
    inside = np.argwhere(labels == 6)
    return {"zyx_min": inside.min(0)[::-1].tolist(), "zyx_max": inside.max(0)[::-1].tolist()}


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A release-like tree around the real volumes, which are linked, not copied."""
    root = tmp_path_factory.mktemp("real") / "release"
    texts = {"meta": {}, "reports": {}, "vqa": {}}
    for number, (case_id, phases) in enumerate(SOURCES.items()):
        folder = root / "imaging" / case_id
        folder.mkdir(parents=True)
        for phase, name in phases.items():
            (folder / f"{phase}.nii.gz").symlink_to(DATA / f"{name}.nii.gz")
        (folder / "endoscopy.png").symlink_to(DATA / "endoscopy" / f"hyperkvasir_banner_{TILES[number]}.png")
        texts["meta"][case_id] = {"Sex": "female", "Age": 60 + number, "Tumor Markers CEA": 12.5, "Overall Stage": "II"}
        texts["reports"][case_id] = {"ct_report": "INVENTED: no lesion is described.", "diagnosis": "INVENTED for a test."}
        texts["vqa"][case_id] = [
            {"question": "Is there ascites?", "answer": "no", "category": "yes_no_factual", "source_report": "ct"},
            {"question": "What is said of lesions?", "answer": "INVENTED: no lesion is described", "category": "lesion_centric"},
        ]
    labels = nibabel.load(DATA / "totalseg_example_seg.nii.gz")
    organ = (np.asarray(labels.dataobj) == 6).astype(np.uint8) * 6
    first = root / "imaging" / "REAL0001"
    nibabel.save(nibabel.Nifti1Image(organ, labels.affine), first / "venous_organ_mask.nii.gz")
    (first / "bbox.json").write_text(json.dumps({"phase": "venous", "stomach_body": [stomach_box(organ)]}))
    for folder in ("EN", "CN"):
        (root / "metadata" / folder).mkdir(parents=True)
        for name, content in texts.items():
            (root / "metadata" / folder / f"{name}.json").write_text(json.dumps(content))
    return root


def test_audit_finds_no_error_and_reports_what_is_absent(tree):
    from gastricx_hf.cases.audit import audit
    from gastricx_hf.sources.release import read_release

    findings = audit(read_release(tree), voxels=True, progress=False)
    assert [f for f in findings if f.severity == "error"] == []
    missing = {(f.case_id, f.field) for f in findings if "missing" in f.message}
    assert missing == {("REAL0001", "non_contrast"), ("REAL0002", "delayed"), ("REAL0003", "non_contrast"), ("REAL0003", "delayed")}


def test_a_planted_wrong_box_and_a_label_map_as_ct_are_errors(tree, tmp_path):
    import shutil

    from gastricx_hf.cases.audit import audit
    from gastricx_hf.sources.release import read_release

    copy = shutil.copytree(tree, tmp_path / "copy", symlinks=True)
    box = {"zyx_min": [0, 0, 0], "zyx_max": [400, 10, 10]}
    (copy / "imaging" / "REAL0001" / "bbox.json").write_text(json.dumps({"phase": "venous", "stomach_body": [box]}))
    path = copy / "imaging" / "REAL0002" / "venous.nii.gz"
    path.unlink()
    path.symlink_to(DATA / "totalseg_example_seg.nii.gz")
    errors = {f.case_id for f in audit(read_release(copy), voxels=True, progress=False) if f.severity == "error"}
    assert errors == {"REAL0001", "REAL0002"}


def test_built_loaded_and_predicted_on(tree, tmp_path, monkeypatch):
    from dataclasses import asdict

    import SimpleITK
    from datasets import load_dataset

    from gastricx_hf.dataset_script.build import build
    from gastricx_hf.inference.run import predict
    from gastricx_hf.inputs.collate import undecoded
    from gastricx_hf.models.loading import new_model, save_aside
    from gastricx_hf.preprocessing.settings import PRESETS
    from gastricx_hf.preprocessing.store import store_beside

    manifest = build(tree, tmp_path / "gastric-x")
    assert manifest["phantom"] is False
    monkeypatch.chdir(tmp_path)
    rows = load_dataset("gastric-x", "vqa")
    every = {row["case_id"]: row for part in rows.values() for row in part}
    assert set(every) == set(SOURCES)
    for case_id, phases in SOURCES.items():
        itk = SimpleITK.ReadImage(str(DATA / f"{phases['venous']}.nii.gz"))
        loaded = np.asarray(every[case_id]["ct_venous"].dataobj)
        assert np.array_equal(loaded, SimpleITK.GetArrayFromImage(itk).transpose(2, 1, 0))
    real = undecoded(rows)
    store = store_beside(tmp_path / "gastric-x", PRESETS["tiny"])
    for part in real.values():
        for row in part:
            case = store.get(row)
            assert case.hu.shape == (4, 64, 64, 32)
            assert case.phase_mask.sum() == len(SOURCES[row["case_id"]])
            assert 10 < np.median(case.hu[2][case.hu[2] > -50]) < 90  # mostly soft tissue, in HU
    save_aside(new_model("x2vlm-med", "tiny", asdict(PRESETS["tiny"]), ["is there ascites no yes"] * 9), tmp_path / "model")
    for split in rows:
        out = predict(tmp_path / "model", tmp_path / "gastric-x", tmp_path / f"{split}.jsonl", split=split, progress=False)
        lines = [json.loads(line) for line in out.read_text().splitlines()]
        assert len(lines) == len(rows[split])
        assert not any(line["provenance"]["phantom"] for line in lines)
