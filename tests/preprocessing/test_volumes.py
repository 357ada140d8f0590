import gzip

import fsspec
import nibabel
import numpy as np
import pytest

from gastricx_hf.preprocessing.volumes import fingerprint, read_image

AFFINE = np.diag([2.0, 2.0, 3.0, 1.0])


@pytest.fixture
def stored(tmp_path):
    """(path, voxels) of a volume with slope and intercept, as scanners' exports have."""
    data = np.arange(60, dtype=np.int16).reshape(3, 4, 5)
    image = nibabel.Nifti1Image(data, AFFINE)
    image.header.set_slope_inter(2, -1024)
    image.to_filename(tmp_path / "venous.nii.gz")
    return tmp_path / "venous.nii.gz", np.asarray(nibabel.load(tmp_path / "venous.nii.gz").dataobj)


def test_every_kind_of_cell_gives_the_same_voxels(stored):
    path, expected = stored
    zipped = path.read_bytes()
    with fsspec.open("memory://gastricx-test/venous.nii.gz", "wb") as file:
        file.write(zipped)
    cells = [str(path), path, {"path": str(path), "bytes": None}, {"path": "venous.nii.gz", "bytes": zipped}]
    cells += [
        {"path": None, "bytes": gzip.decompress(zipped)},
        nibabel.load(path),
        {"path": "memory://gastricx-test/venous.nii.gz", "bytes": None},
    ]
    for cell in cells:
        image = read_image(cell)
        np.testing.assert_array_equal(np.asarray(image.dataobj), expected)
        np.testing.assert_array_equal(image.affine, AFFINE)


def test_what_cannot_be_read_is_named(stored, tmp_path):
    path, _ = stored
    cut = tmp_path / "cut.nii.gz"
    cut.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ValueError, match=r"cut\.nii\.gz cannot be read"):
        read_image(str(cut))
    with pytest.raises(ValueError, match="cannot be read"):
        read_image({"path": "x.nii.gz", "bytes": path.read_bytes()[:-40]})
    with pytest.raises(ValueError, match=r"absent\.nii\.gz cannot be read"):
        read_image(str(tmp_path / "absent.nii.gz"))
    with pytest.raises(ValueError, match="neither a path, bytes nor an image"):
        read_image({"path": None, "bytes": None})


def test_the_fingerprint_follows_the_content(stored):
    path, _ = stored
    before = fingerprint(str(path))
    assert fingerprint({"path": str(path), "bytes": None}) == before
    content = path.read_bytes()
    changed = content[:-1] + bytes([content[-1] ^ 1])
    assert fingerprint({"path": "a", "bytes": content}) == fingerprint({"path": "b", "bytes": content})
    assert fingerprint({"path": "a", "bytes": content}) != fingerprint({"path": "a", "bytes": changed})
    path.write_bytes(changed)
    assert fingerprint(str(path)) != before
    assert fingerprint(None) is None
    assert fingerprint("hf://datasets/a/b@c/d.nii.gz") == "hf://datasets/a/b@c/d.nii.gz"
    image = nibabel.Nifti1Image(np.zeros((2, 2, 2), np.int16), AFFINE)
    moved = nibabel.Nifti1Image(np.zeros((2, 2, 2), np.int16), np.diag([2.0, 2.0, 4.0, 1.0]))
    assert fingerprint(image) != fingerprint(moved)
