"""The records refuse what would be silently wrong."""

import pytest

from gastricx_hf.schema import Box3D, Phase, Schema, Structure


def test_phases_have_one_order_and_the_papers_other_words():
    assert [str(p) for p in Phase] == ["non_contrast", "arterial", "venous", "delayed"]
    assert Phase.parse("Equilibrium") is Phase.DELAYED
    assert Phase.parse("portal venous") is Phase.VENOUS
    with pytest.raises(ValueError, match=r"unknown phase 'nephrographic'.*arterial"):
        Phase.parse("nephrographic")


def test_boxes_are_half_open_and_never_empty():
    box = Box3D(Structure.TUMOR, Phase.VENOUS, (0, 1, 2), (4, 5, 6))
    assert box.inside((4, 5, 6))
    assert not box.inside((4, 5, 5))
    for low, high in (((0, 0, 0), (0, 1, 1)), ((2, 0, 0), (1, 1, 1)), ((-1, 0, 0), (1, 1, 1))):
        with pytest.raises(ValueError, match="empty, reversed or negative"):
            Box3D(Structure.TUMOR, Phase.VENOUS, low, high)


def test_schemas_say_what_they_show():
    assert [(s.table, s.bbox) for s in Schema] == [(False, False), (True, False), (False, True), (True, True)]
