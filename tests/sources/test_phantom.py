"""Phantom patients: their pictures carry the planted truth, and the oracle is the Bayes reader by an independent count."""

import json

import nibabel
import numpy as np
import pytest

from gastricx_hf.schema import Phase, Schema
from gastricx_hf.sources.phantom import draw_truth, oracle, wording, write_phantom
from gastricx_hf.sources.phantom import truth as law
from gastricx_hf.sources.phantom.oracle import posteriors
from gastricx_hf.tasks.vqa import CATEGORIES

KIND = {kind.name: i for i, kind in enumerate(wording.KINDS)}


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    return write_phantom(tmp_path_factory.mktemp("phantom") / "tree", 12, seed=3, progress=False)


def volume(tree, truth, name):
    return nibabel.load(tree / "imaging" / truth.case_id / f"{name}.nii.gz")


def test_same_seed_same_bytes(tree, tmp_path):
    again = write_phantom(tmp_path / "again", 2, seed=3, progress=False)
    for path in sorted((again / "imaging").rglob("*")):
        if path.is_file():
            assert path.read_bytes() == (tree / path.relative_to(again)).read_bytes(), path.name
    assert draw_truth(0, 3) != draw_truth(0, 4)


def test_resumes_with_the_missing_patients(tree, tmp_path):
    import shutil

    copy = shutil.copytree(tree, tmp_path / "copy")
    shutil.rmtree(copy / "imaging" / draw_truth(5, 3).case_id)
    (copy / "imaging" / f".{draw_truth(5, 3).case_id}.part").mkdir()
    write_phantom(copy, 12, seed=3, progress=False)
    assert sorted(p.name for p in (copy / "imaging").iterdir()) == sorted(p.name for p in (tree / "imaging").iterdir())


def test_other_settings_and_foreign_folders_are_refused(tree, tmp_path):
    with pytest.raises(ValueError, match="other settings"):
        write_phantom(tree, 13, seed=3, progress=False)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="not empty"):
        write_phantom(tmp_path, 1, progress=False)
    with pytest.raises(ValueError, match="unknown phantom size"):
        write_phantom(tmp_path / "new", 1, size="huge", progress=False)


def test_the_lesion_peaks_in_its_phase_and_phases_differ(tree):
    peaks = {"arterial phase": Phase.ARTERIAL, "venous phase": Phase.VENOUS, "delayed phase": Phase.DELAYED}
    seen = set()
    for index in range(12):
        truth = draw_truth(index, 3)
        if Phase.ARTERIAL not in truth.phases:
            assert not (tree / "imaging" / truth.case_id / "arterial.nii.gz").exists()
            continue
        means = {}
        for phase in Phase:
            hu = np.asarray(volume(tree, truth, phase).dataobj)
            tumour = np.asarray(volume(tree, truth, f"{phase}_tumor_mask").dataobj) == 1
            means[phase] = hu[tumour].mean()
            aorta = hu[np.asarray(volume(tree, truth, f"{phase}_organ_mask").dataobj) == 7].mean()
            assert abs(aorta - {"non_contrast": 40, "arterial": 290, "venous": 160, "delayed": 120}[phase]) < 5
        assert max(means, key=means.get) is peaks[truth.facts.peak]
        seen.add(truth.facts.peak)
    assert len(seen) == 3


def test_boxes_are_the_masks_own_and_read_back_inclusive(tree):
    checked = 0
    for index in range(12):
        truth = draw_truth(index, 3)
        path = tree / "imaging" / truth.case_id / "bbox.json"
        assert path.is_file() == truth.boxed
        if not truth.boxed:
            continue
        content = json.loads(path.read_text())
        mask = np.asarray(volume(tree, truth, content["phase"] + "_tumor_mask").dataobj)
        inside = np.argwhere(mask)
        assert content["lesion"] == [{"zyx_min": inside.min(0)[::-1].tolist(), "zyx_max": inside.max(0)[::-1].tolist()}]
        assert bool(content["nodule"]) == (truth.facts.n != "N0")
        assert len(content["stomach_body"]) == 1
        checked += 1
    assert checked >= 8


def test_eight_questions_whose_answers_stand_in_their_evidence(tree):
    for folder in ("EN", "CN"):
        vqa = json.loads((tree / "metadata" / folder / "vqa.json").read_text())
        reports = json.loads((tree / "metadata" / folder / "reports.json").read_text())
        for case_id, rows in vqa.items():
            assert len(rows) == 8
            assert {r["category"] for r in rows} == set(CATEGORIES)
            for row in rows:
                report = reports[case_id]["ct_report" if row["source_report"] == "ct" else "diagnosis"]
                assert row["evidence"] in report
            open_answer = rows[KIND["impression"]]
            assert open_answer["answer"] in open_answer["evidence"]


def test_labs_follow_the_truth():
    truths = [draw_truth(i, 1) for i in range(800)]
    hb = {g: [lab.value / lab.lower for t in truths for lab in t.labs if lab.name == "CBC Hemoglobin" and lab.value and t.facts.gross == g]
          for g in law.GROSS}  # fmt: skip
    assert np.median(hb["ulcerative"]) == pytest.approx(0.80, abs=0.02)
    assert np.median(hb["mass-forming"]) == pytest.approx(1.12, abs=0.02)
    assert 0.63 < np.mean([t.sex == "male" for t in truths]) < 0.72


def test_oracle_rises_with_what_a_schema_shows():
    scores = {schema: oracle("vqa", schema, patients=150) for schema in (None, *Schema)}
    assert scores[None] < scores[Schema.IMAGE] < scores[Schema.IMAGE_TABLE] < scores[Schema.IMAGE_TABLE_BBOX]
    assert scores[Schema.IMAGE] < scores[Schema.IMAGE_BBOX] < scores[Schema.IMAGE_TABLE_BBOX] < 100
    with pytest.raises(ValueError, match="no oracle"):
        oracle("retrieval", Schema.IMAGE)


def test_oracle_is_calibrated_on_fresh_patients():
    """A Bayes reader's stated probability is how often it is right: 1,500 patients, four schemas and none."""
    truths = [draw_truth(i, 9) for i in range(1500)]
    for schema in (None, *Schema):
        stated, right = [], []
        for truth in truths:
            for kind, posterior in zip(wording.KINDS, posteriors(truth, schema), strict=True):
                if posterior:
                    best = max(posterior, key=posterior.get)
                    stated.append(posterior[best])
                    right.append(best == kind.answer(truth.facts))
        stated, right = np.array(stated), np.array(right)
        assert stated.mean() == pytest.approx(right.mean(), abs=0.01)
        for low in (0.5, 0.6, 0.7, 0.8, 0.9):
            inside = (stated >= low) & (stated < low + 0.1)
            if inside.sum() > 400:
                assert stated[inside].mean() == pytest.approx(right[inside].mean(), abs=4.5 * 0.5 / np.sqrt(inside.sum()) + 0.01)


def test_oracle_by_hand_for_the_site_question():
    """With the image alone the site is known for one lesion, and a coin's throw between two unless T, N or fat tilt it."""
    by_lesions = {1: [], 2: []}
    for index in range(200):
        truth = draw_truth(index, 0)
        by_lesions[len(truth.lesions)].append(posteriors(truth, Schema.IMAGE)[KIND["site"]][truth.facts.site])
    assert np.allclose(by_lesions[1], 1.0)
    assert np.mean(by_lesions[2]) == pytest.approx(0.5, abs=0.06)
    boxed = next(t for t in map(draw_truth, range(50)) if t.boxed and len(t.lesions) == 2)
    assert posteriors(boxed, Schema.IMAGE_BBOX)[KIND["site"]][boxed.facts.site] == pytest.approx(1.0)
