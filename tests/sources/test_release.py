import json
import logging

import nibabel
import numpy as np
import pytest

from gastricx_hf.schema import Box3D, Phase, Structure
from gastricx_hf.sources.release import decide_box_convention, read_release, release_digest


def edit_json(path, change):
    content = json.loads(path.read_text())
    content = change(content) or content
    path.write_text(json.dumps(content))


def test_reads_a_patient(make_release):
    root = make_release()
    case = read_release(root)[0]
    assert case.case_id == "P00"
    assert list(case.volumes) == list(Phase)
    assert case.volumes[Phase.VENOUS] == str(root / "imaging/P00/venous.nii.gz")
    assert case.tumor_masks[Phase.DELAYED].endswith("P00/delayed_tumor_mask.nii.gz")
    assert case.organ_masks[Phase.ARTERIAL].endswith("P00/arterial_organ_mask.nii.gz")
    assert case.endoscopy.endswith("P00/endoscopy.png")
    assert (case.sex, case.age) == ("female", 50)
    assert (case.t_stage, case.n_stage, case.m_stage, case.overall_stage) == ("T3", "N1", "M0", "I")
    assert case.reports == {"ct": "Wall thickening.", "endoscopy": "Ulcer.", "diagnosis": "Cancer."}
    assert [q.question_id for q in case.questions] == ["P00-000", "P00-001", "P00-002"]
    assert [q.category for q in case.questions] == ["localization", "yes_no_factual", "lesion_centric"]
    assert case.questions[0].evidence == "in the antrum"
    assert case.questions[2].source_report == ""


def test_missing_parts_are_legal(make_release):
    cases = {case.case_id: case for case in read_release(make_release())}
    assert Phase.ARTERIAL not in cases["P01"].volumes
    assert cases["P02"].tumor_masks == {}
    assert cases["P02"].boxes == ()
    assert cases["P02"].endoscopy is None
    assert cases["P03"].reports == {}
    assert cases["P03"].questions == ()


def test_labs_match_by_name_and_unmeasured_is_none(make_release):
    root = make_release()
    edit_json(root / "metadata/EN/meta.json", lambda c: c["P04"].update({"Tumor Markers AFP": "<0.61", "Tumor Markers CA199": "lost"}))
    cases = {case.case_id: {lab.name: lab for lab in case.labs} for case in read_release(root)}
    assert cases["P00"]["Tumor Markers CEA"].value == 3.5
    assert cases["P00"]["Tumor Markers CEA"].upper is not None
    assert cases["P00"]["CBC Hemoglobin"].value is None
    assert cases["P01"]["CBC Hemoglobin"].value == 101.0
    assert cases["P01"]["Tumor Markers AFP"].value is None
    assert cases["P04"]["Tumor Markers AFP"].value == 0.61
    assert cases["P04"]["Tumor Markers CA199"].value is None


def test_unknown_record_fields_are_kept_and_said_once(make_release, caplog):
    with caplog.at_level(logging.WARNING):
        cases = read_release(make_release())
    assert {case.items["Ward Colour"] for case in cases} == {"green"}
    assert sum("Ward Colour" in message for message in caplog.messages) == 1


@pytest.mark.parametrize("inclusive", [True, False])
def test_box_corners_are_reversed_and_half_open(make_release, inclusive):
    root = make_release(inclusive=inclusive)
    assert decide_box_convention(root) is inclusive
    case = read_release(root)[0]
    tumor = next(b for b in case.boxes if b.structure == Structure.TUMOR)
    assert tumor == Box3D(Structure.TUMOR, Phase.ARTERIAL, (2, 3, 1), (5, 7, 4))
    mask = np.asarray(nibabel.load(case.tumor_masks[Phase.ARTERIAL]).dataobj)
    inside = mask[tuple(slice(a, b) for a, b in zip(tumor.min, tumor.max, strict=True))]
    assert inside.all()
    assert inside.sum() == mask.sum()


def test_box_convention_is_undecided_without_masks(make_release):
    root = make_release(patients=3)
    for mask in root.glob("imaging/*/*_tumor_mask.nii.gz"):
        mask.unlink()
    assert decide_box_convention(root) is None
    assert next(b for b in read_release(root)[0].boxes if b.structure == Structure.TUMOR).max == (4, 6, 3)


def test_box_falls_back_to_a_phase_whose_grid_contains_it(make_release):
    root = make_release()
    assert {b.phase for b in read_release(root)[1].boxes} == {Phase.VENOUS}
    small = nibabel.Nifti1Image(np.zeros((4, 4, 4), np.int16), np.eye(4))
    nibabel.save(small, root / "imaging/P01/venous.nii.gz")
    assert {b.phase for b in read_release(root)[1].boxes} == {Phase.DELAYED}


def test_box_file_names_its_phase(make_release):
    root = make_release()
    edit_json(root / "imaging/P00/bbox.json", lambda c: c.update(phase="equilibrium"))
    assert {b.phase for b in read_release(root)[0].boxes} == {Phase.DELAYED}


def test_chinese_metadata(make_release):
    root = make_release()
    folder = root / "metadata/CN"
    folder.mkdir()
    (folder / "meta.json").write_text(json.dumps({"P00": {"Sex": "男", "Age": "63岁", "Overall Stage": "Ⅲ期"}}, ensure_ascii=False))
    (folder / "vqa.json").write_text(json.dumps({"P00": [{"问题": "病灶在哪里？", "答案": "胃窦"}]}, ensure_ascii=False))
    case = read_release(root, "cn")[0]
    assert (case.language, case.sex, case.age, case.overall_stage) == ("cn", "male", 63, "III")
    assert case.questions[0].answer == "胃窦"


def test_other_metadata_layouts_say_the_same(make_release):
    root = make_release()
    before = read_release(root)
    folder = root / "metadata/EN"
    records = json.loads((folder / "meta.json").read_text())
    (folder / "meta.json").write_text(json.dumps([{"Patient ID": key, **value} for key, value in records.items()]))
    questions = json.loads((folder / "vqa.json").read_text())
    (folder / "vqa.json").write_text(json.dumps([{"id": key, **q} for key, qs in questions.items() for q in qs]))
    reports = json.loads((folder / "reports.json").read_text())
    (folder / "reports.json").unlink()
    (folder / "reports").mkdir()
    for key, value in reports.items():
        (folder / "reports" / f"{key}.json").write_text(json.dumps(value))
    assert read_release(root) == before


def test_one_file_per_patient(make_release):
    root = make_release()
    before = read_release(root)
    folder = root / "metadata/EN"
    content = {kind: json.loads((folder / f"{kind}.json").read_text()) for kind in ("meta", "reports", "vqa")}
    for kind in content:
        (folder / f"{kind}.json").unlink()
    for case in before:
        (folder / f"{case.case_id}.json").write_text(json.dumps({k: v[case.case_id] for k, v in content.items() if case.case_id in v}))
    assert read_release(root) == before


def test_digest_is_the_same_elsewhere_and_sees_every_change(make_release):
    here, there = make_release(name="here"), make_release(name="there")
    digest = release_digest(read_release(here))
    assert release_digest(read_release(there)) == digest
    volume = there / "imaging/P00/venous.nii.gz"
    voxels = np.asarray(nibabel.load(volume).dataobj).copy()
    voxels[0, 0, 0] += 1
    nibabel.save(nibabel.Nifti1Image(voxels, nibabel.load(volume).affine), volume)
    changed = release_digest(read_release(there))
    edit_json(here / "metadata/EN/reports.json", lambda c: c["P00"].update(diagnosis="Ulcer."))
    assert len({digest, changed, release_digest(read_release(here))}) == 3


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("metadata/EN/reports.json", '{"P00": {"ct_re', ["reports.json", "truncated"]),
        ("metadata/EN/reports.json", '{"P00": {"befund": "x"}}', ["reports.json", "P00", "befund", "ct_report"]),
        ("metadata/EN/vqa.json", '{"P00": [{"frage": "x", "answer": "y"}]}', ["vqa.json", "P00", "frage", "question"]),
        ("metadata/EN/vqa.json", '{"X9": [{"question": "x", "answer": "y"}]}', ["vqa.json", "X9", "imaging/X9"]),
        ("metadata/EN/meta.json", '[{"Sex": "male"}]', ["meta.json", "Sex", "patient_id"]),
        ("imaging/P00/bbox.json", '{"ulcer": []}', ["P00/bbox.json", "ulcer", "lesion"]),
        ("imaging/P00/bbox.json", '{"lesion": [{"min": [1, 2, 3]}]}', ["P00/bbox.json", "tumor box 0", "zyx_min"]),
        ("imaging/P00/bbox.json", '{"lesion": [{"zyx_min": [1, 5, 2], "zyx_max": [4, 3, 6]}]}', ["P00/bbox.json", "tumor box", "empty"]),
    ],
)
def test_one_clear_error_for_bad_files(make_release, file, text, words):
    root = make_release()
    (root / file).write_text(text)
    with pytest.raises(ValueError) as error:
        read_release(root)
    assert all(word in str(error.value) for word in words), error.value


def test_not_a_release_and_missing_language(make_release, tmp_path):
    with pytest.raises(FileNotFoundError, match="not a release folder"):
        read_release(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="EN"):
        read_release(make_release(), "cn")
