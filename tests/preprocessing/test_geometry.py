from pathlib import Path

import nibabel
import numpy as np
import pytest
from scipy import ndimage

from gastricx_hf.preprocessing import geometry
from gastricx_hf.preprocessing.settings import Standardization

DATA = Path(__file__).parents[2] / ".." / "shared" / "data"
real_ct = pytest.mark.skipif(not DATA.is_dir(), reason="../shared/data with real CT is absent")


def rotation(degrees: float, axis: int) -> np.ndarray:
    a, b = [n for n in range(3) if n != axis]
    turn = np.eye(3)
    turn[a, a] = turn[b, b] = np.cos(np.radians(degrees))
    turn[a, b], turn[b, a] = -np.sin(np.radians(degrees)), np.sin(np.radians(degrees))
    return turn


def flipped_affine() -> np.ndarray:
    """Anisotropic, axes permuted to (P, S, L)-like and flipped, 7 degrees oblique, off-centre."""
    affine = np.eye(4)
    axes = np.array([[0, 0, -1], [-1, 0, 0], [0, 1, 0]], float)
    affine[:3, :3] = rotation(7, 2) @ axes * (0.8, 1.1, 2.5)
    affine[:3, 3] = (31.0, -12.5, 77.0)
    return affine


def smooth_volume(shape, seed=0) -> np.ndarray:
    return ndimage.gaussian_filter(np.random.default_rng(seed).normal(0, 900, shape), 2.0).astype(np.float32)


def scipy_resample(data, source, shape, target, pad):
    """The independent reference: voxel -> mm -> voxel with the affines, then map_coordinates."""
    index = np.stack(np.meshgrid(*(np.arange(n) for n in shape), indexing="ij")).reshape(3, -1)
    there = np.linalg.inv(source) @ target @ np.vstack([index, np.ones(index.shape[1])])
    values = ndimage.map_coordinates(data.astype(np.float64), there[:3], order=1, mode="constant", cval=pad)
    size = np.array(data.shape)[:, None]
    interior = ((there[:3] >= 0) & (there[:3] <= size - 1)).all(0)
    outside = ((there[:3] < -0.51) | (there[:3] > size - 0.49)).any(0)
    return values.reshape(shape), interior.reshape(shape), outside.reshape(shape)


def test_resampling_agrees_with_scipy_on_a_flipped_anisotropic_oblique_grid():
    data, source = smooth_volume((30, 26, 18)), flipped_affine()
    image = nibabel.Nifti1Image(data, source)
    shape, target = geometry.target_grid(image, Standardization((40, 37, 33), (1.3, 0.9, 1.0)))
    got = geometry.resample(image, shape, target, -100)
    expected, interior, outside = scipy_resample(data, source, shape, target, -100)
    assert interior.mean() > 0.3
    assert np.ptp(expected[interior]) > 100
    assert np.abs(got - expected)[interior].max() < 0.5
    assert outside.any()
    assert (got[outside] == -100).all()


@real_ct
def test_resampling_agrees_with_scipy_on_a_whole_real_ct():
    """A large output, since a freed buffer would only show there."""
    image = nibabel.load(DATA / "totalseg_example_ct.nii.gz")
    shape, target = geometry.target_grid(image, Standardization((150, 140, 130), (2, 2, 2)))
    got = geometry.resample(image, shape, target, -100)
    expected, interior, _ = scipy_resample(np.asarray(image.dataobj), image.affine, shape, target, -100)
    assert np.abs(got - expected)[interior].max() < 0.5


def test_the_target_grid_is_centred_keeps_axes_and_has_the_orientation():
    image = nibabel.Nifti1Image(smooth_volume((30, 26, 18)), flipped_affine())
    settings = Standardization((41, 37, 33), (1.3, 0.9, 1.0))
    shape, affine = geometry.target_grid(image, settings)
    assert nibabel.aff2axcodes(affine) == ("R", "A", "S")
    np.testing.assert_allclose(nibabel.affines.voxel_sizes(affine), settings.spacing)
    centre = affine @ [20, 18, 16, 1]
    np.testing.assert_allclose(centre, flipped_affine() @ [14.5, 12.5, 8.5, 1], atol=1e-9)
    assert shape == settings.shape


def test_reorienting_moves_voxels_and_affine_together():
    data, source = smooth_volume((6, 5, 4)), flipped_affine()
    oriented = geometry.to_orientation(nibabel.Nifti1Image(data, source), "RAS")
    assert nibabel.aff2axcodes(oriented.affine) == ("R", "A", "S")
    for index in np.ndindex(4, 6, 5):
        place = np.rint(np.linalg.inv(source) @ oriented.affine @ [*index, 1])[:3].astype(int)
        assert np.asarray(oriented.dataobj)[index] == data[tuple(place)]


def test_an_identical_grid_gives_the_very_voxels():
    data = np.random.default_rng(1).integers(-1000, 1000, (9, 8, 7)).astype(np.int16)
    image = nibabel.Nifti1Image(data, flipped_affine())
    got = geometry.resample(image, data.shape, flipped_affine() + 1e-9, -100)
    assert got.dtype == np.int16
    np.testing.assert_array_equal(got, data)


def test_whole_voxel_crops_and_pads_are_exact():
    data = np.random.default_rng(1).integers(-1000, 1000, (9, 8, 7)).astype(np.int16)
    image = nibabel.Nifti1Image(data, flipped_affine())
    target = flipped_affine() @ nibabel.affines.from_matvec(np.eye(3), [2, -3, 1])
    got = geometry.resample(image, (5, 12, 9), target, -100)
    np.testing.assert_array_equal(got[:, 3:11, :6], data[2:7, :, 1:])
    assert (got[:, :3] == -100).all()
    assert (got[..., 6:] == -100).all()


def test_a_grid_that_lies_elsewhere_is_padding():
    image = nibabel.Nifti1Image(np.zeros((4, 4, 4), np.int16), np.eye(4))
    assert (geometry.resample(image, (3, 3, 3), nibabel.affines.from_matvec(np.eye(3), [50, 0, 0]), -100) == -100).all()
    assert (geometry.resample(image, (3, 3, 3), nibabel.affines.from_matvec(np.eye(3) * 2, [50, 0, 0]), -100) == -100).all()


def test_sheared_affines_are_refused():
    affine = np.eye(4)
    affine[1, 2] = 0.2
    image = nibabel.Nifti1Image(np.zeros((4, 4, 4), np.float32), affine)
    with pytest.raises(ValueError, match="sheared"):
        geometry.resample(image, (4, 4, 4), np.eye(4), -100)
    with pytest.raises(ValueError, match="sheared"):
        geometry.target_grid(image, Standardization((4, 4, 4), (1, 1, 1)))


@pytest.mark.parametrize("seed", range(8))
def test_boxes_follow_the_transformed_mask_within_one_voxel(seed):
    rng = np.random.default_rng(seed)
    shape, source = (30, 26, 18), flipped_affine()
    source[:3, :3] = source[:3, :3] if seed % 2 else np.rint(rotation(-7, 2) @ source[:3, :3] / 0.1) * 0.1  # without obliqueness too
    low = rng.integers(0, np.array(shape) - 6)
    high = np.minimum(low + rng.integers(4, 12, 3), shape)
    mask = np.zeros(shape, np.float32)
    mask[tuple(slice(a, b) for a, b in zip(low, high, strict=True))] = 1
    image = nibabel.Nifti1Image(mask, source)
    target_shape, target = geometry.target_grid(image, Standardization((60, 60, 60), (0.9, 0.7, 1.1)))
    index = np.stack(np.meshgrid(*(np.arange(n) for n in target_shape), indexing="ij")).reshape(3, -1)
    there = (np.linalg.inv(source) @ target @ np.vstack([index, np.ones(index.shape[1])]))[:3]
    moved = ndimage.map_coordinates(mask, there, order=0, mode="grid-constant").reshape(target_shape)
    inside = np.argwhere(moved > 0)
    got = geometry.map_box(low, high, source, target, target_shape)
    assert np.abs(inside.min(0) - got[0]).max() <= 1
    assert np.abs(inside.max(0) + 1 - got[1]).max() <= 1


def test_box_edges_lie_half_a_voxel_before_the_index():
    coarse = nibabel.affines.from_matvec(np.eye(3) * 2, [0.5, 0.5, 0.5])  # a voxel of 2 mm is exactly two of 1 mm
    assert geometry.map_box((1, 2, 3), (2, 4, 6), coarse, np.eye(4), (20, 20, 20)) == ((2, 4, 6), (4, 8, 12))


def test_a_small_box_keeps_one_voxel_and_the_grid_clips():
    fine = np.diag([0.1, 0.1, 0.1, 1.0])
    assert geometry.map_box((32, 32, 32), (33, 33, 33), fine, np.eye(4), (9, 9, 9)) == ((3, 3, 3), (4, 4, 4))
    assert geometry.map_box((5, 0, 0), (40, 3, 3), np.eye(4), np.eye(4), (9, 9, 9)) == ((5, 0, 0), (9, 3, 3))
    assert geometry.map_box((0, 0, 84), (3, 3, 95), np.diag([1, 1, 0.1, 1.0]), np.eye(4), (9, 9, 9)) == ((0, 0, 8), (3, 3, 9))
    assert geometry.map_box((9, 0, 0), (12, 3, 3), np.eye(4), np.eye(4), (9, 9, 9)) is None
