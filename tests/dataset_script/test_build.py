import gzip
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import nibabel
import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml
from PIL import Image

from gastricx_hf.dataset_script import build as build_module
from gastricx_hf.dataset_script import checks
from gastricx_hf.dataset_script.build import build
from gastricx_hf.dataset_script.gastric_x import features
from gastricx_hf.dataset_script.tables import write_split
from gastricx_hf.provenance import read_manifest
from gastricx_hf.sources.release import read_release

FILES = {"README.md", "gastricx.json", "splits.json", "eval.yaml", "vqa", "cases"}

LOAD = """
import hashlib, json, sys
import numpy as np
from datasets import get_dataset_config_names, load_dataset

def voxels(image):
    return image and [hashlib.sha256(np.ascontiguousarray(image.dataobj).tobytes()).hexdigest(), image.affine.tolist()]

def plain(row):
    return {k: voxels(v) if k.startswith(("ct_", "tumor_mask", "organ_mask")) and k != "ct_report"
            else (v and np.asarray(v).tolist()) if k == "endoscopy" else v for k, v in row.items()}

found = {"names": get_dataset_config_names("gastric-x")}
for config in ("vqa", "cases"):
    found[config] = {split: [plain(row) for row in rows] for split, rows in load_dataset("gastric-x", config).items()}
    found[config + " streamed"] = {s: [plain(row) for row in rows] for s, rows in load_dataset("gastric-x", config, streaming=True).items()}
found["default"] = load_dataset("gastric-x", split="test").column_names
found["filtered"] = load_dataset("gastric-x", "vqa", split="train", filters=[("category", "==", "localization")])["answer"][:]
json.dump(found, sys.stdout)
"""


def run_fresh(script: str, cwd: Path, cache: Path) -> subprocess.CompletedProcess:
    env = os.environ | {"HF_HOME": str(cache), "HF_DATASETS_CACHE": str(cache / "datasets"), "HF_HUB_OFFLINE": "1"}
    return subprocess.run([sys.executable, "-c", script], cwd=cwd, env=env, capture_output=True, text=True, timeout=300, check=False)


def voxels(path: Path) -> list:
    image = nibabel.load(path)
    return [hashlib.sha256(np.ascontiguousarray(image.dataobj).tobytes()).hexdigest(), image.affine.tolist()]


def leftovers(folder: Path) -> list[str]:
    return [p.name for p in folder.glob(".*part*")]


@pytest.mark.parametrize("embed", [False, True])
def test_the_literal_call_in_a_fresh_process(make_release, tmp_path, embed):
    root = make_release()
    sources = {case: {p.name[:-7]: voxels(p) for p in (root / "imaging" / case).glob("*.nii.gz")} for case in os.listdir(root / "imaging")}
    picture = np.asarray(Image.open(root / "imaging/P05/endoscopy.png")).tolist()
    build(root, tmp_path / "work/gastric-x", embed=embed)
    if embed:
        shutil.rmtree(root)
    result = run_fresh(LOAD, tmp_path / "work", tmp_path / "cache")
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["names"] == ["cases", "vqa"]
    assert found["vqa streamed"] == found["vqa"]
    assert found["cases streamed"] == found["cases"]
    assert found["default"][0] == "question_id"
    assert found["filtered"]
    assert set(found["filtered"]) == {"Antrum."}

    questions = [row for rows in found["vqa"].values() for row in rows]
    patients = {row["case_id"]: row for rows in found["cases"].values() for row in rows}
    assert sorted(row["question_id"] for row in questions) == [f"P{n:02d}-{q:03d}" for n in range(8) if n != 3 for q in range(3)]
    assert sorted(patients) == sorted(sources)
    for row in [*questions, *patients.values()]:
        for phase in ("non_contrast", "arterial", "venous", "delayed"):
            assert row[f"ct_{phase}"] == sources[row["case_id"]].get(phase)
    for case_id, row in patients.items():
        for mask in ("tumor_mask", "organ_mask"):
            assert row[f"{mask}_venous"] == sources[case_id].get(f"venous_{mask}")
    assert patients["P05"]["endoscopy"] == picture
    assert patients["P02"]["endoscopy"] is None


def test_vqa_rows_hide_the_record_and_cases_hold_it(make_release, tmp_path):
    build(make_release(), tmp_path / "gastric-x")
    rows = pq.read_table(tmp_path / "gastric-x/vqa").to_pylist()
    assert not {"t_stage", "overall_stage", "diagnosis", "ct_report", "items", "evidence"} & set(rows[0])
    assert {row["answer_type"] for row in rows if row["category"] == "yes_no_factual"} == {"closed"}
    assert all(row["options"] == ["no", "yes"] for row in rows if row["category"] == "yes_no_factual")
    case = next(row for row in pq.read_table(tmp_path / "gastric-x/cases").to_pylist() if row["case_id"] == "P01")
    assert (case["overall_stage"], case["diagnosis"], json.loads(case["items"])["T Stage"]) == ("II", "Cancer.", "pT3")
    assert case["questions"][0]["evidence"] == "in the antrum"
    tumor = next(box for box in case["boxes"] if box["structure"] == "tumor")
    assert tumor == {"structure": "tumor", "phase": "venous", "min": [2, 3, 1], "max": [5, 7, 4]}
    cea = next(lab for lab in case["labs"] if lab["name"] == "Tumor Markers CEA")
    assert cea["value"] == 4.5


def test_references_copy_no_volume_and_embedding_keeps_no_local_path(make_release, tmp_path):
    root = make_release()
    build(root, tmp_path / "a/gastric-x")
    build(root, tmp_path / "b/gastric-x", embed=True)
    cell = pq.read_table(tmp_path / "a/gastric-x/cases").to_pylist()[0]["ct_venous"]
    assert cell["bytes"] is None
    assert Path(cell["path"]).is_file()
    cell = pq.read_table(tmp_path / "b/gastric-x/cases").to_pylist()[0]["ct_venous"]
    assert cell["bytes"] == (root / "imaging" / cell["path"]).read_bytes()
    for path in (tmp_path / "b/gastric-x").rglob("*"):
        assert path.is_dir() or str(tmp_path).encode() not in path.read_bytes()


def test_manifest_card_and_splits_agree(make_release, tmp_path):
    manifest = build(make_release(), tmp_path / "gastric-x", seed=3)
    folder = tmp_path / "gastric-x"
    assert {p.name for p in folder.iterdir()} == FILES
    assert read_manifest(folder) == manifest
    assert manifest["counts"]["patients"] == 8
    assert manifest["counts"]["volumes"] == {"non_contrast": 8, "arterial": 7, "venous": 8, "delayed": 8}
    assert manifest["counts"]["patients_with"]["boxes"] == 7
    assert (manifest["phantom"], manifest["box_max_inclusive"], manifest["embedded"]) == (False, True, False)
    splits = json.loads((folder / "splits.json").read_text())
    assert splits["split_hash"] == manifest["split_hash"]
    for split in ("train", "validation", "test"):
        rows = pq.read_table(folder / "cases" / f"{split}-00000.parquet")["case_id"].to_pylist()
        assert rows == splits[split]
        assert len(rows) == manifest["counts"]["rows"]["cases"][split]
    header = yaml.safe_load((folder / "README.md").read_text().split("---")[1])
    assert header["license"] == "cc-by-nc-nd-4.0"
    assert header["extra_gated_fields"]["Country"] == "country"
    text = (folder / "README.md").read_text()
    assert "PHANTOM" not in text
    assert "| patients | 8 |" in text
    assert "| Tumor Markers CEA |" in text
    tasks = yaml.safe_load((folder / "eval.yaml").read_text())["tasks"]
    assert [(t["id"], t["config"], t["split"]) for t in tasks] == [("vqa_accuracy", "vqa", "test")]


def test_same_data_gives_the_same_revision_and_another_seed_another_split(make_release, tmp_path):
    here, there = make_release(name="here"), make_release(name="there")
    first = build(here, tmp_path / "a")
    assert build(there, tmp_path / "b", embed=True) | {"embedded": False} == first
    other = build(here, tmp_path / "c", seed=1)
    assert other["data_revision"] == first["data_revision"]
    assert other["split_hash"] != first["split_hash"]


def test_phantoms_are_labelled_everywhere(make_release, tmp_path):
    root = make_release()
    (root / "PHANTOM.json").write_text('{"phantom": true}')
    manifest = build(root, tmp_path / "gastric-x")
    assert (manifest["phantom"], manifest["source"]) == (True, "phantom")
    text = (tmp_path / "gastric-x/README.md").read_text()
    header = yaml.safe_load(text.split("---")[1])
    assert "PHANTOM" in header["pretty_name"]
    assert header["license"] == "apache-2.0"
    assert "extra_gated_fields" not in header
    assert "# Gastric-X PHANTOM" in text
    assert "PHANTOM" in yaml.safe_load((tmp_path / "gastric-x/eval.yaml").read_text())["name"]
    with pytest.raises(ValueError, match="invented"):
        build(root, tmp_path / "other", phantom=False)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-200])


def make_rgb(path: Path) -> None:
    rgb = np.zeros((8, 10, 6), np.dtype([("R", "u1"), ("G", "u1"), ("B", "u1")]))
    nibabel.save(nibabel.Nifti1Image(rgb, np.eye(4)), path)


def shrink(path: Path) -> None:
    nibabel.save(nibabel.Nifti1Image(np.zeros((4, 4, 4), np.int16), np.eye(4)), path)


def drop_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


def break_picture(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:60])


@pytest.mark.parametrize(
    ("file", "spoil", "words"),
    [
        ("P04/venous.nii.gz", truncate, ["P04", "venous.nii.gz", "truncated"]),
        ("P04/venous_tumor_mask.nii.gz", truncate, ["P04", "venous_tumor_mask.nii.gz", "truncated"]),
        ("P04/delayed.nii.gz", make_rgb, ["P04", "delayed.nii.gz", "RGB"]),
        ("P04/arterial.nii.gz", shrink, ["P04", "arterial.nii.gz", "outside its volume", "(2, 3, 1)"]),
        ("P04/endoscopy.png", break_picture, ["P04", "endoscopy.png"]),
        ("P04/venous.nii.gz", drop_folder, ["vqa.json", "P04", "imaging/P04"]),
    ],
)
@pytest.mark.parametrize("earlier", [False, True])
def test_unfit_source_is_one_error_and_nothing_is_written(make_release, tmp_path, file, spoil, words, earlier):
    root, out = make_release(), tmp_path / "out/gastric-x"
    before = build(root, out) if earlier else None
    spoil(root / "imaging" / file)
    with pytest.raises(ValueError) as error:
        build(root, out)
    assert all(word in str(error.value) for word in words), error.value
    assert leftovers(tmp_path / "out") == []
    if earlier:
        assert read_manifest(out) == before
    else:
        assert not out.exists()


def test_a_failure_while_writing_leaves_the_earlier_build(make_release, tmp_path, monkeypatch):
    root, out = make_release(), tmp_path / "gastric-x"
    before = build(root, out)

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(build_module.card, "dataset_card", fail)
    with pytest.raises(OSError, match="disk full"):
        build(root, out, seed=5)
    assert read_manifest(out) == before
    assert leftovers(tmp_path) == []


KILLED = """
import sys, time
from gastricx_hf.dataset_script import build as b
b.card.dataset_card = lambda *_: time.sleep(120)
b.build(sys.argv[1], sys.argv[2])
"""


def test_a_killed_build_leaves_nothing_under_the_name_and_the_next_one_cleans_up(make_release, tmp_path):
    root, out = make_release(), tmp_path / "gastric-x"
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(root), str(out)])
    try:
        for _ in range(600):
            if list(tmp_path.glob(".gastric-x.part-*/eval.yaml")):
                break
            assert process.poll() is None
            time.sleep(0.1)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert leftovers(tmp_path)
    assert not out.exists()
    build(root, out)
    assert leftovers(tmp_path) == []
    assert {p.name for p in out.iterdir()} == FILES


def test_a_running_build_is_not_cleaned_away(make_release, tmp_path):
    running = tmp_path / f".gastric-x.part-{os.getppid()}"
    running.mkdir()
    build(make_release(), tmp_path / "gastric-x")
    assert running.is_dir()


def test_refuses_to_replace_what_it_did_not_make(make_release, tmp_path):
    root = make_release()
    mine = tmp_path / "gastric-x"
    mine.mkdir()
    (mine / "thesis.txt").write_text("years of work")
    with pytest.raises(FileExistsError, match="not made by"):
        build(root, mine)
    assert (mine / "thesis.txt").read_text() == "years of work"
    build(root, tmp_path / "built")
    shutil.move(root, tmp_path / "built/release")
    with pytest.raises(FileExistsError, match="holds the source"):
        build(tmp_path / "built/release", tmp_path / "built")


def test_embedding_is_refused_above_the_limit(make_release, tmp_path, monkeypatch):
    monkeypatch.setattr(build_module, "EMBED_LIMIT", 10_000)
    with pytest.raises(ValueError, match="without --embed"):
        build(make_release(), tmp_path / "gastric-x", embed=True)
    assert not (tmp_path / "gastric-x").exists()


def test_a_shared_volume_is_stored_once_per_row_group(tmp_path):
    volume = tmp_path / "P00/venous.nii.gz"
    volume.parent.mkdir()
    volume.write_bytes(np.random.default_rng(0).bytes(3_000_000))
    columns = features("vqa")
    rows = [dict.fromkeys(columns) | {"case_id": "P00", "ct_venous": str(volume), "question": str(n)} for n in range(6)]
    write_split(rows, columns, tmp_path / "vqa", "train", True, lambda n: None)
    (shard,) = (tmp_path / "vqa").iterdir()
    file = pq.ParquetFile(shard)
    assert [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)] == [4, 2]
    assert shard.stat().st_size < 2.1 * 3_000_000
    assert all(row["ct_venous"]["bytes"] == volume.read_bytes() for row in file.read().to_pylist())


def test_shards_roll_over(tmp_path, monkeypatch):
    monkeypatch.setattr("gastricx_hf.dataset_script.tables.SHARD_BYTES", 50_000)
    columns = features("vqa")
    rows = []
    for n in range(5):
        volume = tmp_path / f"P{n}/venous.nii.gz"
        volume.parent.mkdir()
        volume.write_bytes(np.random.default_rng(n).bytes(30_000))
        rows.append(dict.fromkeys(columns) | {"case_id": f"P{n}", "ct_venous": str(volume)})
    write_split(rows, columns, tmp_path / "vqa", "test", True, lambda n: None)
    shards = sorted(p.name for p in (tmp_path / "vqa").iterdir())
    assert shards == ["test-00000.parquet", "test-00001.parquet", "test-00002.parquet"]
    assert [row["case_id"] for row in pq.read_table(tmp_path / "vqa").to_pylist()] == ["P0", "P1", "P2", "P3", "P4"]


def test_a_release_without_questions_and_a_split_without_rows_still_load(make_release, tmp_path):
    root = make_release(patients=2)
    (root / "metadata/EN/vqa.json").unlink()
    build(root, tmp_path / "gastric-x")
    script = "from datasets import load_dataset; print({k: v.num_rows for k, v in load_dataset('gastric-x').items()})"
    result = run_fresh(script, tmp_path, tmp_path / "cache")
    sizes = {split: n for split, n in read_manifest(tmp_path / "gastric-x")["counts"]["rows"]["cases"].items() if n}
    assert len(sizes) < 3
    assert result.stdout.strip() == str(sizes), result.stderr


def test_a_volume_in_several_gzip_members_is_whole(make_release):
    # Some tools write gzip in blocks; the length at the end of the file is then that of the last block only.
    root = make_release(patients=1)
    path = root / "imaging/P00/venous.nii.gz"
    content = gzip.decompress(path.read_bytes())
    path.write_bytes(gzip.compress(content[:500]) + gzip.compress(content[500:]))
    assert checks.problems(read_release(root)) == []
    path.write_bytes(gzip.compress(content[:500]))
    assert "truncated (500 of 1312 bytes)" in checks.problems(read_release(root))[0]


def test_another_folder_of_the_same_name_is_not_answered_from_the_cache(make_release, tmp_path, monkeypatch):
    from datasets import Nifti, load_dataset

    one = make_release()
    for source in (one, shutil.copytree(one, tmp_path / "moved" / "release")):
        place = tmp_path / f"of-{source.parent.name}"
        place.mkdir()
        build(source, place / "gastric-x")
        monkeypatch.chdir(place)
        volumes = load_dataset("gastric-x", "vqa", split="train").cast_column("ct_venous", Nifti(decode=False))["ct_venous"][:]
        assert {Path(volume["path"]).parents[2] for volume in volumes} == {source}
