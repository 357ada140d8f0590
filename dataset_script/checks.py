"""What must be right before a dataset is written. Nothing here reads voxels."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from collections.abc import Iterable, Iterator

from tqdm import tqdm

from gastricx_hf.cases.audit import audit_case
from gastricx_hf.schema import Case


def problems(cases: Iterable[Case]) -> list[str]:
    """Everything that stops a build, one line each with patient, file, field and fix; empty if nothing does.

    The audit's errors, volumes and masks that end too early, and pictures that cannot be opened.
    """
    lines = []
    for case in tqdm(cases, desc="checking patients", unit=" patients", disable=None):
        errors = [finding for finding in audit_case(case) if finding.severity == "error"]
        lines += [f"{case.case_id} {f.field}: {f.message} [{f.file or 'record'}] - {f.fix}" for f in errors]
        refused = {finding.file for finding in errors}
        lines += [line for path, line in _file_problems(case) if path not in refused]
    return lines


def _file_problems(case: Case) -> Iterator[tuple[str, str]]:
    from PIL import Image, UnidentifiedImageError

    for kind in ("volumes", "tumor_masks", "organ_masks"):
        for phase, path in getattr(case, kind).items():
            reason = _too_short(path)
            if reason:
                yield path, f"{case.case_id} {kind} {phase}: {reason} [{path}] - get the file again, or exclude the patient"
    if case.endoscopy:
        try:
            with Image.open(case.endoscopy) as picture:
                picture.load()
        except (OSError, UnidentifiedImageError, SyntaxError) as error:
            yield case.endoscopy, f"{case.case_id} endoscopy: cannot be opened ({error}) [{case.endoscopy}] - get the file again"


def _too_short(path: str) -> str | None:
    """Why a NIfTI file holds fewer voxels than its header says, told by its length; None if it does not.

    A gzip file ends with the length of its content modulo 2^32; where that is not what the header asks for (several gzip members,
    trailing bytes, or cut off), the file is decompressed to the end.
    """
    import nibabel

    try:
        image = nibabel.load(path)
        needed = image.dataobj.offset + math.prod(image.shape) * image.get_data_dtype().itemsize
        with open(path, "rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - 4))
            (length,) = struct.unpack("<I", file.read(4))
        if not path.endswith(".gz"):
            length = size
        elif length != needed % 2**32:
            with gzip.open(path) as file:
                length = sum(map(len, iter(lambda: file.read(1 << 20), b"")))
        elif needed >= 2**32:
            length = needed
    except (OSError, EOFError, ValueError, zlib.error, struct.error, nibabel.filebasedimages.ImageFileError) as error:
        return f"is truncated or no NIfTI ({' '.join(str(error).split())})"
    return f"is truncated ({length} of {needed} bytes)" if length < needed else None
