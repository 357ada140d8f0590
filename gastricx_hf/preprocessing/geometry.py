"""Grids and boxes in physical space. Affines are nibabel's: voxel centre (i, j, k) -> mm in RAS+."""

from __future__ import annotations

import numpy as np

from gastricx_hf.preprocessing.settings import Standardization

RAS_TO_LPS = np.diag([-1.0, -1.0, 1.0, 1.0])
SHEAR_TOLERANCE = 1e-3
"""Largest departure of the direction cosines from orthonormal; float32 headers stay below it."""
ALIGNED_VOXELS = 1e-3
"""Two grids whose voxel centres agree within this part of a voxel are the same grid."""


def to_orientation(image, orientation: str):
    """The image with its axes flipped and permuted to `orientation` (nibabel axis codes, e.g. "RAS"); voxel values are untouched.

    Raises:
        ValueError: the image is not three-dimensional or its affine cannot be oriented.
    """
    import nibabel
    from nibabel import orientations

    if len(image.shape) != 3 or np.linalg.matrix_rank(image.affine[:3, :3]) < 3:
        raise ValueError(f"a volume of shape {image.shape} with affine {image.affine.tolist()} has no 3D orientation")
    change = orientations.ornt_transform(orientations.io_orientation(image.affine), orientations.axcodes2ornt(orientation))
    data = orientations.apply_orientation(np.asanyarray(image.dataobj), change)
    return nibabel.Nifti1Image(data, image.affine @ orientations.inv_ornt_aff(change, image.shape), image.header)


def axes_of(affine: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Unit direction of each voxel axis (columns of a 3x3) and the spacing in mm.

    Raises:
        ValueError: the axes are not perpendicular (a sheared affine, e.g. an uncorrected gantry tilt), or one has no length.
    """
    spacing = np.linalg.norm(affine[:3, :3], axis=0)
    if not np.isfinite(affine).all() or (spacing <= 0).any():
        raise ValueError(f"the affine {affine.tolist()} has an axis without length: correct the header")
    directions = affine[:3, :3] / spacing
    shear = float(np.abs(directions.T @ directions - np.eye(3)).max())
    if shear > SHEAR_TOLERANCE:
        raise ValueError(f"the affine is sheared (axes off by {shear:.3f} from perpendicular): resample it onto a rectangular grid first")
    return directions, spacing


def target_grid(reference, settings: Standardization) -> tuple[tuple[int, int, int], np.ndarray]:
    """Shape and affine of the standardised grid: along the reference's own axes in `settings.orientation`, about its centre.

    An oblique scan keeps its obliqueness, so that a volume which already has the wanted spacing is never interpolated.
    """
    reference = to_orientation(reference, settings.orientation)
    directions, _ = axes_of(reference.affine)
    centre = (reference.affine @ np.append((np.array(reference.shape) - 1) / 2, 1.0))[:3]
    affine = np.eye(4)
    affine[:3, :3] = directions * np.array(settings.spacing)
    affine[:3, 3] = centre - affine[:3, :3] @ ((np.array(settings.shape) - 1) / 2)
    return settings.shape, affine


def resample(image, shape: tuple[int, int, int], affine: np.ndarray, pad_hu: float) -> np.ndarray:
    """The image on another grid, trilinear, once; `pad_hu` outside the source.

    Where the grids share axes and voxel positions the voxels are copied (cropped, padded), exact and in the source's type.

    Returns:
        (i, j, k) of `shape`; float32 if interpolated.
    """
    axes_of(image.affine)
    offset = _whole_voxel_offset(image, shape, affine)
    if offset is not None:
        return _crop_or_pad(np.asanyarray(image.dataobj), shape, offset, pad_hu)
    import SimpleITK as sitk

    source = sitk.GetImageFromArray(np.asarray(image.dataobj, np.float32).transpose(2, 1, 0))
    _place(source, image.affine)
    grid = sitk.ResampleImageFilter()
    directions, spacing = axes_of(RAS_TO_LPS @ affine)
    grid.SetSize([int(n) for n in shape])
    grid.SetOutputSpacing(spacing.tolist())
    grid.SetOutputOrigin((RAS_TO_LPS @ affine)[:3, 3].tolist())
    grid.SetOutputDirection(directions.ravel().tolist())
    grid.SetInterpolator(sitk.sitkLinear)
    grid.SetDefaultPixelValue(float(pad_hu))
    result = grid.Execute(source)  # named: a view does not keep its image alive
    return np.ascontiguousarray(sitk.GetArrayViewFromImage(result).transpose(2, 1, 0))


def _place(image, affine: np.ndarray) -> None:
    directions, spacing = axes_of(RAS_TO_LPS @ affine)
    image.SetSpacing(spacing.tolist())
    image.SetOrigin((RAS_TO_LPS @ affine)[:3, 3].tolist())
    image.SetDirection(directions.ravel().tolist())


def _whole_voxel_offset(image, shape, affine) -> np.ndarray | None:
    """Source index of the target's voxel (0, 0, 0) if the target's voxels lie on the source's, else None."""
    step = np.linalg.inv(image.affine) @ affine
    offset = np.rint(step[:3, 3]).astype(int)
    drift = np.abs(step[:3, :3] - np.eye(3)).sum(1) @ np.array(shape) + np.abs(step[:3, 3] - offset).max()
    return offset if drift < ALIGNED_VOXELS else None


def _crop_or_pad(data: np.ndarray, shape, offset: np.ndarray, pad_hu: float) -> np.ndarray:
    out = np.full(shape, pad_hu, data.dtype)
    low = np.maximum(offset, 0)
    high = np.minimum(offset + shape, data.shape)
    if (high > low).all():
        into = tuple(slice(a - o, b - o) for a, b, o in zip(low, high, offset, strict=True))
        out[into] = data[tuple(slice(a, b) for a, b in zip(low, high, strict=True))]
    return out


def map_box(box_min, box_max, affine: np.ndarray, target_affine: np.ndarray, target_shape) -> tuple[tuple, tuple] | None:
    """A half-open voxel box of one grid in the voxels of another.

    The box's faces lie at index - 0.5; its eight corners travel through physical space, and their bounding box is rounded to
    voxels: a voxel belongs to the result if its centre lies within. The result is clipped to the grid and has at least one voxel.

    Returns:
        ((i, j, k) min, (i, j, k) max) half-open, or None if the box lies outside the target grid.
    """
    faces = np.array([box_min, box_max], float) - 0.5
    corners = np.array([[faces[a, 0], faces[b, 1], faces[c, 2], 1.0] for a in (0, 1) for b in (0, 1) for c in (0, 1)])
    mapped = (np.linalg.inv(target_affine) @ affine @ corners.T)[:3] + 0.5  # faces of the target's voxel t at t and t + 1
    low, high, size = mapped.min(1), mapped.max(1), np.array(target_shape)
    if (high <= 0).any() or (low >= size).any():
        return None
    low, high = np.clip(low, 0, size), np.clip(high, 0, size)
    first, last = np.rint(low).astype(int), np.rint(high).astype(int)
    middle = np.minimum(((low + high) / 2).astype(int), size - 1)
    first, last = np.where(last > first, first, middle), np.where(last > first, last, middle + 1)
    return tuple(first.tolist()), tuple(last.tolist())
