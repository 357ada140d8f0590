import gzip

import nibabel
import numpy as np
import pytest

from gastricx_hf.cases.volumes import check_volume, open_volume, volume_problem

AFFINE = np.diag([0.8, 0.8, 5.0, 1.0])


def ct(shape=(12, 10, 6)) -> np.ndarray:
    """Air around soft tissue with noise, HU."""
    voxels = np.random.default_rng(0).normal(40, 15, shape)
    voxels[:3] = -1000
    return voxels.astype(np.int16)


def save(path, voxels, affine=AFFINE):
    nibabel.save(nibabel.Nifti1Image(voxels, affine), path)
    return path


def refusal(path, voxels=True) -> str:
    with pytest.raises(ValueError) as caught:
        check_volume(path, "venous", voxels)
    message = str(caught.value)
    assert message.startswith(f"{path} (venous): ")
    assert "\n" not in message
    return message


def test_a_sound_volume_passes(tmp_path):
    path = save(tmp_path / "ct.nii.gz", ct())
    assert check_volume(path, voxels=True).shape == (12, 10, 6)
    image, voxels = open_volume(path, voxels=True)
    assert np.array_equal(voxels, ct())
    assert volume_problem(image, voxels) is None
    assert open_volume(path)[1] is None


def test_the_intercept_is_applied_before_the_units_are_judged(tmp_path):
    image = nibabel.Nifti1Image((ct() + 1024).astype(np.uint16), AFFINE)
    image.header.set_slope_inter(1, -1024)
    nibabel.save(image, tmp_path / "ct.nii.gz")
    assert check_volume(tmp_path / "ct.nii.gz", voxels=True).shape == (12, 10, 6)


def test_truncated_gzip_is_found_when_the_voxels_are_read(tmp_path):
    path = save(tmp_path / "ct.nii.gz", np.random.default_rng(0).integers(-1000, 1000, (20, 20, 20), dtype=np.int16))
    path.write_bytes(path.read_bytes()[:5000])
    assert check_volume(path).shape == (20, 20, 20)  # the header alone is whole
    assert "truncated" in refusal(path)


def test_damaged_and_foreign_files_are_refused(tmp_path):
    path = save(tmp_path / "ct.nii.gz", np.random.default_rng(0).integers(-1000, 1000, (20, 20, 20), dtype=np.int16))
    content = bytearray(path.read_bytes())
    content[4000:4400] = bytes(400)
    path.write_bytes(content)
    assert "truncated or no NIfTI" in refusal(path)
    plain = save(tmp_path / "ct.nii", ct())
    plain.write_bytes(plain.read_bytes()[:-100])
    assert "truncated" in refusal(plain)
    for name, content in {"a.nii.gz": b"<html>404</html>", "b.nii.gz": gzip.compress(b"<html>404</html>"), "c.nii.gz": b""}.items():
        (tmp_path / name).write_bytes(content)
        assert "no NIfTI" in refusal(tmp_path / name, voxels=False)
    with pytest.raises(FileNotFoundError, match=r"missing.nii.gz \(arterial\): no such file"):
        check_volume(tmp_path / "missing.nii.gz", "arterial")


def test_colour_and_other_dimensions_are_refused(tmp_path):
    colour = np.zeros((8, 8, 4), dtype=[("R", "u1"), ("G", "u1"), ("B", "u1")])
    assert "colour (RGB)" in refusal(save(tmp_path / "rgb.nii.gz", colour))
    assert "not a 3D volume" in refusal(save(tmp_path / "4d.nii.gz", np.zeros((8, 8, 4, 2), np.int16)), voxels=False)
    assert "not a 3D volume" in refusal(save(tmp_path / "slice.nii.gz", np.zeros((8, 8, 1), np.int16)), voxels=False)


def test_bad_affines_are_refused(tmp_path):
    flat = nibabel.Nifti1Image(ct(), AFFINE)
    flat.header.set_sform(np.diag([0.8, 0.0, 5.0, 1.0]), code=1)
    flat.header.set_qform(None, code=0)
    nibabel.save(nibabel.Nifti1Image(ct(), None, flat.header), tmp_path / "flat.nii.gz")
    assert "determinant 0" in refusal(tmp_path / "flat.nii.gz", voxels=False)
    tilted = AFFINE.copy()
    tilted[1, 2] = 0.5
    assert "sheared affine (cosine 0.100 between axes" in refusal(save(tmp_path / "tilt.nii.gz", ct(), tilted), voxels=False)
    two = nibabel.Nifti1Image(ct(), AFFINE)
    two.set_sform(AFFINE, code=1)
    moved = AFFINE.copy()
    moved[:3, 3] = (3, 4, 0)
    two.set_qform(moved, code=1)
    nibabel.save(two, tmp_path / "two.nii.gz")
    assert "disagree by 5.0 mm" in refusal(tmp_path / "two.nii.gz", voxels=False)


def test_rotated_and_flipped_affines_pass(tmp_path):
    angle = 0.3
    rotation = np.array([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]])
    affine = np.eye(4)
    affine[:3, :3] = rotation @ np.diag([-0.8, -0.8, 2.5])
    assert check_volume(save(tmp_path / "rotated.nii.gz", ct(), affine)).shape == (12, 10, 6)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda hu: (np.clip(hu, -100, 300) + 100) / 400, "is rescaled to 0.."),
        (lambda hu: (np.clip(hu, -100, 300) + 100) / 400 * 255, "is an 8-bit window (0.."),
        (lambda hu: hu + 1024.0, "apply the DICOM rescale intercept"),
        (lambda hu: np.clip(hu, -100, 300), "is cut off at -100 (25% of its voxels)"),
        (lambda hu: (hu - hu.mean()) / hu.std() * 3, "looks z-scored"),
        (lambda hu: np.where(hu < 0, np.nan, hu), "holds NaN"),
        (lambda hu: hu * 0 - 1000, "is empty, every voxel is -1000"),
    ],
)
def test_what_is_not_hu_is_refused(tmp_path, change, expected):
    voxels = change(ct().astype(np.float32)).astype(np.float32)
    path = save(tmp_path / "ct.nii.gz", voxels)
    assert expected in refusal(path)
    assert check_volume(path, voxels=False).shape == (12, 10, 6)
