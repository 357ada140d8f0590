from dataclasses import replace

import numpy as np
import pytest

from gastricx_hf.inputs.views import channels3d
from gastricx_hf.schema import Schema


def test_present_phases_have_mean_0_and_std_1_and_missing_ones_are_0(standard_case):
    view = channels3d(standard_case, Schema.IMAGE)
    assert (view.pixel_values.shape, view.pixel_values.dtype) == ((4, 8, 6, 5), np.float32)
    for n in (0, 2, 3):
        assert view.pixel_values[n].mean() == pytest.approx(0, abs=1e-5)
        assert view.pixel_values[n].std() == pytest.approx(1, abs=1e-5)
    assert not view.pixel_values[1].any()
    assert view.phase_mask.tolist() == [True, False, True, True]
    assert view.spacing == (2.0, 2.0, 3.0)


def test_one_voxel_by_hand(standard_case):
    case = replace(standard_case, mean=(10.0, 0.0, 20.0, -30.0), std=(4.0, 1.0, 5.0, 2.0))
    view = channels3d(case, Schema.IMAGE)
    assert view.pixel_values[3, 1, 2, 3] == np.float32((int(case.hu[3, 1, 2, 3]) + 30) / 2)


@pytest.mark.parametrize("schema", list(Schema))
def test_boxes_only_in_the_bbox_schemas(standard_case, schema):
    view = channels3d(standard_case, schema)
    assert (view.box_mask is not None) == ("bbox" in schema.value)
    bare = channels3d(replace(standard_case, boxes={}), schema)
    np.testing.assert_array_equal(view.pixel_values, bare.pixel_values)
    if schema.bbox:
        assert view.box_mask.any()
        assert not bare.box_mask.any()
