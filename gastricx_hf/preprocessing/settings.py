"""The settings of standardisation: what the paper's Appendix B fixes, and what it leaves open as named fields."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from gastricx_hf.provenance import canonical_hash

CHAIN_VERSION = "1"
"""Raised whenever the same settings would give other voxels; part of every hash."""


@dataclass(frozen=True)
class Standardization:
    """Settings of the chain orient -> clip -> one resampling into a fixed grid -> z-score statistics.

    Attributes:
        shape: voxels along (i, j, k) of the output grid. The paper's 288 x 288 x 192 (facts.md P35) is read as i, j, k.
        spacing: mm along (i, j, k); the paper's is 1 mm isotropic (P34).
        orientation: nibabel axis codes of the output grid; the paper does not say (P35).
        clip: lowest and highest HU kept (P33). Clipping comes before resampling, so that air and metal do not bleed into tissue.
        center: "volume" is the physical centre of the reference phase (venous, else the first of arterial, delayed, non-contrast).
            The paper crops around a coarse stomach region whose origin it does not state (I37). A reference stomach box is not
            used here: a crop placed by it would hand a part of the reference to the model, whatever its input schema.
        pad_hu: HU outside the source volume; unspecified in the paper, the lower clipping value here.
        interpolation: "linear" (P34). No smoothing before a coarser grid, as the paper names none.
        registration: "none". The paper registers arterial and delayed rigidly to venous (P36); that is not applied here, the
            phases meet in the scanner's frame.
        normalization: "zscore", per volume over all voxels of the output grid (P33); stored as mean and standard deviation.

    Raises:
        ValueError: a field has a value that the chain cannot carry out.
    """

    shape: tuple[int, int, int]
    spacing: tuple[float, float, float]
    orientation: str = "RAS"
    clip: tuple[float, float] = (-100.0, 300.0)
    center: str = "volume"
    pad_hu: float = -100.0
    interpolation: str = "linear"
    registration: str = "none"
    normalization: str = "zscore"

    def __post_init__(self):
        object.__setattr__(self, "shape", tuple(int(n) for n in self.shape))
        object.__setattr__(self, "spacing", tuple(float(s) for s in self.spacing))
        object.__setattr__(self, "clip", tuple(float(c) for c in self.clip))
        for name, only in (("center", "volume"), ("interpolation", "linear"), ("registration", "none"), ("normalization", "zscore")):
            if getattr(self, name) != only:
                raise ValueError(f"standardisation {name}={getattr(self, name)!r} is not available: use {only!r}")
        if len(self.shape) != 3 or min(self.shape) < 1 or len(self.spacing) != 3 or min(self.spacing) <= 0:
            raise ValueError(f"standardisation shape {self.shape} and spacing {self.spacing} must be three positive numbers each")
        if not self.clip[0] <= self.pad_hu <= self.clip[1] or self.clip[0] >= self.clip[1]:
            raise ValueError(f"standardisation pad_hu={self.pad_hu} must lie within clip={self.clip}")

    @property
    def hash(self) -> str:
        """sha256 of the settings and of the chain's version; stamped on everything that is made with them."""
        return canonical_hash({"chain": CHAIN_VERSION, **asdict(self)})


PRESETS = {
    "paper": Standardization((288, 288, 192), (1.0, 1.0, 1.0)),
    "compact": Standardization((144, 144, 96), (2.0, 2.0, 2.0)),
    "tiny": Standardization((64, 64, 32), (6.0, 6.0, 8.0)),
}
"""Name -> settings: the paper's grid, the same field of view at 2 mm, and a whole abdomen for tests and the demo."""
