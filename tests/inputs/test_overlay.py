import numpy as np
import pytest

from gastricx_hf.inputs.overlay import COLOURS, box_masks, draw_overlay, slice_boxes
from gastricx_hf.schema import Structure


def test_mask_channels_hold_exactly_the_boxes(standard_case):
    masks = box_masks(standard_case)
    assert (masks.shape, masks.dtype) == ((3, 8, 6, 5), np.uint8)
    expected = np.zeros((3, 8, 6, 5), bool)
    for i, j, k in np.ndindex(8, 6, 5):
        first = 1 <= i < 4 and 2 <= j < 5 and 0 <= k < 2
        second = i == 5 and j == 0 and 3 <= k < 5
        expected[:, i, j, k] = first or second, False, j >= 1 and k < 4
    np.testing.assert_array_equal(masks, expected)
    np.testing.assert_array_equal(box_masks(standard_case, [Structure.STOMACH]), expected[2:])


def test_boxes_of_a_slice(standard_case):
    tumor, stomach = Structure.TUMOR, Structure.STOMACH
    assert slice_boxes(standard_case, 0) == [(tumor, (1, 2), (4, 5)), (stomach, (0, 1), (8, 6))]
    assert slice_boxes(standard_case, 4) == [(tumor, (5, 0), (6, 1))]
    assert slice_boxes(standard_case, 2, axis=1) == [(tumor, (1, 0), (4, 2)), (stomach, (0, 0), (8, 4))]


def test_outlines_are_drawn_inside_the_box_in_its_colour():
    picture = np.full((20, 30, 3), 7, np.uint8)
    drawn = draw_overlay(picture, [(Structure.TUMOR, (4, 10), (12, 25))], line_width=2)
    outer = np.zeros((20, 30), bool)
    outer[4:12, 10:25] = True
    inner = np.zeros((20, 30), bool)
    inner[6:10, 12:23] = True
    assert (drawn[outer & ~inner] == COLOURS[Structure.TUMOR]).all()
    assert (drawn[~outer | inner] == 7).all()
    assert (picture == 7).all()


def test_colours_of_structures():
    assert COLOURS == {"tumor": (255, 0, 0), "lymph_node": (255, 255, 0), "stomach": (0, 255, 255)}
    drawn = draw_overlay(np.zeros((9, 9, 3), np.uint8), [(Structure.STOMACH, (2, 2), (3, 3))], {Structure.STOMACH: (1, 2, 3)})
    assert drawn[2, 2].tolist() == [1, 2, 3]
    assert drawn.any(2).sum() == 1


@pytest.mark.parametrize("picture", [np.zeros((9, 9), np.uint8), np.zeros((9, 9, 3), np.float32)])
def test_only_rgb_slices_are_drawn_on(picture):
    with pytest.raises(ValueError, match="uint8 slice"):
        draw_overlay(picture, [])
