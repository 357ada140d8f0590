import json
import os
import pickle
from dataclasses import asdict, replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from gastricx_hf.preprocessing import store as store_module
from gastricx_hf.preprocessing.settings import Standardization
from gastricx_hf.preprocessing.store import StandardStore, store_beside

SETTINGS = Standardization((12, 10, 8), (2, 2, 3))


@pytest.fixture
def made(monkeypatch):
    """The case ids that were really standardised, in order."""
    calls = []
    real = store_module.standardize_row

    def counting(row, settings):
        calls.append(row["case_id"])
        return real(row, settings)

    monkeypatch.setattr(store_module, "standardize_row", counting)
    return calls


def same(a, b):
    np.testing.assert_array_equal(a.hu, b.hu)
    np.testing.assert_array_equal(a.phase_mask, b.phase_mask)
    np.testing.assert_array_equal(a.affine, b.affine)
    assert (a.case_id, a.boxes, a.mean, a.std, a.settings_hash, a.lost_boxes) == (
        b.case_id,
        b.boxes,
        b.mean,
        b.std,
        b.settings_hash,
        b.lost_boxes,
    )


def test_a_second_process_reads_what_the_first_wrote(make_row, box, tmp_path, made):
    row = make_row(boxes=[box("tumor", (3, 4, 2), (6, 9, 4))])
    first = StandardStore(tmp_path / "kept", SETTINGS).get(row)
    again = StandardStore(tmp_path / "kept", SETTINGS).get(row)
    assert made == ["P01"]
    assert isinstance(again.hu, np.memmap)
    same(first, again)
    same(again, store_module.standardize_row(row, SETTINGS))
    assert sorted(p.suffix for p in (tmp_path / "kept").iterdir()) == [".json", ".npy"]


def test_memory_serves_without_a_folder_and_is_bounded(make_row, made):
    rows = [make_row(f"P{n}") for n in range(3)]
    size = 4 * 12 * 10 * 8 * 2
    store = StandardStore(None, SETTINGS, memory_bytes=2 * size)
    assert store.get(rows[0]) is store.get(rows[0])
    for row in (rows[1], rows[0], rows[2], rows[0], rows[1]):
        store.get(row)
    assert made == ["P0", "P1", "P2", "P1"]  # P1 was used least recently when P2 came


def test_changed_volumes_boxes_and_settings_are_never_served(make_row, box, volume, tmp_path, made):
    store = StandardStore(tmp_path / "kept", SETTINGS)
    row = make_row()
    old = store.get(row)
    store.get(row | {"boxes": [box("tumor", (3, 4, 2), (6, 9, 4))]})
    new = store.get(make_row(arrays={"venous": volume(9)}))
    assert (new.hu[2] != old.hu[2]).any()
    other = StandardStore(tmp_path / "kept", replace(SETTINGS, clip=(-100, 200)))
    assert other.get(make_row()).hu.max() == 200
    assert len(made) == 4


def test_a_sidecar_of_other_settings_is_not_believed(make_row, tmp_path, made):
    row = make_row()
    StandardStore(tmp_path, SETTINGS).get(row)
    (sidecar,) = tmp_path.glob("P01-*.json")
    about = json.loads(sidecar.read_text())
    sidecar.write_text(json.dumps(about | {"settings_hash": replace(SETTINGS, clip=(-100, 200)).hash}))
    StandardStore(tmp_path, SETTINGS).get(row)
    assert len(made) == 2
    assert json.loads(sidecar.read_text()) == about


@pytest.mark.parametrize("damage", ["cut volume", "cut sidecar", "no sidecar", "no volume", "other shape"])
def test_incomplete_cases_are_made_again(make_row, tmp_path, made, damage):
    row = make_row()
    right = StandardStore(tmp_path / "kept", SETTINGS).get(row)
    (volume,), (sidecar,) = (tmp_path / "kept").glob("*.npy"), (tmp_path / "kept").glob("*.json")
    expected = np.array(right.hu)
    del right
    if damage == "other shape":
        np.save(volume, expected[:, 1:])
    elif damage.startswith("cut"):
        damaged = volume if damage == "cut volume" else sidecar
        damaged.write_bytes(damaged.read_bytes()[:200])
    else:
        (volume if damage == "no volume" else sidecar).unlink()
    np.testing.assert_array_equal(StandardStore(tmp_path / "kept", SETTINGS).get(row).hu, expected)
    StandardStore(tmp_path / "kept", SETTINGS).get(row)
    assert len(made) == 2


def test_a_failing_write_leaves_nothing(make_row, tmp_path, monkeypatch):
    def half(file, array):
        file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(store_module.np, "save", half)
    with pytest.raises(OSError, match="disk full"):
        StandardStore(tmp_path / "kept", SETTINGS).get(make_row())
    assert list((tmp_path / "kept").iterdir()) == []


def _die_while_writing(folder, row):
    def half(file, array):
        file.write(b"half")
        file.flush()
        os._exit(9)

    store_module.np.save = half
    StandardStore(folder, SETTINGS).get(row)


def test_a_killed_run_leaves_no_case_that_is_served(make_row, tmp_path):
    row = make_row()
    process = get_context("fork").Process(target=_die_while_writing, args=(tmp_path / "kept", row))
    process.start()
    process.join()
    assert process.exitcode == 9
    left = list((tmp_path / "kept").iterdir())
    assert [p.suffix for p in left] == [".part"]
    case = StandardStore(tmp_path / "kept", SETTINGS).get(row)
    same(case, store_module.standardize_row(row, SETTINGS))


def test_it_travels_to_a_worker_process_without_its_memory(make_row, tmp_path):
    store = StandardStore(tmp_path / "kept", SETTINGS)
    row = make_row()
    case = store.get(row)
    same(pickle.loads(pickle.dumps(store)).get(row), case)
    assert len(pickle.dumps(store)) < 2000


def test_case_ids_become_safe_file_names(make_row, tmp_path):
    row = make_row() | {"case_id": "../a b/ü"}
    StandardStore(tmp_path / "kept", SETTINGS).get(row)
    assert all(p.parent == tmp_path / "kept" and p.name.isascii() for p in (tmp_path / "kept").rglob("*"))
    assert not list(tmp_path.glob("a*"))


def test_a_missing_volume_is_named_with_its_case(make_row, tmp_path):
    row = make_row()
    Path(row["ct_delayed"]["path"]).unlink()
    with pytest.raises(ValueError, match=r"case P01: .*delayed\.nii\.gz cannot be read"):
        StandardStore(tmp_path / "kept", SETTINGS).get(row)


def test_the_store_of_a_dataset_lies_beside_it(tmp_path):
    store = store_beside(tmp_path / "gastric-x", json.loads(json.dumps(asdict(SETTINGS))))
    assert store.settings == SETTINGS
    assert store.folder.parent == tmp_path
    assert store.folder != tmp_path / "gastric-x"
