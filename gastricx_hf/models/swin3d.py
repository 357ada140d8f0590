"""A 3D Swin tower over contrast phases: monai's SwinTransformer behind the transformers interface.

Phases are channels (early fusion), followed by one box-mask channel per structure. Axis order is nibabel's (i, j, k),
so that boxes and volumes never need a flip.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import nn
from transformers import initialization as init
from transformers.configuration_utils import PreTrainedConfig
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.modeling_utils import PreTrainedModel

PLACE_SIZE = 3 * 7
"""Numbers that say where a region lies: `place_code` of the centre and the size, for each axis."""


class Swin3DConfig(PreTrainedConfig):
    """Sizes of the tower; the defaults are the paper's volume (P36) and monai's self-supervised Swin (feature size 48).

    Attributes:
        num_phases: contrast phases, the first input channels.
        num_structures: box-mask channels after them (schema.Structure order); 0 for a tower without boxes.
        volume_shape: voxels along (i, j, k).
        swin_stage: how many stages are built, 1..4; the output of the last one gives the tokens. Each stage halves the grid
            and doubles the width, after a first reduction by `patch_size`.
        use_checkpoint: recompute activations in the backward pass, for less memory.
    """

    model_type = "gastricx-swin3d"

    num_phases: int = 4
    num_structures: int = 3
    volume_shape: tuple[int, int, int] | list[int] = (288, 288, 192)
    feature_size: int = 48
    patch_size: int = 2
    window_size: int = 7
    depths: tuple[int, ...] | list[int] = (2, 2, 2, 2)
    num_heads: tuple[int, ...] | list[int] = (3, 6, 12, 24)
    swin_stage: int = 4
    dropout: float = 0.0
    use_checkpoint: bool = False
    initializer_range: float = 0.02

    @property
    def hidden_size(self) -> int:
        """Width of one token."""
        return self.feature_size * 2**self.swin_stage

    @property
    def grid(self) -> tuple[int, int, int]:
        """Tokens along (i, j, k) for a volume of `volume_shape`."""
        sizes = [-(-n // self.patch_size) for n in self.volume_shape]
        for _ in range(self.swin_stage):
            sizes = [-(-n // 2) for n in sizes]
        return tuple(sizes)


@dataclass
class Swin3DOutput(BaseModelOutputWithPooling):
    """As `BaseModelOutputWithPooling`, and what lies inside the boxes.

    Attributes:
        regions: (C, S, feature_size + PLACE_SIZE) per structure the mean patch embedding inside its boxes, then for each axis their
            centre (`place_code`) and twice their size in half lengths of the volume; None for a tower without structures.
        region_mask: (C, S) bool, whether the structure has a box.
    """

    regions: torch.Tensor | None = None
    region_mask: torch.Tensor | None = None


class Swin3DModel(PreTrainedModel):
    """Volumes to tokens. `AutoModel` builds it from its configuration, so stock classes such as LLaVA can hold it as a tower."""

    config_class = Swin3DConfig
    base_model_prefix = "swin3d"
    main_input_name = "pixel_values"
    input_modalities = ("image",)

    def __init__(self, config: Swin3DConfig):
        super().__init__(config)
        from monai.networks.nets.swin_unetr import SwinTransformer  # seconds to import, so only where a tower is built

        self.swin = SwinTransformer(
            in_chans=config.num_phases + config.num_structures,
            embed_dim=config.feature_size,
            window_size=(config.window_size,) * 3,
            patch_size=(config.patch_size,) * 3,
            depths=tuple(config.depths)[: config.swin_stage],
            num_heads=tuple(config.num_heads)[: config.swin_stage],
            drop_rate=config.dropout,
            use_checkpoint=config.use_checkpoint,
        )
        patches = [-(-n // config.patch_size) for n in config.volume_shape]
        # monai's Swin knows only relative places inside a window; "where" needs an embedding per axis, zero until trained
        self.positions = nn.ModuleList(nn.Embedding(n, config.feature_size) for n in patches)
        self.post_init()

    def _init_weights(self, module):
        super()._init_weights(module)
        if any(module is axis for axis in self.positions):
            init.zeros_(module.weight)
        table = getattr(module, "relative_position_bias_table", None)
        if table is not None:
            init.trunc_normal_(table, std=0.02)

    def input_channels(self, pixel_values, phase_mask=None, box_masks=None) -> torch.Tensor:
        """Join phases and box masks into channels (C, P + S, X, Y, Z).

        A missing phase is silenced whatever it holds, and the present ones are scaled by P / number present, so that the
        activations of the patch embedding keep their scale.

        Raises:
            ValueError: the number of phases or structures is not the configuration's, or a case has no phase at all.
        """
        cfg, (cases, phases) = self.config, pixel_values.shape[:2]
        if phases != cfg.num_phases:
            raise ValueError(f"pixel_values has {phases} phases, the tower was built for {cfg.num_phases} (num_phases)")
        if phase_mask is not None:
            present = phase_mask.to(pixel_values.device).bool()
            if not present.any(1).all():
                raise ValueError(f"phase_mask: case {int((~present.any(1)).nonzero()[0])} of the batch has no phase at all")
            scale = (phases / present.sum(1, keepdim=True)).to(pixel_values.dtype)[:, :, None, None, None]
            pixel_values = torch.where(present[:, :, None, None, None], pixel_values * scale, pixel_values.new_zeros(()))
        if cfg.num_structures == 0:
            return pixel_values
        if box_masks is None:
            box_masks = pixel_values.new_zeros(cases, cfg.num_structures, *pixel_values.shape[2:])
        elif box_masks.shape[1] != cfg.num_structures:
            raise ValueError(f"box_masks has {box_masks.shape[1]} channels, the tower was built for {cfg.num_structures} (num_structures)")
        return torch.cat([pixel_values, box_masks.to(pixel_values.dtype)], 1)

    def forward(self, pixel_values, phase_mask=None, box_masks=None, **kwargs) -> Swin3DOutput:
        """Encode volumes.

        Args:
            pixel_values: (C, P, X, Y, Z) z-scored; a missing phase is zero-filled.
            phase_mask: (C, P) bool, which phases are present; None means all.
            box_masks: (C, S, X, Y, Z), 1 inside a box; None means no boxes are given.

        Returns:
            last_hidden_state (C, I*J*K, hidden_size), the grid flattened with k fastest; pooler_output their mean; hidden_states holds
            the same tokens once, for classes that pick a layer (LLaVA: `vision_feature_layer=-1`, strategy "full").
        """
        pixel_values = pixel_values.to(self.swin.patch_embed.proj.weight.dtype)
        x = self.swin.patch_embed(self.input_channels(pixel_values, phase_mask, box_masks))
        i, j, k = (axis.weight.T for axis in self.positions)
        x = x + (i[:, :, None, None] + j[:, None, :, None] + k[:, None, None, :])
        regions, region_mask = self.pool_regions(x, box_masks) if self.config.num_structures else (None, None)
        # monai's own forward always runs four stages and normalises every one: here only what is built and used
        for stage in range(self.config.swin_stage):
            x = getattr(self.swin, f"layers{stage + 1}")[0](x.contiguous())
        tokens = self.swin.proj_out(x, normalize=True).flatten(2).transpose(1, 2)
        return Swin3DOutput(
            last_hidden_state=tokens, pooler_output=tokens.mean(1), hidden_states=(tokens,), regions=regions, region_mask=region_mask
        )

    def pool_regions(self, patches, box_masks=None) -> tuple[torch.Tensor, torch.Tensor]:
        """Describe what lies inside each structure's boxes, X2-VLM's region encoding with masks in place of single boxes.

        Args:
            patches: (C, feature_size, I, J, K) patch embeddings. Pooling them, before any merging, keeps small lesions apart from what
                surrounds them.
            box_masks: (C, S, X, Y, Z) or None.

        Returns:
            `regions` and `region_mask` of `Swin3DOutput`; several boxes of a structure count as one region.
        """
        if box_masks is None:
            shape = len(patches), self.config.num_structures
            return patches.new_zeros(*shape, patches.shape[1] + PLACE_SIZE), torch.zeros(shape, dtype=torch.bool, device=patches.device)
        size = self.config.patch_size
        share = nn.functional.avg_pool3d(box_masks.to(patches.dtype), size, size, ceil_mode=True)
        total = share.sum((2, 3, 4))
        share = share / total.clamp(min=1e-6)[:, :, None, None, None]
        found = [torch.einsum("csijk,cfijk->csf", share, patches)]
        for axis, length in enumerate(patches.shape[2:]):
            places = (torch.arange(length, device=patches.device, dtype=patches.dtype) + 0.5) * (2 / length) - 1
            profile = share.sum([2 + other for other in range(3) if other != axis])
            centre = profile @ places
            spread = (profile @ places.square() - centre.square()).clamp(min=0)
            width = (12 * spread + 4 / length**2).sqrt()  # a uniform box of width w has a variance of w^2 / 12
            found.append(torch.cat([place_code(centre), 2 * width[:, :, None]], 2))
        return torch.cat(found, 2) * (total > 0)[:, :, None], total > 0


def place_code(centre: torch.Tensor) -> torch.Tensor:
    """Sine and cosine of half, one and two half-turns over an axis, (...) in -1..1 -> (..., 6).

    A network reads "in the middle third" off these at once; off the bare coordinate it takes several times as many steps.
    """
    angles = centre[..., None] * torch.pi * torch.tensor([0.5, 1.0, 2.0], device=centre.device, dtype=centre.dtype)
    return torch.cat([angles.sin(), angles.cos()], -1)


def inflate_patch_embedding(weight: torch.Tensor, num_phases: int, num_structures: int = 0) -> torch.Tensor:
    """Turn a patch embedding for one channel (F, 1, p, p, p) into one for phases and box masks (F, P + S, p, p, p).

    Phases get the weight divided by P, so that the same volume in every phase gives the one-channel output; box masks get zeros, so
    that they change nothing until they are trained.
    """
    if weight.shape[1] != 1:
        raise ValueError(f"patch embedding has {weight.shape[1]} input channels: only a one-channel one can be inflated")
    phases = weight.repeat(1, num_phases, 1, 1, 1) / num_phases
    return torch.cat([phases, phases.new_zeros(phases.shape[0], num_structures, *phases.shape[2:])], 1)


@dataclass
class LoadReport:
    """What a checkpoint gave a model, by key of the model."""

    loaded: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    mismatched: list[str] = field(default_factory=list)


def load_swin_weights(model: Swin3DModel, path: str | Path, max_missing: float = 0.0) -> LoadReport:
    """Load a one-channel monai Swin (self-supervised `model_swinvit.pt`, BTCV Swin UNETR, VoCo) into a tower.

    Understands keys under `module.`, `swinViT.` and `backbone.`, and monai's older names of the two MLP layers. The first convolution is
    inflated when it has one channel.

    Args:
        path: a `.safetensors` file, or a torch file, which is read with `weights_only=True`.
        max_missing: largest share of the tower's parameters that may be absent or of another shape.

    Raises:
        ValueError: more than that is missing; nothing has been loaded then.
    """
    state, target = _swin_state(Path(path)), model.swin.state_dict()
    first = "patch_embed.proj.weight"
    if first in state and state[first].shape[1] == 1:
        state[first] = inflate_patch_embedding(state[first], model.config.num_phases, model.config.num_structures)
    report = LoadReport(unexpected=sorted(state.keys() - target.keys()))
    for name, _ in model.swin.named_parameters():
        if name not in state:
            report.missing.append(name)
        elif state[name].shape != target[name].shape:
            report.mismatched.append(f"{name}: {tuple(state[name].shape)} in the file, {tuple(target[name].shape)} in the model")
        else:
            report.loaded.append(name)
    lost = 1 - len(report.loaded) / len(report.loaded + report.missing + report.mismatched)
    if lost > max_missing:
        raise ValueError(
            f"{path}: {lost:.0%} of the tower's weights are not in it (allowed {max_missing:.0%}); "
            f"missing {report.missing[:5]}, of another shape {report.mismatched[:3]}, unknown {report.unexpected[:5]}. "
            "Check feature_size, depths and window_size against the checkpoint."
        )
    model.swin.load_state_dict({name: state[name] for name in report.loaded}, strict=False)
    return report


def _swin_state(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a checkpoint under monai's names, without those of other parts of a Swin UNETR."""
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        state = load_file(path)
    else:
        state = torch.load(path, map_location="cpu", weights_only=True)
        state = state.get("state_dict", state)
    state = {re.sub(r"^(module\.|backbone\.)+", "", k): v for k, v in state.items() if isinstance(v, torch.Tensor)}
    if any(k.startswith("swinViT.") for k in state):
        state = {k.removeprefix("swinViT."): v for k, v in state.items() if k.startswith("swinViT.")}
    return {k.replace("mlp.fc1.", "mlp.linear1.").replace("mlp.fc2.", "mlp.linear2."): v for k, v in state.items()}


AUTO = {"AutoConfig": Swin3DConfig, "AutoModel": Swin3DModel}
"""What models/auto.py registers for this file."""
