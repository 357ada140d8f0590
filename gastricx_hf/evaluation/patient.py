"""A picture of one patient: four phases, axial above coronal, with the boxes, and the endoscopy."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gastricx_hf.evaluation.figures import new_figure, save
from gastricx_hf.preprocessing.geometry import axes_of, map_box, resample, to_orientation
from gastricx_hf.preprocessing.volumes import read_image
from gastricx_hf.schema import Box3D, Phase, Structure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS = {Structure.TUMOR: "#ff4d4d", Structure.LYMPH_NODE: "#ffd23f", Structure.STOMACH: "#35d0e6"}
BACKGROUND, PANEL, TEXT, FAINT = "#0b0f14", "#10161d", "#f2f5f8", "#9fb0c0"
WINDOW = (-100, 300)
"""HU shown from black to white: the paper's clipping range (facts.md P34)."""
AIR, BODY = -1000, -300
"""HU that fills what lies outside a volume, and above which a voxel belongs to the body."""
DASHES = (0, (4, 3))
WIDTH, GAP, TOP, BOTTOM = 2.6, 0.08, 0.6, 0.36
"""Inches: of a panel, between panels, for the titles, for the legend."""


def row_figure(row: Mapping, path: str | Path, title: str = "") -> Path:
    """The picture of the patient of a dataset row (columns `ct_*`, `boxes`, `endoscopy`; cells decoded or not).

    All phases are shown on the grid of the phase that carries the boxes (else the venous, else any), turned to RAS and matched
    by their own affines, so that the same place of the scanner is at the same place of each panel.
    A box whose phase has no volume cannot be placed and is left out.

    Raises:
        ValueError: the row has no volume, or one cannot be read.
    """
    images = {phase: to_orientation(read_image(row[f"ct_{phase}"]), "RAS") for phase in Phase if row.get(f"ct_{phase}") is not None}
    if not images:
        raise ValueError(f"case {row.get('case_id')}: no volume to show")
    boxed = [Phase.parse(box["phase"]) for box in row.get("boxes") or [] if Phase.parse(box["phase"]) in images]
    reference = next(phase for phase in [*boxed, Phase.VENOUS, *images] if phase in images)
    grid = images[reference]
    volumes = {phase: resample(image, grid.shape, grid.affine, AIR) for phase, image in images.items()}
    boxes = []
    for box in row.get("boxes") or []:
        phase = Phase.parse(box["phase"])
        if phase in images:
            stored = read_image(row[f"ct_{phase}"]).affine
            placed = map_box(box["min"], box["max"], stored, grid.affine, grid.shape)
            boxes += [Box3D(Structure(box["structure"]), phase, *placed)] if placed else []
    return patient_figure(volumes, boxes, axes_of(grid.affine)[1], path, title, _picture(row.get("endoscopy")))


def _picture(cell) -> np.ndarray | None:
    from PIL import Image

    if cell is None:
        return None
    if isinstance(cell, Mapping):
        cell = Image.open(io.BytesIO(cell["bytes"]) if cell.get("bytes") else cell["path"])
    return np.asarray(cell.convert("RGB"))


def patient_figure(
    volumes: Mapping[Phase, np.ndarray],
    boxes: Iterable[Box3D],
    spacing: Sequence[float],
    path: str | Path,
    title: str = "",
    endoscopy: np.ndarray | None = None,
) -> Path:
    """The four phases of a patient, axial above coronal, through the tumour.

    Shown in radiological convention: the patient's right is on the left of the picture, front (axial) or head (coronal) up.
    A box is drawn solid on its own phase and dashed on the others, where breathing may have moved what it surrounds.

    Args:
        volumes: phase -> (i, j, k) HU on one common grid in RAS orientation (i to the patient's left-to-right, j to the
            front, k to the head); a phase that is absent gives a panel that says so.
        boxes: boxes in voxels of that grid; without a tumour box the middle of the volume is shown.
        spacing: (i, j, k) voxel size in mm.
        title: written above, e.g. the patient's id and whether the patient is a phantom.
        endoscopy: (height, width, 3) picture, shown at the right.

    Raises:
        ValueError: there is no volume, one is not three-dimensional, or their shapes differ.
    """
    shapes = {tuple(volume.shape) for volume in volumes.values()}
    if len(shapes) != 1 or len(next(iter(shapes))) != 3:
        raise ValueError(f"expected volumes on one (i, j, k) grid, got shapes {sorted(shapes)}: `row_figure` resamples to one")
    boxes = list(boxes)
    shape = shapes.pop()
    centre = _centre(shape, boxes)
    extent = _extent(next(iter(volumes.values())))
    lengths = [(high - low) * mm for (low, high), mm in zip(extent, spacing, strict=True)]
    axial, coronal = (WIDTH * lengths[axis] / lengths[0] for axis in (1, 2))
    columns, height = len(Phase) + (endoscopy is not None), TOP + axial + GAP + coronal + BOTTOM
    size = np.array([columns * (WIDTH + GAP) + GAP, height])
    figure = new_figure(*size, facecolor=BACKGROUND)

    def place(column: int, bottom: float, panel_height: float) -> Axes:
        left = GAP + column * (WIDTH + GAP)
        return figure.add_axes([left / size[0], bottom / height, WIDTH / size[0], panel_height / height])

    for column, phase in enumerate(Phase):
        upper, lower = place(column, BOTTOM + coronal + GAP, axial), place(column, BOTTOM, coronal)
        for axes, plane in ((upper, 2), (lower, 1)):
            _panel(axes, volumes.get(phase), phase, boxes, spacing, plane, centre[plane], extent)
        upper.set_title(phase.replace("_", "-"), color=TEXT, fontsize=11, pad=5)
    if endoscopy is not None:
        axes = place(columns - 1, BOTTOM, axial + GAP + coronal)
        axes.imshow(endoscopy)
        axes.set_anchor("N")
        axes.set_title("endoscopy", color=TEXT, fontsize=11, pad=5)
        axes.set_axis_off()
    _legend(figure, [box for box in boxes if any(_crosses(box, plane, centre[plane]) for plane in (1, 2))])
    figure.text(GAP / size[0], 1 - 0.08 / height, title, ha="left", va="top", color=TEXT, fontsize=11, fontweight="bold")
    return save(figure, path)


def _crosses(box: Box3D, plane: int, index: int) -> bool:
    return box.min[plane] <= index < box.max[plane]


def _centre(shape: tuple[int, ...], boxes: list[Box3D]) -> list[int]:
    """The voxel to cut through: within the tumour box, on each axis the most boxes, and of those the nearest to its middle."""
    tumour = next((box for box in boxes if box.structure == Structure.TUMOR), None)
    if tumour is None:
        return [n // 2 for n in shape]
    cuts = []
    for axis in range(3):
        middle = (tumour.min[axis] + tumour.max[axis] - 1) / 2
        candidates = range(tumour.min[axis], tumour.max[axis])
        cuts.append(min(candidates, key=lambda i: (-sum(_crosses(b, axis, i) for b in boxes), abs(i - middle))))
    return cuts


def _extent(volume: np.ndarray) -> list[tuple[float, float]]:
    """On each axis the range of pixel edges that holds the body, with a margin; the whole volume where there is no body."""
    body = volume > BODY
    ranges = []
    for axis, n in enumerate(volume.shape):
        inside = np.flatnonzero(body.any(axis=tuple(other for other in range(3) if other != axis)))
        first, last = (inside[0], inside[-1] + 1) if len(inside) else (0, n)
        margin = 0.04 * (last - first)
        ranges.append((max(0, first - margin) - 0.5, min(n, last + margin) - 0.5))
    return ranges


def _panel(axes: Axes, volume, phase: Phase, boxes: list[Box3D], spacing, plane: int, index: int, extent) -> None:
    """One slice: plane 2 is axial (a k slice), plane 1 coronal (a j slice)."""
    axes.set_facecolor(PANEL)
    axes.set_xticks([])
    axes.set_yticks([])
    for side in axes.spines.values():
        side.set_color("#2a3440")
    vertical = 3 - plane
    if volume is None:
        axes.text(0.5, 0.5, "not acquired", ha="center", va="center", color=FAINT, fontsize=11, transform=axes.transAxes)
    else:
        axes.imshow(np.take(volume, index, axis=plane).T, cmap="gray", vmin=WINDOW[0], vmax=WINDOW[1], origin="lower")
        for box in boxes:
            if _crosses(box, plane, index):
                _draw_box(axes, box, vertical, solid=box.phase == phase)
        for x, letter in ((0.03, "R"), (0.97, "L")):
            axes.text(x, 0.96, letter, ha="center", va="top", color=FAINT, fontsize=8, transform=axes.transAxes)
    axes.set_xlim(extent[0][1], extent[0][0])  # high i, the patient's right, at the left
    axes.set_ylim(*extent[vertical])
    axes.set_aspect(spacing[vertical] / spacing[0])


def _draw_box(axes: Axes, box: Box3D, vertical: int, solid: bool) -> None:
    from matplotlib.patches import Rectangle

    corner = (box.min[0] - 0.5, box.min[vertical] - 0.5)
    size = (box.max[0] - box.min[0], box.max[vertical] - box.min[vertical])
    style = {"linewidth": 1.6} if solid else {"linewidth": 1.1, "linestyle": DASHES}
    axes.add_patch(Rectangle(corner, *size, fill=False, edgecolor=COLORS[box.structure], **style))


def _legend(figure: Figure, shown: list[Box3D]) -> None:
    from matplotlib.lines import Line2D

    structures = [structure for structure in COLORS if any(box.structure == structure for box in shown)]
    handles = [Line2D([], [], color=COLORS[structure], linewidth=2, label=structure.replace("_", " ")) for structure in structures]
    if handles:
        phases = ", ".join(phase.replace("_", "-") for phase in Phase if any(box.phase == phase for box in shown))
        handles.append(Line2D([], [], color=FAINT, linewidth=1.1, linestyle=DASHES, label=f"box of the {phases} phase, shown on another"))
        figure.legend(handles=handles, loc="lower center", ncols=len(handles), frameon=False, fontsize=9, labelcolor=TEXT)
