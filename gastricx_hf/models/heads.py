"""Small parts on top of the encoders: vision adapter, X2-VLM heads, 3D boxes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class VisionAdapter(nn.Module):
    """Tower tokens to the width of the text, with absolute positions and a mean token in front.

    monai's Swin knows only relative positions inside a window, so "where" needs an embedding per axis, summed (factorised: 9+9+6 vectors
    for the full grid, not 486). The mean of all tokens is prepended as CLS, since Swin has none, and two tokens for each structure are
    appended: what lies inside its boxes and where that is, or that it has none. In one token the louder of the two hides the other from a
    model that starts at random.
    """

    def __init__(self, in_size: int, out_size: int, grid: tuple[int, int, int], region_sizes=(0, 0), num_structures: int = 0):
        super().__init__()
        self.norm = nn.LayerNorm(in_size)
        self.linear = nn.Linear(in_size, out_size)
        self.position_i = nn.Embedding(grid[0], out_size)
        self.position_j = nn.Embedding(grid[1], out_size)
        self.position_k = nn.Embedding(grid[2], out_size)
        self.out_norm = nn.LayerNorm(out_size)
        self.region_sizes = tuple(region_sizes)
        if num_structures:
            self.content, self.place = (nn.Linear(size, out_size) for size in region_sizes)
            self.structure = nn.Embedding(2 * num_structures, out_size)
            self.no_region = nn.Embedding(2 * num_structures, out_size)

    def forward(self, tokens: torch.Tensor, regions: torch.Tensor | None = None, region_mask: torch.Tensor | None = None) -> torch.Tensor:
        """(C, I*J*K, in_size) -> (C, 1 + I*J*K + 2 S, out_size); regions and region_mask as `Swin3DOutput`.

        Raises:
            ValueError: the number of tokens is not that of the configured volume shape.
        """
        i, j, k = self.position_i.weight, self.position_j.weight, self.position_k.weight
        if tokens.shape[1] != len(i) * len(j) * len(k):
            raise ValueError(
                f"{tokens.shape[1]} tokens for a grid of {len(i)}x{len(j)}x{len(k)}: pixel_values must have the configured volume_shape"
            )
        positions = (i[:, None, None] + j[None, :, None] + k[None, None]).flatten(0, 2)
        x = self.out_norm(self.linear(self.norm(tokens)) + positions)
        parts = [x.mean(1, keepdim=True), x]
        if regions is not None:
            content, place = regions.split(self.region_sizes, 2)
            described = torch.cat([self.content(content), self.place(place)], 1) + self.structure.weight
            parts.append(self.out_norm(torch.where(region_mask.repeat(1, 2)[:, :, None], described, self.no_region.weight)))
        return torch.cat(parts, 1)


class ContrastiveHead(nn.Module):
    """Image and text CLS to one unit-length space, with the learnt temperature of X2-VLM (clamped to 0.001..0.5)."""

    def __init__(self, hidden_size: int, embed_dim: int, temperature: float):
        super().__init__()
        self.vision_proj = nn.Linear(hidden_size, embed_dim)
        self.text_proj = nn.Linear(hidden_size, embed_dim)
        self.initial_temperature = temperature
        self.temperature = nn.Parameter(torch.tensor(float(temperature)))

    def image(self, tokens: torch.Tensor) -> torch.Tensor:
        """Adapted tokens (C, V, D) -> (C, E)."""
        return F.normalize(self.vision_proj(tokens[:, 0]), dim=-1)

    def text(self, hidden: torch.Tensor) -> torch.Tensor:
        """Text states (B, L, D) -> (B, E)."""
        return F.normalize(self.text_proj(hidden[:, 0]), dim=-1)

    def similarity(self, image_embeds: torch.Tensor, text_embeds: torch.Tensor) -> torch.Tensor:
        """(C, E), (B, E) -> (C, B), divided by the temperature."""
        return image_embeds @ text_embeds.T / self.temperature.clamp(0.001, 0.5)


def mlp_head(hidden_size: int, out_size: int) -> nn.Sequential:
    """Linear(d, 2d), LayerNorm, GELU, Linear(2d, out), as X2-VLM's matching, box and class heads."""
    return nn.Sequential(
        nn.Linear(hidden_size, 2 * hidden_size), nn.LayerNorm(2 * hidden_size), nn.GELU(), nn.Linear(2 * hidden_size, out_size)
    )


class MaskedWordHead(nn.Sequential):
    """Hidden states to vocabulary logits: Linear, GELU, LayerNorm, Linear (BERT's masked-word head)."""

    def __init__(self, hidden_size: int, vocab_size: int):
        super().__init__(nn.Linear(hidden_size, hidden_size), nn.GELU(), nn.LayerNorm(hidden_size), nn.Linear(hidden_size, vocab_size))


def centre_to_corner(boxes: torch.Tensor) -> torch.Tensor:
    """(N, 6) centre and size -> (N, 6) minimum and maximum corner, both (i, j, k)."""
    centre, size = boxes[:, :3], boxes[:, 3:]
    return torch.cat([centre - size / 2, centre + size / 2], 1)


def corner_to_centre(boxes: torch.Tensor) -> torch.Tensor:
    """(N, 6) minimum and maximum corner -> (N, 6) centre and size, both (i, j, k)."""
    low, high = boxes[:, :3], boxes[:, 3:]
    return torch.cat([(low + high) / 2, high - low], 1)


def box_loss(predicted: torch.Tensor, target: torch.Tensor, objectness: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
    """L1 + (1 - GIoU) on the boxes that exist (both weight 1, as X2-VLM), plus an objectness term that learns each box's IoU.

    Args:
        predicted, target: (N, 6) centre and size relative to the volume, 0..1.
        objectness: (N,) logit; its target is the IoU of the predicted box, 0 where there is nothing to find, so it can rank boxes for AP.
        present: (N,) bool, whether the structure exists.
    """
    from monai.data.box_utils import box_pair_giou

    present = present.bool()
    goal = torch.zeros_like(objectness)
    loss = predicted.sum() * 0.0  # keeps the graph where no box exists in the batch
    if present.any():
        ours, truth = centre_to_corner(predicted[present]), centre_to_corner(target[present])
        loss = loss + F.l1_loss(predicted[present], target[present]) * 6 + (1 - box_pair_giou(ours, truth)).mean()
        goal[present] = box_iou_pairs(ours.detach(), truth)
    return loss + F.binary_cross_entropy_with_logits(objectness, goal)


def box_iou_pairs(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """(N, 6) and (N, 6) corners -> (N,) intersection over union."""
    low, high = torch.maximum(first[:, :3], second[:, :3]), torch.minimum(first[:, 3:], second[:, 3:])
    shared = (high - low).clamp(min=0).prod(1)
    volume = sum((b[:, 3:] - b[:, :3]).clamp(min=0).prod(1) for b in (first, second))
    return shared / (volume - shared).clamp(min=1e-9)
