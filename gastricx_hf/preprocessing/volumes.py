"""The cells of a dataset row: reading a volume from a path, bytes or an image, and a fingerprint of what it holds."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from pathlib import Path

import numpy as np

GZIP_MAGIC = b"\x1f\x8b"


def read_image(cell):
    """The NIfTI image of a cell, voxels in memory with slope and intercept applied.

    Args:
        cell: `{"path", "bytes"}` (undecoded), a path or fsspec URL (`hf://...`), or a nibabel image (decoded).

    Raises:
        ValueError: the cell is of another kind, or what it names cannot be read (missing, truncated, not NIfTI-1).
    """
    import nibabel

    path, content = ("decoded volume", None) if hasattr(cell, "dataobj") else _path_and_bytes(cell)
    try:
        if hasattr(cell, "dataobj"):
            image = cell
        elif content is None and "://" not in path:
            image = nibabel.load(path)
        else:
            image = nibabel.Nifti1Image.from_bytes(_plain(content if content is not None else _fetch(path)))
        return nibabel.Nifti1Image(np.asanyarray(image.dataobj), image.affine, image.header)
    except (OSError, EOFError, ValueError, zlib.error, nibabel.filebasedimages.ImageFileError, nibabel.spatialimages.HeaderDataError) as e:
        reason = " ".join(str(e).split()) or type(e).__name__
        raise ValueError(f"{path or 'embedded NIfTI'} cannot be read, it is truncated or no NIfTI ({reason}): get the file again") from e


def fingerprint(cell) -> str | None:
    """What identifies the content of a cell: path, size and modification time of a local file; a URL as it stands (pin its
    revision); length and sha1 of bytes or of a decoded image's voxels. None for a missing phase."""
    if cell is None:
        return None
    if hasattr(cell, "dataobj"):
        return _digest(np.asanyarray(cell.dataobj).tobytes() + np.asarray(cell.affine).tobytes())
    path, content = _path_and_bytes(cell)
    if content is not None:
        return _digest(content)
    if "://" in path:
        return path
    try:
        state = Path(path).stat()
    except OSError as e:
        raise ValueError(f"{path} cannot be read ({type(e).__name__}: {e})") from e
    return f"{path} {state.st_size} {state.st_mtime_ns}"


def _path_and_bytes(cell) -> tuple[str, bytes | None]:
    if isinstance(cell, (str, Path)):
        return str(cell), None
    if isinstance(cell, dict) and (cell.get("path") or cell.get("bytes") is not None):
        return cell.get("path") or "", cell.get("bytes")
    raise ValueError(f"a volume cell of type {type(cell).__name__} holds neither a path, bytes nor an image")


def _fetch(url: str) -> bytes:
    import fsspec

    with fsspec.open(url, "rb") as file:
        return file.read()


def _plain(content: bytes) -> bytes:
    return gzip.decompress(content) if content[:2] == GZIP_MAGIC else content


def _digest(content: bytes) -> str:
    return f"{len(content)} {hashlib.sha1(content, usedforsecurity=False).hexdigest()}"
