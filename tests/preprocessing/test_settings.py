import json
from dataclasses import asdict, replace

import pytest

from gastricx_hf.preprocessing import settings
from gastricx_hf.preprocessing.settings import PRESETS, Standardization


def test_the_paper_preset_is_what_appendix_b_states():
    paper = PRESETS["paper"]
    assert (paper.shape, paper.spacing, paper.clip) == ((288, 288, 192), (1.0, 1.0, 1.0), (-100.0, 300.0))


def test_compact_covers_the_papers_field_of_view():
    fields = [[n * s for n, s in zip(p.shape, p.spacing, strict=True)] for p in (PRESETS["paper"], PRESETS["compact"])]
    assert fields[0] == fields[1]


def test_every_field_and_the_chain_version_change_the_hash(monkeypatch):
    base = PRESETS["tiny"]
    others = [replace(base, shape=(64, 64, 33)), replace(base, spacing=(6, 6, 7)), replace(base, orientation="LPS")]
    others += [replace(base, clip=(-100, 301)), replace(base, pad_hu=0)]
    assert len({s.hash for s in [base, *others]}) == len(others) + 1
    before = base.hash
    monkeypatch.setattr(settings, "CHAIN_VERSION", "next")
    assert base.hash != before


def test_settings_survive_json_with_the_same_hash():
    assert Standardization(**json.loads(json.dumps(asdict(PRESETS["paper"])))).hash == PRESETS["paper"].hash


@pytest.mark.parametrize(
    "change", [{"registration": "rigid"}, {"center": "stomach"}, {"spacing": (0, 1, 1)}, {"pad_hu": -1024}, {"shape": (8, 8)}]
)
def test_settings_that_cannot_be_carried_out_are_refused(change):
    with pytest.raises(ValueError, match=next(iter(change))):
        replace(PRESETS["tiny"], **change)
