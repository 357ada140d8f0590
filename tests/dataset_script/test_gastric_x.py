import json
import os
import subprocess
import sys

import nibabel
import numpy as np
import pytest

REGISTERED = """
import sys
from datasets import load_dataset
from datasets.packaged_modules import _PACKAGED_DATASETS_MODULES
from gastricx_hf.dataset_script.gastric_x import register

assert "gastric-x" not in _PACKAGED_DATASETS_MODULES
register()
print(load_dataset("gastric-x", "cases", data_dir=sys.argv[1])["train"].num_rows)
print(load_dataset("gastric-x", "vqa", data_dir=sys.argv[1], streaming=True)["test"].column_names[0])
"""


def make_builder(root, tmp_path, config="vqa", **kwargs):
    from gastricx_hf.dataset_script.gastric_x import GastricX

    return GastricX(config_name=config, data_dir=str(root), cache_dir=str(tmp_path / "cache"), **kwargs)


def test_rows_are_decoded_when_used(make_release, tmp_path):
    root = make_release()
    builder = make_builder(root, tmp_path)
    builder.download_and_prepare()
    rows = builder.as_dataset()
    assert sum(split.num_rows for split in rows.values()) == 21
    row = rows["train"][0]
    source = nibabel.load(root / "imaging" / row["case_id"] / "venous.nii.gz")
    np.testing.assert_array_equal(np.asarray(row["ct_venous"].dataobj), np.asarray(source.dataobj))
    np.testing.assert_array_equal(row["ct_venous"].affine, source.affine)
    assert row["ct_venous"].get_data_dtype() == np.int16
    streamed = next(iter(builder.as_streaming_dataset(split="train")))
    np.testing.assert_array_equal(np.asarray(streamed["ct_venous"].dataobj), np.asarray(source.dataobj))
    assert {k: v for k, v in streamed.items() if k[:3] != "ct_"}.keys() == {k for k in row if k[:3] != "ct_"}


def test_one_row_per_patient(make_release, tmp_path):
    builder = make_builder(make_release(), tmp_path, "cases")
    builder.download_and_prepare()
    rows = builder.as_dataset()
    assert sorted(case_id for split in rows.values() for case_id in split["case_id"]) == [f"P{n:02d}" for n in range(8)]


def test_builder_and_built_folder_hold_the_same_rows(make_release, tmp_path):
    import pyarrow.parquet as pq

    from gastricx_hf.dataset_script.build import build

    root = make_release()
    build(root, tmp_path / "gastric-x")
    for config in ("vqa", "cases"):
        builder = make_builder(root, tmp_path, config)
        builder.download_and_prepare()
        for split in ("train", "validation", "test"):
            built = pq.read_table(tmp_path / "gastric-x" / config / f"{split}-00000.parquet").to_pylist()
            assert builder.as_dataset(split=split).data.table.to_pylist() == built


def test_changed_data_is_not_served_stale(make_release, tmp_path):
    root = make_release()
    before = make_builder(root, tmp_path).cache_dir
    assert make_builder(root, tmp_path).cache_dir == before
    path = root / "metadata/EN/vqa.json"
    questions = json.loads(path.read_text())
    questions["P00"][0]["answer"] = "Body."
    path.write_text(json.dumps(questions))
    assert make_builder(root, tmp_path).cache_dir != before


def test_seed_changes_the_split_and_the_cache(make_release, tmp_path):
    root = make_release()
    builders = [make_builder(root, tmp_path, "cases", seed=seed) for seed in (0, 1)]
    for builder in builders:
        builder.download_and_prepare()
    assert builders[0].cache_dir != builders[1].cache_dir
    assert builders[0].as_dataset(split="train")["case_id"][:] != builders[1].as_dataset(split="train")["case_id"][:]


def test_needs_a_release_folder(tmp_path):
    from gastricx_hf.dataset_script.gastric_x import GastricX

    with pytest.raises(ValueError, match="data_dir"):
        GastricX(config_name="vqa")
    with pytest.raises(FileNotFoundError, match="not a release folder"):
        make_builder(tmp_path, tmp_path)


def test_registering_is_an_explicit_step(make_release, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    env = os.environ | {"HF_HOME": str(tmp_path / "home"), "HF_DATASETS_CACHE": str(tmp_path / "home/datasets"), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", REGISTERED, str(make_release())]
    result = subprocess.run(command, cwd=tmp_path / "elsewhere", env=env, capture_output=True, text=True, timeout=300, check=False)
    assert result.stdout.split() == ["6", "question_id"], result.stderr
