from pathlib import Path

import nibabel
import numpy as np
import pytest

from gastricx_hf.preprocessing.pipeline import standardize_row
from gastricx_hf.preprocessing.settings import PRESETS, Standardization
from gastricx_hf.schema import Phase, Structure

SAME_GRID = Standardization((12, 10, 8), (2, 2, 3))
DATA = Path(__file__).parents[2] / ".." / "shared" / "data"
real_ct = pytest.mark.skipif(not DATA.is_dir(), reason="../shared/data with real CT is absent")


def test_a_volume_that_has_the_grid_is_only_flipped_and_clipped(make_row, volume):
    case = standardize_row(make_row(), SAME_GRID)
    assert case.hu.dtype == np.int16
    assert case.phase_mask.tolist() == [True, False, True, True]
    for n in (0, 2, 3):
        np.testing.assert_array_equal(case.hu[n], np.clip(volume(n), -100, 300)[::-1, ::-1])
    assert (case.hu[1] == -100).all()
    assert nibabel.aff2axcodes(case.affine) == ("R", "A", "S")
    assert case.spacing == pytest.approx((2, 2, 3))
    assert case.settings_hash == SAME_GRID.hash
    with pytest.raises(ValueError, match="read-only"):
        case.hu[0] = 0


def test_mean_and_std_are_those_of_the_standard_volume(make_row):
    case = standardize_row(make_row(), Standardization((9, 9, 9), (2.5, 2.2, 2.0)))
    for n in (0, 2, 3):
        assert case.mean[n] == pytest.approx(np.mean(case.hu[n].astype(float)))
        assert case.std[n] == pytest.approx(np.std(case.hu[n].astype(float)))
    assert (case.mean[1], case.std[1]) == (0.0, 1.0)


def test_interpolated_hu_are_clipped_first_and_rounded(make_row):
    """Along i: -1000 clips to -100 before it is mixed with 101; a quarter of the way is -49.75, three quarters 50.75."""
    data = np.full((12, 10, 8), 101, np.int16)
    data[5] = -1000
    case = standardize_row(
        make_row(phases=("venous",), arrays={"venous": data}, affine=np.diag([2.0, 2, 3, 1])), Standardization((24, 10, 8), (1, 2, 3))
    )
    assert case.hu[2][9:13, 5, 4].tolist() == [51, -50, -50, 51]


def test_phases_meet_in_the_scanners_frame(make_row, volume):
    """The delayed volume is stored RAS and shifted: the same body must come out at the same voxels."""
    row = make_row(phases=("venous",))
    data = volume(2)
    lps = nibabel.load(row["ct_venous"]["path"]).affine
    flip = np.array([[-1.0, 0, 0, 11], [0, -1, 0, 9], [0, 0, 1, 0], [0, 0, 0, 1]])
    row["ct_delayed"] = nibabel.Nifti1Image(
        np.ascontiguousarray(data[::-1, ::-1][2:]), lps @ flip @ nibabel.affines.from_matvec(np.eye(3), [2, 0, 0])
    )
    case = standardize_row(row, SAME_GRID)
    np.testing.assert_array_equal(case.hu[3][2:], case.hu[2][2:])
    assert (case.hu[3][:2] == -100).all()


def test_the_reference_is_venous_else_the_next_present(make_row):
    shifted = nibabel.Nifti1Image(np.random.default_rng(0).integers(-500, 300, (12, 10, 8)).astype(np.int16), np.diag([2.0, 2, 3, 1]))
    row = make_row(phases=("non_contrast", "venous"))
    with_arterial = standardize_row(row | {"ct_arterial": shifted}, SAME_GRID)
    np.testing.assert_allclose(with_arterial.affine, standardize_row(row, SAME_GRID).affine)
    without_venous = standardize_row(row | {"ct_arterial": shifted, "ct_venous": None}, SAME_GRID)
    np.testing.assert_allclose(without_venous.affine, shifted.affine)


def test_boxes_surround_the_same_voxels_after_the_chain(make_row, box):
    """A bright block in soft tissue: its box must hold exactly the bright voxels of the result."""
    data = np.full((12, 10, 8), 40, np.int16)
    data[0] = -1000
    data[3:6, 4:9, 2:4] = 280
    row = make_row(arrays={"venous": data}, boxes=[box("tumor", (3, 4, 2), (6, 9, 4))])
    case = standardize_row(row, SAME_GRID)
    ((low, high),) = case.boxes[Structure.TUMOR]
    bright = np.argwhere(case.hu[2] == 280)
    assert (bright.min(0).tolist(), (bright.max(0) + 1).tolist()) == (list(low), list(high))


def test_boxes_come_from_the_venous_phase_where_it_has_them(make_row, box):
    boxes = [box("tumor", (0, 0, 0), (2, 2, 2), "delayed"), box("tumor", (3, 4, 2), (6, 9, 4)), box("tumor", (1, 1, 1), (2, 2, 2))]
    boxes += [box("stomach", (0, 0, 0), (12, 10, 8), "delayed")]
    case = standardize_row(make_row(boxes=boxes), SAME_GRID)
    assert case.boxes[Structure.TUMOR] == [((6, 1, 2), (9, 6, 4)), ((10, 8, 1), (11, 9, 2))]  # i and j are flipped from LPS
    assert case.boxes[Structure.STOMACH] == [((0, 0, 0), (12, 10, 8))]
    assert Structure.LYMPH_NODE not in case.boxes


def test_a_box_outside_the_grid_is_said_to_be_lost(make_row, box):
    case = standardize_row(make_row(boxes=[box("lymph_node", (0, 0, 0), (2, 2, 2))]), Standardization((4, 4, 4), (2, 2, 3)))
    assert case.boxes == {}
    assert len(case.lost_boxes) == 1
    assert "lymph_node" in case.lost_boxes[0]


def rgb(shape=(12, 10, 8)):
    return np.zeros(shape, np.dtype([("R", "u1"), ("G", "u1"), ("B", "u1")]))


def test_unfit_volumes_are_refused_with_case_and_phase(make_row, volume, tmp_path):
    nan = volume(0).astype(np.float32)
    nan[1, 2, 3] = np.nan
    unfit = {"colour": rgb(), "NaN": nan, "8-bit": np.clip(volume(0), 0, 255), "3D volume": volume(0, (12, 10, 8, 2))}
    for words, data in unfit.items():
        with pytest.raises(ValueError, match=f"(?s)case P01, delayed.*{words}"):
            standardize_row(make_row(arrays={"delayed": data}), SAME_GRID)
    row = make_row()
    path = Path(row["ct_delayed"]["path"])
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(ValueError, match=r"case P01, delayed.*cannot be read"):
        standardize_row(row, SAME_GRID)
    with pytest.raises(ValueError, match="case P01 has no CT volume"):
        standardize_row(make_row(phases=()), SAME_GRID)


def test_sheared_volumes_are_refused(make_row):
    affine = np.diag([2.0, 2.0, 3.0, 1.0])
    affine[1, 2] = 1.0
    with pytest.raises(ValueError, match=r"case P01, .*sheared"):
        standardize_row(make_row(affine=affine), SAME_GRID)


def test_unfit_boxes_are_refused_with_case_and_phase(make_row, box):
    bad = {
        "outside its volume of shape": box("tumor", (3, 4, 2), (13, 9, 4)),
        "empty, reversed or negative": box("tumor", (3, 4, 2), (3, 9, 4)),
        "no volume of it": box("tumor", (3, 4, 2), (4, 9, 4), "arterial"),
    }
    for words, wrong in bad.items():
        with pytest.raises(ValueError, match=f"case P01, {wrong['phase']}: .*{words}"):
            standardize_row(make_row(boxes=[wrong]), SAME_GRID)


@real_ct
def test_a_real_stomach_keeps_its_place(box):
    """The real label map, moved by nibabel's own resampling, must fill the box that the chain maps."""
    from nibabel.processing import resample_from_to

    labels = nibabel.load(DATA / "totalseg_example_seg.nii.gz")
    stomach = np.argwhere(np.asarray(labels.dataobj) == 6)
    row = {"case_id": "real", "ct_venous": str(DATA / "totalseg_example_ct_sm.nii.gz")}
    row["boxes"] = [box("stomach", stomach.min(0).tolist(), (stomach.max(0) + 1).tolist())]
    case = standardize_row(row, PRESETS["compact"])
    assert case.phase_mask.tolist() == [p == Phase.VENOUS for p in Phase]
    mask = nibabel.Nifti1Image((np.asarray(labels.dataobj) == 6).astype(np.uint8), labels.affine)
    moved = np.argwhere(np.asarray(resample_from_to(mask, (case.hu.shape[1:], case.affine), order=0).dataobj))
    ((low, high),) = case.boxes[Structure.STOMACH]
    assert np.abs(moved.min(0) - low).max() <= 1
    assert np.abs(moved.max(0) + 1 - high).max() <= 1
    inside = case.hu[2][tuple(slice(a, b) for a, b in zip(moved.min(0), moved.max(0) + 1, strict=True))]
    assert -100 <= inside.min() < inside.max() <= 300
