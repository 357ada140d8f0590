import json
import random
import re
from collections import Counter

import pytest

from gastricx_hf.cases.splits import load_splits, make_splits, save_splits, split_hash
from gastricx_hf.schema import Split

FRACTIONS = {Split.TRAIN: 0.70, Split.VALIDATION: 0.15, Split.TEST: 0.15}


def patients(n: int, seed: int = 0) -> dict[str, str | None]:
    rng = random.Random(seed)
    return {f"P{i:04d}": rng.choices(["I", "II", "III", "IV", "IIIB", None], [5, 3, 4, 2, 3, 1])[0] for i in range(n)}


@pytest.mark.parametrize("n", [3, 4, 5, 7, 10, 13, 100, 1403])
def test_every_patient_once_and_sizes_as_asked(n):
    stages = patients(n)
    splits = make_splits(stages)
    assert Counter(i for ids in splits.values() for i in ids) == dict.fromkeys(stages, 1)
    assert all(splits[split] for split in Split)
    if n >= 7:
        assert all(abs(len(splits[split]) - fraction * n) < 1 for split, fraction in FRACTIONS.items())


def test_sizes_of_the_released_cohort():
    assert [len(make_splits(patients(1403))[split]) for split in Split] == [982, 211, 210]  # 982.1, 210.45, 210.45
    assert [len(make_splits(patients(1000), fractions=(0.5, 0.3, 0.2))[split]) for split in Split] == [500, 300, 200]


@pytest.mark.parametrize("seed", range(5))
def test_every_stage_has_the_same_mixture(seed):
    stages = {case_id: stage and stage.rstrip("ABC") for case_id, stage in patients(400, seed).items()}
    splits = make_splits(stages, seed=seed)
    for stage, total in Counter(stages.values()).items():
        for split, fraction in FRACTIONS.items():
            assert abs(sum(stages[i] == stage for i in splits[split]) - fraction * total) < 2


def test_order_of_the_input_plays_no_part_and_the_seed_does():
    stages = patients(60)
    shuffled = list(stages.items())
    random.Random(1).shuffle(shuffled)
    assert make_splits(dict(shuffled)) == make_splits(stages)
    assert make_splits(stages, seed=1) != make_splits(stages, seed=0)


def test_the_split_is_frozen_across_versions():
    splits = make_splits({f"P{i}": ("I", "III", None)[i % 3] for i in range(12)})
    assert splits == make_splits({f"P{i}": ("IB", "Ⅲ期", None)[i % 3] for i in range(12)})  # the wording of the stage plays no part
    assert split_hash(splits) == split_hash({split: ids[::-1] for split, ids in splits.items()})
    assert split_hash(splits) == "bf5aa5c5485e7658830b1f0d67805f864f10609aa22f13433de8d76eb877bc6d"


def test_few_patients():
    assert {len(ids) for ids in make_splits({"a": "I", "b": None, "c": "IV"}).values()} == {1}
    assert make_splits({"a": "I"})[Split.TRAIN] == ["a"]


def test_bad_requests_are_named():
    with pytest.raises(ValueError, match="no patients"):
        make_splits({})
    with pytest.raises(ValueError, match="case P1, overall stage: unknown overall stage 'late'"):
        make_splits({"P1": "late"})
    for fractions in ((0.7, 0.2, 0.2), (1.0, 0.0, 0.0), (0.5, 0.5)):
        with pytest.raises(ValueError, match="three positive numbers"):
            make_splits(patients(9), fractions=fractions)


def test_saved_and_read_back(tmp_path):
    splits = make_splits(patients(20))
    save_splits(splits, tmp_path / "splits.json")
    assert load_splits(tmp_path / "splits.json") == splits
    assert json.loads((tmp_path / "splits.json").read_text())["split_hash"] == split_hash(splits)
    assert [p.name for p in tmp_path.iterdir()] == ["splits.json"]


def test_tampering_is_noticed(tmp_path):
    path = tmp_path / "splits.json"
    save_splits(make_splits(patients(20)), path)
    content = json.loads(path.read_text())
    content["test"].append(content["train"].pop())
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=re.escape(f"{path}: the lists do not match their split_hash")):
        load_splits(path)


def test_a_patient_in_two_splits_is_refused(tmp_path):
    path = tmp_path / "splits.json"
    twice = {Split.TRAIN: ["a", "b"], Split.VALIDATION: ["c"], Split.TEST: ["b"]}
    with pytest.raises(ValueError, match="listed twice, first 'b'"):
        save_splits(twice, path)
    assert not path.exists()
    path.write_text(json.dumps({str(s): ids for s, ids in twice.items()} | {"split_hash": split_hash(twice)}))
    with pytest.raises(ValueError, match="listed twice, first 'b'"):
        load_splits(path)


@pytest.mark.parametrize("text", ["{", "[]", '{"train": []}', '{"train": 1, "validation": [], "test": [], "split_hash": ""}'])
def test_not_a_splits_file(tmp_path, text):
    (tmp_path / "splits.json").write_text(text)
    with pytest.raises(ValueError, match="not a splits file"):
        load_splits(tmp_path / "splits.json")
