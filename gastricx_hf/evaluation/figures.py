"""Figures of a run as PNG: the four schemas between chance and oracle, and the training curve."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gastricx_hf.evaluation.tables import SCHEMA_NAMES, is_phantom
from gastricx_hf.schema import Schema, Score

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, MUTED, GRID = "#1f2933", "#6b7785", "#e3e8ee"
MODEL, ORACLE, CHANCE, CEILING = "#0f6fb3", "#1a936f", "#9aa5b1", "#c77d1e"


def new_figure(width: float, height: float, **options) -> Figure:
    """A figure that belongs to no window and no global state."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), dpi=150, **options)


def save(figure: Figure, path: str | Path) -> Path:
    """Write the picture aside and rename it."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(path.stem + ".part" + path.suffix)
    figure.savefig(aside, facecolor=figure.get_facecolor())
    aside.replace(path)
    return path


def _plain(axes: Axes) -> None:
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(GRID)
    axes.tick_params(length=0, colors=MUTED, labelsize=9)
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)


def schemas_figure(
    scores: Iterable[Score], oracle: Mapping[str, float] | None, chance: float | None, text_ceiling: float | None, path: str | Path
) -> Path:
    """Accuracy of one model on closed questions with each input schema, between what can be had without and with perfect reading.

    Args:
        scores: scores of one model; those of other metrics, groups and of the baseline (schema "none") are ignored.
        oracle: schema -> best accuracy that any reader could reach; phantom patients only.
        chance: accuracy of the majority answer.
        text_ceiling: best accuracy of a reader of the question alone; phantom patients only.

    All 0-100.

    Raises:
        ValueError: phantom and real scores together, several models, or no accuracy to show.
    """
    chosen = [s for s in scores if s.metric == "accuracy" and s.group == "all" and s.schema != "none"]
    phantom = is_phantom(chosen)
    models = sorted({score.provenance["model"] for score in chosen})
    if len(models) > 1:
        raise ValueError(f"this figure shows one model, not {len(models)}: {models}")
    by_schema = {score.schema: score for score in chosen}
    shown = [schema for schema in Schema if schema in by_schema]
    figure = new_figure(8, 4.6, layout="constrained")
    axes = figure.add_subplot()
    _plain(axes)
    for x, schema in enumerate(shown):
        score = by_schema[schema]
        axes.bar(x, score.value, width=0.5, color=MODEL, alpha=0.9, zorder=2)
        axes.vlines(x, score.low, score.high, color=INK, linewidth=2, zorder=4)
        axes.text(x, 3, f"{score.value:.1f}", ha="center", va="bottom", color="white", fontsize=13, fontweight="bold", zorder=5)
        if oracle and schema in oracle:
            axes.hlines(oracle[schema], x - 0.36, x + 0.36, color=ORACLE, linewidth=3, zorder=3)
            axes.text(x, oracle[schema] + 1, f"{oracle[schema]:.1f}", ha="center", va="bottom", color=ORACLE, fontsize=9)
    _level(axes, chance, "majority answer", CHANCE, "--")
    _level(axes, text_ceiling, "best without looking", CEILING, ":")
    axes.set_xticks(range(len(shown)), [SCHEMA_NAMES[schema] for schema in shown], color=INK, fontsize=10)
    axes.set_ylabel("Accuracy on closed questions (%)", color=MUTED, fontsize=9)
    axes.set_xlim(-0.6, len(shown) - 0.4)
    axes.set_ylim(0, max([104, *(score.high + 8 for score in chosen)]))
    axes.set_yticks(range(0, 101, 20))
    _schemas_legend(axes, bool(oracle), chance, text_ceiling)
    subtitle = f"{models[0]}, {chosen[0].n_items} questions of {chosen[0].n_patients} patients"
    title = f"{'PHANTOM patients' if phantom else 'Gastric-X'}: what each input adds\n{subtitle}"
    figure.suptitle(title, x=0.01, ha="left", color=INK, fontsize=11, fontweight="bold")
    return save(figure, path)


def _level(axes: Axes, value: float | None, label: str, color: str, style: str) -> None:
    if value is not None:
        axes.axhline(value, color=color, linestyle=style, linewidth=1.8, zorder=3, label=label)


def _schemas_legend(axes: Axes, oracle: bool, chance: float | None, text_ceiling: float | None) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles = [Patch(color=MODEL, label="model"), Line2D([], [], color=INK, linewidth=2, label="95% interval over patients")]
    if oracle:
        handles.append(Line2D([], [], color=ORACLE, linewidth=3, label="oracle: best possible reader"))
    if text_ceiling is not None:
        handles.append(
            Line2D([], [], color=CEILING, linestyle=":", linewidth=1.8, label=f"best from the question alone ({text_ceiling:.1f})")
        )
    if chance is not None:
        handles.append(Line2D([], [], color=CHANCE, linestyle="--", linewidth=1.8, label=f"majority answer ({chance:.1f})"))
    axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=3, frameon=False, fontsize=8.5, labelcolor=MUTED)


def training_figure(losses: Sequence[Sequence[float]], path: str | Path) -> Path:
    """Training loss over optimiser steps: every value, and their running mean over a tenth of the run.

    Args:
        losses: [step, loss] pairs in order.

    Raises:
        ValueError: there are none.
    """
    if not len(losses):
        raise ValueError("no training losses to show")
    steps, values = np.asarray(losses, dtype=float).T
    window = max(1, len(values) // 10)
    total = np.cumsum(np.r_[0.0, values])
    starts = np.maximum(0, np.arange(1, len(values) + 1) - window)
    mean = (total[1:] - total[starts]) / (np.arange(1, len(values) + 1) - starts)
    figure = new_figure(8, 3.2, layout="constrained")
    axes = figure.add_subplot()
    _plain(axes)
    axes.plot(steps, values, color=MODEL, alpha=0.3, linewidth=1)
    axes.plot(steps, mean, color=MODEL, linewidth=2.2)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("step", color=MUTED, fontsize=9)
    axes.set_ylabel("training loss", color=MUTED, fontsize=9)
    figure.suptitle(
        f"Training loss  ·  {mean[-1]:.3f} at step {steps[-1]:.0f}", x=0.01, ha="left", color=INK, fontsize=11, fontweight="bold"
    )
    return save(figure, path)
