"""The endoscopic picture of a phantom patient: mucosal folds, vignette, and a crater or a mass."""

from __future__ import annotations

import numpy as np

from gastricx_hf.sources.phantom.truth import Truth

SIDE = 160
"""Width and height in pixels."""


def picture(truth: Truth):
    """An RGB `PIL.Image` of SIDE x SIDE pixels; ulcerative lesions have a pale crater, mass-forming ones a lit bulge."""
    from PIL import Image
    from scipy.ndimage import gaussian_filter

    rng = truth.rng(20)
    v, u = np.mgrid[-1 : 1 : SIDE * 1j, -1 : 1 : SIDE * 1j].astype(np.float32)
    warp = gaussian_filter(rng.normal(size=(SIDE, SIDE)), 14) * 22
    folds = np.sin(9 * (u * np.cos(truth.lesions[0].angle) + v * np.sin(truth.lesions[0].angle)) + warp)
    colour = np.array([196, 104, 84], np.float32) + folds[..., None] * np.array([16, 13, 11], np.float32)
    colour += gaussian_filter(rng.normal(size=(SIDE, SIDE)), 2)[..., None] * np.array([34, 22, 18], np.float32)

    du, dv = u - rng.uniform(-0.25, 0.25), v - rng.uniform(-0.25, 0.25)
    radius = 0.22 + 0.035 * truth.facts.size_cm
    distance = np.hypot(du, dv) / radius + gaussian_filter(rng.normal(size=(SIDE, SIDE)), 7) * 1.4
    rim = np.exp(-(((distance - 1) / 0.22) ** 2))[..., None]
    inside = (1 / (1 + np.exp((distance - 0.85) * 14)))[..., None]
    if truth.facts.gross == "ulcerative":
        colour = colour * (1 - inside) + np.array([218, 196, 150], np.float32) * inside
        colour += rim * np.array([18, -34, -30], np.float32)
    else:
        light = np.clip(1 - np.hypot(du + 0.12, dv + 0.12) / radius, 0, 1)[..., None]
        colour = colour * (1 - 0.55 * inside) + 0.55 * inside * np.array([206, 92, 86], np.float32) + 70 * light * inside
        colour -= rim * 26
    vignette = np.clip(1.12 - 0.55 * (u**2 + v**2), 0, 1)[..., None] * (np.hypot(u, v) < 1.12)[..., None]
    return Image.fromarray(np.clip(colour * vignette, 0, 255).astype(np.uint8), "RGB")
