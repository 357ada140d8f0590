"""The CT of a phantom patient: an upper abdomen from ellipsoids and a stomach from a bent tube, in four phases.

Drawing coordinates are (left, front, head) in mm from the grid's centre; voxel axes are (i, j, k), stored LPS.
HU values per organ and phase are round figures of the kind that radiology texts give for a multi-phase abdominal
protocol; they are meant to look right and to differ by phase, not to be measured.
"""

from __future__ import annotations

import numpy as np

from gastricx_hf.schema import Phase
from gastricx_hf.sources.phantom.truth import Lesion, Truth

FAT, MUSCLE, BONE, LUNG, STOMACH_WALL, LUMEN, NODE, METASTASIS, FLUID = range(20, 29)
SPLEEN, KIDNEY_RIGHT, KIDNEY_LEFT, GALLBLADDER, LIVER, STOMACH, AORTA, CAVA = 1, 2, 3, 4, 5, 6, 7, 8  # CADS task 551 labels

HU = {  # tissue: non-contrast, arterial, venous, delayed
    FAT: (-100, -100, -98, -100),
    MUSCLE: (52, 58, 64, 62),
    BONE: (320, 330, 335, 330),
    LUNG: (-820, -815, -815, -818),
    SPLEEN: (46, 135, 125, 100),
    KIDNEY_RIGHT: (33, 165, 190, 175),
    KIDNEY_LEFT: (33, 165, 190, 175),
    GALLBLADDER: (10, 10, 11, 11),
    LIVER: (56, 70, 112, 96),
    AORTA: (40, 290, 160, 120),
    CAVA: (40, 80, 150, 125),
    STOMACH_WALL: (38, 62, 78, 72),
    LUMEN: (4, 4, 4, 4),
    NODE: (38, 80, 98, 88),
    METASTASIS: (40, 48, 50, 58),
    FLUID: (8, 9, 10, 12),
}
LESION_HU = {"arterial phase": (40, 150, 92, 70), "venous phase": (40, 85, 150, 92), "delayed phase": (40, 62, 92, 145)}
"""HU of a wall thickening by the phase in which it peaks."""
NOISE_HU = 12.0
AIR_HU = -1000

# Centre line of the stomach from cardia to pylorus in mm (x to the left, y to the front, z to the head) and its radius.
CENTRE_LINE = np.array([(58, -28, 66), (76, -12, 42), (78, 12, 8), (58, 36, -26), (22, 44, -44), (-14, 40, -40)], np.float32)
RADII = np.array([30, 36, 32, 27, 22, 17], np.float32)
WALL_MM = 5.0


def grid(shape, spacing) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Affine (4x4, stored LPS as scanners do) and broadcastable millimetre coordinates of a centred grid.

    The coordinates returned are (left, front, head) in mm, one array per voxel axis, so that the drawing code reads
    as anatomy; the affine tells nibabel the same in RAS+.
    """
    axes = [(np.arange(n, dtype=np.float32) - (n - 1) / 2) * s for n, s in zip(shape, spacing, strict=True)]
    affine = np.diag([-spacing[0], -spacing[1], spacing[2], 1.0])
    affine[:3, 3] = -affine[:3, :3] @ ((np.array(shape) - 1) / 2)
    left, back, head = axes[0][:, None, None], axes[1][None, :, None], axes[2][None, None, :]
    return affine, (left, -back, head)


def render(truth: Truth, phase: Phase, shape, spacing) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Draw one phase.

    Returns:
        HU (i, j, k) int16; organ labels (i, j, k) uint8 in CADS numbering; structures (i, j, k) uint8 with
        1 tumour, 2 metastatic lymph node; the 4x4 affine.
    """
    affine, (x, y, z) = grid(shape, spacing)
    shift = truth.shifts_mm[phase]
    x, y, z = x - np.float32(shift[0]), y - np.float32(shift[1]), z - np.float32(shift[2])
    rng = truth.rng(1)  # the same body in every phase
    body_scale = np.float32(rng.uniform(0.94, 1.06))
    x, y = x / body_scale, y / body_scale
    tissue = _organs(truth, rng, x, y, z)
    structures = np.zeros(shape, np.uint8)
    lesions = _stomach(truth, rng, tissue, structures, x, y, z)

    column = list(Phase).index(phase)
    table = np.full(256, AIR_HU, np.float32)
    for label, values in HU.items():
        table[label] = values[column]
    hu = table[tissue]
    for lesion, region in lesions:
        hu[region] = LESION_HU[lesion.peak][column]
    hu += truth.rng(10 + column).normal(0, NOISE_HU, shape).astype(np.float32)
    organs = np.where(tissue < 20, tissue, 0)
    organs[(tissue == STOMACH_WALL) | (tissue == LUMEN)] = STOMACH
    for _, region in lesions:
        organs[region] = STOMACH
    return np.clip(np.rint(hu), -1024, 3071).astype(np.int16), organs.astype(np.uint8), structures, affine


def _ellipsoid(x, y, z, centre, axes):
    """1 on the surface, smaller inside; broadcast over the three coordinate arrays."""
    return sum(((c - m) / a) ** 2 for c, m, a in zip((x, y, z), centre, axes, strict=True))


def _organs(truth: Truth, rng, x, y, z) -> np.ndarray:
    body = _ellipsoid(x, y, 0 * z, (0, 0, 0), (165, 112, 1))
    tissue = np.zeros(np.broadcast_shapes(x.shape, y.shape, z.shape), np.uint8)
    tissue[np.broadcast_to(body < 1, tissue.shape)] = MUSCLE
    tissue[np.broadcast_to(_ellipsoid(x, y, 0 * z, (0, 6, 0), (140, 88, 1)) < 1, tissue.shape)] = FAT
    tissue[np.broadcast_to(_ellipsoid(x, y, 0 * z, (0, -72, 0), (22, 20, 1)) < 1, tissue.shape)] = BONE
    for side in (-1, 1):
        tissue[_ellipsoid(x, y, z, (side * 70, -10, 150), (62, 75, 62)) < 1] = LUNG
        kidney = KIDNEY_LEFT if side > 0 else KIDNEY_RIGHT
        tissue[_ellipsoid(x, y, z, (side * 62, -52, -38 - 8 * (side < 0)), (25, 22, 48)) < 1] = kidney
    liver = _ellipsoid(x, y, z, (-66, 12, 28), (74, 70, 66))
    liver = np.minimum(liver, _ellipsoid(x, y, z, (-6, 40, 34), (48, 34, 32)))
    if truth.facts.ascites:
        tissue[(liver < 1.35) & (tissue == FAT)] = FLUID
        spleen_side = _ellipsoid(x, y, z, (112, -30, 20), (44, 58, 100)) < 1
        low = _ellipsoid(x, y, z, (0, 30, -110), (120, 52, 34)) < 1
        tissue[(spleen_side | low) & (tissue == FAT)] = FLUID
    tissue[(liver < 1) & (tissue != BONE)] = LIVER
    if truth.facts.spread == "liver":
        for _ in range(4):
            centre = (-70 + rng.uniform(-42, 30), 12 + rng.uniform(-32, 36), 28 + rng.uniform(-34, 34))
            tissue[(_ellipsoid(x, y, z, centre, (15, 15, 16)) < 1) & (tissue == LIVER)] = METASTASIS
    tissue[_ellipsoid(x, y, z, (112, -36, 42), (27, 40, 46)) < 1] = SPLEEN
    tissue[_ellipsoid(x, y, z, (-52, 52, -14), (15, 17, 27)) < 1] = GALLBLADDER
    tissue[np.broadcast_to(_ellipsoid(x, y, 0 * z, (8, -40, 0), (12, 12, 1)) < 1, tissue.shape)] = AORTA
    tissue[np.broadcast_to(_ellipsoid(x, y, 0 * z, (-22, -40, 0), (13, 11, 1)) < 1, tissue.shape)] = CAVA
    return tissue


def _stomach(truth: Truth, rng, tissue, structures, x, y, z) -> list[tuple[Lesion, tuple]]:
    """Draw wall, lumen, fat stranding, nodes and lesions into `tissue`; return each lesion with its voxel indices."""
    near = tuple(slice(*_range(c.ravel(), low, high)) for c, low, high in zip((x, y, z), (-60, -90, -95), (140, 100, 125), strict=True))
    xs, ys, zs = x[near[0]], y[:, near[1]], z[:, :, near[2]]
    sub = tissue[near]
    surface = _distance(xs, ys, zs)
    if truth.stranding:
        haze = truth.rng(2).random(sub.shape, np.float32)  # its own generator: a shifted phase has another sub-grid
        sub[(surface > 0) & (surface < 18) & (sub == FAT) & (haze < 0.75)] = FLUID
    sub[surface < 0] = STOMACH_WALL
    sub[surface < -WALL_MM] = LUMEN
    if truth.nodes_visible:
        for _ in range(4):
            centre = (18 + rng.uniform(-12, 16), 8 + rng.uniform(-16, 16), 4 + rng.uniform(-34, 34))
            region = (_ellipsoid(xs, ys, zs, centre, (9, 9, 9.5)) < 1) & (surface > 0)
            sub[region] = NODE
            if truth.facts.n != "N0":
                structures[near][region] = 2
    lesions = []
    for lesion in sorted(truth.lesions, key=lambda lesion: lesion.place):  # not tumour first: the order must tell nothing
        centre, radius = _on_wall(lesion)
        half = lesion.size_cm * 5.0
        thickness = 11.0 + 1.2 * lesion.size_cm
        region = (_ellipsoid(xs, ys, zs, centre, (half, half, half)) < 1) & (surface < 4) & (surface > -min(thickness, radius))
        inside = np.nonzero(region)
        index = tuple(axis + s.start for axis, s in zip(inside, near, strict=True))
        lesions.append((lesion, index))
        if lesion is truth.lesions[0]:
            structures[index] = 1
    return lesions


def _range(values: np.ndarray, low: float, high: float) -> tuple[int, int]:
    """Index range of a monotonic coordinate axis that covers low..high."""
    inside = np.nonzero((values >= low) & (values <= high))[0]
    return (int(inside[0]), int(inside[-1]) + 1) if len(inside) else (0, 0)


def _distance(x, y, z) -> np.ndarray:
    """Signed distance in mm to the outer wall of the stomach tube, negative inside."""
    best = np.full(np.broadcast_shapes(x.shape, y.shape, z.shape), np.inf, np.float32)
    for a, b, ra, rb in zip(CENTRE_LINE[:-1], CENTRE_LINE[1:], RADII[:-1], RADII[1:], strict=True):
        d = b - a
        along = ((x - a[0]) * d[0] + (y - a[1]) * d[1] + (z - a[2]) * d[2]) / np.float32(d @ d)
        along = np.clip(along, 0, 1)
        squared = (x - a[0] - along * d[0]) ** 2 + (y - a[1] - along * d[1]) ** 2 + (z - a[2] - along * d[2]) ** 2
        np.minimum(best, np.sqrt(squared) - (ra + along * (rb - ra)), out=best)
    return best


def _on_wall(lesion: Lesion) -> tuple[tuple[float, float, float], float]:
    """Where a lesion sits: a point of the wall at its place along the centre line, and the tube's radius there."""
    position = lesion.place * (len(CENTRE_LINE) - 1)
    low = min(int(position), len(CENTRE_LINE) - 2)
    part = position - low
    centre = CENTRE_LINE[low] + part * (CENTRE_LINE[low + 1] - CENTRE_LINE[low])
    radius = float(RADII[low] + part * (RADII[low + 1] - RADII[low]))
    axis = CENTRE_LINE[low + 1] - CENTRE_LINE[low]
    axis = axis / np.linalg.norm(axis)
    side = np.cross(axis, (0.0, 1.0, 0.0))
    side = side / np.linalg.norm(side)
    out = np.cos(lesion.angle) * side + np.sin(lesion.angle) * np.cross(axis, side)
    point = centre + out * (radius - WALL_MM)
    return (float(point[0]), float(point[1]), float(point[2])), radius
