"""Whether a NIfTI file is a fit CT volume: readable, 3D, with a sound affine, in HU.

One place for the audit, which lists problems, and for preprocessing, which refuses them.
"""

from __future__ import annotations

import zlib
from pathlib import Path

SHEAR_TOLERANCE = 1e-3
"""Largest |cosine| between two voxel axes that still counts as a right angle (0.06 degrees)."""


def open_volume(path: str | Path, field: str = "volume", voxels: bool = False):
    """Open a NIfTI file of any kind.

    Returns:
        the nibabel image, and its voxels (i, j, k) with slope and intercept applied, or None without `voxels` and for colour images.

    Raises:
        ValueError: it is truncated or no NIfTI; one sentence with file and field.
        FileNotFoundError: no such file.
    """
    import nibabel
    import numpy as np

    if not Path(path).is_file():
        raise FileNotFoundError(f"{path} ({field}): no such file")
    try:
        image = nibabel.load(path)
        data = np.asanyarray(image.dataobj) if voxels and image.get_data_dtype().fields is None else None
    except (OSError, EOFError, zlib.error, ValueError, nibabel.filebasedimages.ImageFileError) as error:
        reason = " ".join(str(error).replace(f'"{path}"', "it").split()) or type(error).__name__
        raise ValueError(f"{path} ({field}): cannot be read, it is truncated or no NIfTI ({reason}): get the file again") from error
    return image, data


def check_volume(path: str | Path, field: str = "volume", voxels: bool = False):
    """Open a NIfTI volume and refuse it if anything is wrong with it.

    Returns:
        the nibabel image; its voxels are read only with `voxels`.

    Raises:
        ValueError: it cannot be read, or `volume_problem` finds something; one sentence with file and field.
        FileNotFoundError: no such file.
    """
    image, data = open_volume(path, field, voxels)
    problem = volume_problem(image, data)
    if problem:
        raise ValueError(f"{path} ({field}): {problem}")
    return image


def volume_problem(image, data=None) -> str | None:
    """What makes a volume unfit, as one sentence "what is wrong: what to do"; None if nothing does.

    Args:
        image: nibabel image; only its header is read.
        data: its voxels (i, j, k) in the units they claim, HU; without them the units are not checked.
    """
    if image.get_data_dtype().fields is not None:
        return "is a colour (RGB) image, not CT in HU: export the original series, not a screenshot"
    if len(image.shape) != 3 or min(image.shape) < 2:
        return f"has shape {tuple(image.shape)}, not a 3D volume (i, j, k): store one volume per phase"
    return _affine_problem(image) or (None if data is None else _unit_problem(data))


def _affine_problem(image) -> str | None:
    import numpy as np

    affine = image.affine
    if affine is None or not np.isfinite(affine).all() or abs(np.linalg.det(affine[:3, :3])) < 1e-6:
        return "has an affine without volume (determinant 0 or not finite), so voxels have no place in mm: convert it again from DICOM"
    axes = affine[:3, :3] / np.linalg.norm(affine[:3, :3], axis=0)
    shear = np.abs(axes.T @ axes - np.eye(3)).max()
    if shear > SHEAR_TOLERANCE:
        return f"has a sheared affine (cosine {shear:.3f} between axes, as from gantry tilt): resample it to a rectangular grid"
    header = image.header
    if "qform_code" in header and header["qform_code"] > 0 and header["sform_code"] > 0:
        corners = np.array(np.meshgrid(*((0, n - 1) for n in image.shape), [1])).reshape(4, -1)
        apart = np.linalg.norm(((header.get_qform() - header.get_sform()) @ corners)[:3], axis=0).max()
        if apart > 0.5:
            return f"has a qform and an sform that disagree by {apart:.1f} mm: decide which is right and write it to both"
    return None


def _unit_problem(data) -> str | None:
    """Why voxels are not HU. CT of the abdomen always holds air or fat (below -30 HU), and is not cut off at a window."""
    import numpy as np

    if not np.isfinite(data).all():
        return "holds NaN or infinite voxels: convert it again, or exclude it"
    low, high = float(data.min()), float(data.max())
    again = "give the original volume in HU"
    if low == high:
        return f"is empty, every voxel is {low:g}: {again}"
    if high <= 1.5 and low >= -1.5:
        return f"is rescaled to {low:g}..{high:g}, not HU: {again}"
    if low >= 0 and high <= 255:
        return f"is an 8-bit window ({low:g}..{high:g}), not HU: {again}"
    if low >= 0:
        return f"has no voxel below 0 ({low:g}..{high:g}), so it is not HU: apply the DICOM rescale intercept (usually -1024)"
    if low > -30 and high < 30:
        return f"looks z-scored ({low:.1f}..{high:.1f}), not HU: {again}"
    share = float((data == low).mean())
    if low > -500 and share > 0.01:
        return f"is cut off at {low:g} ({share:.0%} of its voxels), so it is already windowed: {again}"
    return None
