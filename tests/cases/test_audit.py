import csv
from dataclasses import replace

import nibabel
import numpy as np
import pytest

from gastricx_hf.cases.audit import audit, audit_case, write_audit
from gastricx_hf.schema import Box3D, Case, Phase, Structure

SHAPE = (12, 10, 6)
AFFINE = np.diag([0.8, 0.8, 5.0, 1.0])


def save(path, shape=SHAPE, affine=AFFINE, dtype=np.int16) -> str:
    voxels = np.random.default_rng(0).normal(40, 15, shape)
    voxels[:3] = -1000
    nibabel.save(nibabel.Nifti1Image(voxels.astype(dtype), affine), path)
    return str(path)


@pytest.fixture
def case(tmp_path) -> Case:
    phases = (Phase.NON_CONTRAST, Phase.VENOUS, Phase.DELAYED)
    return Case(
        "P1",
        volumes={phase: save(tmp_path / f"{phase}.nii.gz") for phase in phases},
        tumor_masks={Phase.VENOUS: save(tmp_path / "venous_tumor_mask.nii.gz")},
        boxes=(Box3D(Structure.TUMOR, Phase.VENOUS, (1, 2, 3), (12, 10, 6)),),
        sex="female",
        age=61,
        t_stage="T3",
        n_stage="N1",
        m_stage="M0",
        overall_stage="IIB",
    )


def only(findings):
    assert len(findings) == 1, findings
    return findings[0]


def test_a_sound_case_has_no_findings(case):
    assert audit_case(case) == audit_case(case, voxels=True) == []


def test_missing_required_phase(case):
    volumes = {phase: path for phase, path in case.volumes.items() if phase is not Phase.DELAYED}
    finding = only(audit_case(replace(case, volumes=volumes)))
    assert (finding.case_id, finding.field, finding.severity, finding.message) == ("P1", "delayed", "warning", "required phase is missing")


def test_missing_and_truncated_files(case, tmp_path):
    broken = replace(case, volumes=case.volumes | {Phase.ARTERIAL: str(tmp_path / "none.nii.gz")})
    finding = only(audit_case(broken))
    assert (finding.file, finding.field, finding.message) == (str(tmp_path / "none.nii.gz"), "arterial", "no such file")
    for name in ("venous.nii.gz", "venous_tumor_mask.nii.gz"):
        path = tmp_path / name
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        finding = only(audit_case(case, voxels=True))
        assert (finding.file, finding.fix) == (str(path), "get the file again")
        assert "truncated" in finding.message
        path.write_bytes(whole)


def test_box_outside_its_volume_and_box_without_volume(case):
    outside = Box3D(Structure.TUMOR, Phase.VENOUS, (1, 2, 3), (12, 10, 7))
    finding = only(audit_case(replace(case, boxes=(outside,))))
    assert (finding.severity, finding.field) == ("error", "box tumor venous")
    assert "(1, 2, 3)..(12, 10, 7) lies outside its volume of shape (12, 10, 6)" in finding.message
    absent = Box3D(Structure.LYMPH_NODE, Phase.ARTERIAL, (0, 0, 0), (2, 2, 2))
    finding = only(audit_case(replace(case, boxes=(absent,))))
    assert (finding.severity, finding.field) == ("warning", "box lymph_node arterial")


def test_phases_of_different_geometry(case, tmp_path):
    flipped = np.diag([-0.8, 0.8, 5.0, 1.0])
    finding = only(audit_case(replace(case, volumes=case.volumes | {Phase.ARTERIAL: save(tmp_path / "a.nii.gz", affine=flipped)})))
    assert (finding.severity, finding.field) == ("warning", "orientation")
    assert "venous RAS" in finding.message
    assert "arterial LAS" in finding.message
    taller = save(tmp_path / "b.nii.gz", shape=(12, 10, 9))
    assert only(audit_case(replace(case, volumes=case.volumes | {Phase.ARTERIAL: taller}))).field == "shape"
    coarser = save(tmp_path / "c.nii.gz", affine=np.diag([0.8, 0.8, 5.2, 1.0]))
    finding = only(audit_case(replace(case, volumes=case.volumes | {Phase.ARTERIAL: coarser})))
    assert finding.field == "spacing"
    assert "arterial 0.8 x 0.8 x 5.2 mm" in finding.message


def test_mask_on_another_grid(case, tmp_path):
    for path in (save(tmp_path / "m.nii.gz", shape=(12, 10, 5)), save(tmp_path / "n.nii.gz", affine=np.diag([0.8, 0.8, 4.0, 1.0]))):
        finding = only(audit_case(replace(case, organ_masks={Phase.VENOUS: path})))
        assert (finding.severity, finding.field, finding.file) == ("error", "organ_mask venous", path)


def test_units_are_judged_with_voxels_only(case, tmp_path):
    voxels = np.random.default_rng(0).random(SHAPE).astype(np.float32)
    nibabel.save(nibabel.Nifti1Image(voxels, AFFINE), tmp_path / "venous.nii.gz")
    assert audit_case(case) == []
    finding = only(audit_case(case, voxels=True))
    assert finding.message.startswith("is rescaled to 0.")
    assert finding.message.endswith(", not HU")
    assert finding.fix == "give the original volume in HU"


def test_stage_against_t_n_m(case):
    finding = only(audit_case(replace(case, overall_stage="III")))
    assert (finding.severity, finding.field) == ("warning", "overall_stage")
    assert "stage III does not follow from T3 N1 M0: AJCC 8 gives II" in finding.message
    assert "AJCC 8 gives IIB" in only(audit_case(replace(case, overall_stage="IIA"))).message
    assert audit_case(replace(case, overall_stage="II")) == []
    assert audit_case(replace(case, m_stage="M1", overall_stage="IV")) == []
    assert audit_case(replace(case, t_stage="T4", n_stage="N0", overall_stage="III")) == []  # T4b N0
    assert audit_case(replace(case, t_stage=None, overall_stage="IV")) == []
    assert "cannot be checked" in only(audit_case(replace(case, t_stage="TX"))).message
    finding = only(audit_case(replace(case, n_stage="N7", overall_stage=None)))
    assert (finding.severity, finding.field) == ("error", "n_stage")


@pytest.mark.parametrize(("age", "severity"), [(-1, "error"), (140, "error"), (12, "warning")])
def test_ages(case, age, severity):
    finding = only(audit_case(replace(case, age=age)))
    assert (finding.field, finding.severity) == ("age", severity)
    assert audit_case(replace(case, age=None, sex=None)) == []


def test_unknown_sex(case):
    assert only(audit_case(replace(case, sex="F"))).field == "sex"


def test_remote_files_are_not_opened(case):
    remote = case.volumes | {Phase.VENOUS: "hf://datasets/you/name@abc/imaging/P1/venous.nii.gz"}
    finding = only(audit_case(replace(case, volumes=remote)))
    assert (finding.severity, finding.message) == ("warning", "not checked: the file is remote")


def test_duplicate_ids(case):
    findings = audit(iter([case, replace(case, case_id="P2"), case, replace(case, language="cn")]), progress=False)
    finding = only(findings)
    assert (finding.case_id, finding.field, finding.severity) == ("P1", "case_id", "error")


def test_progress_bar_and_table(case, tmp_path, capsys):
    findings = audit([replace(case, age=200), replace(case, case_id="P2", sex="F")])
    assert "audit" in capsys.readouterr().err
    write_audit(findings, tmp_path / "out" / "audit.csv")
    with (tmp_path / "out" / "audit.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["case_id"], row["field"], row["severity"]) for row in rows] == [("P1", "age", "error"), ("P2", "sex", "error")]
    assert list(rows[0]) == ["case_id", "file", "field", "severity", "message", "fix"]
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["audit.csv"]
