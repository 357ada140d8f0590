"""The tower against monai's own forward pass, its inflation, and its loader on files in monai's key layouts."""

import pickle

import pytest
import torch
from monai.networks.nets.swin_unetr import SwinTransformer
from safetensors.torch import save_file
from transformers import AutoModel

from gastricx_hf.models import auto
from gastricx_hf.models.swin3d import Swin3DConfig, Swin3DModel, inflate_patch_embedding, load_swin_weights

SMALL = {"volume_shape": (32, 32, 32), "feature_size": 12, "window_size": 4, "depths": (1, 1, 1, 1), "num_heads": (1, 2, 3, 4)}


def tower(**changes):
    torch.manual_seed(0)
    return Swin3DModel(Swin3DConfig(**(SMALL | changes))).eval()


def one_channel_state(depths=(1, 1, 1, 1)):
    torch.manual_seed(1)
    return SwinTransformer(1, 12, (4,) * 3, (2,) * 3, depths, (1, 2, 3, 4)).state_dict()


def old_keys(state, prefix):
    return {prefix + k.replace("mlp.linear1", "mlp.fc1").replace("mlp.linear2", "mlp.fc2"): v for k, v in state.items()}


@torch.no_grad()
def test_tokens_are_monais_last_feature_map():
    model, x = tower(num_structures=0), torch.randn(2, 4, 32, 32, 32)
    expected = model.swin(x)[-1].flatten(2).transpose(1, 2)
    out = model(x)
    torch.testing.assert_close(out.last_hidden_state, expected)
    torch.testing.assert_close(out.pooler_output, expected.mean(1))
    assert expected.shape == (2, 1, model.config.hidden_size)


@torch.no_grad()
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_an_earlier_stage_gives_the_same_features_as_the_whole_tower(stage):
    whole, part = tower(num_structures=0), tower(num_structures=0, swin_stage=stage)
    part.swin.load_state_dict(whole.swin.state_dict(), strict=False)
    x = torch.randn(1, 4, 32, 32, 32)
    tokens = part(x).last_hidden_state
    torch.testing.assert_close(tokens, whole.swin(x)[stage].flatten(2).transpose(1, 2))
    grid = part.config.grid
    assert tokens.shape == (1, grid[0] * grid[1] * grid[2], part.config.hidden_size)


def test_grid_of_the_papers_volume():
    assert Swin3DConfig().grid == (9, 9, 6)
    assert Swin3DConfig().hidden_size == 768


@torch.no_grad()
def test_a_missing_phase_is_silent_and_the_rest_keeps_the_scale():
    model, x = tower(), torch.randn(2, 4, 32, 32, 32)
    mask = torch.tensor([[1, 0, 1, 1], [1, 1, 1, 1]]).bool()
    dirty = x.clone()
    dirty[0, 1] = torch.nan
    torch.testing.assert_close(model(x, mask).last_hidden_state, model(dirty, mask).last_hidden_state)
    channels = model.input_channels(x, mask)
    torch.testing.assert_close(channels[0, [0, 2, 3]], x[0, [0, 2, 3]] * 4 / 3)
    torch.testing.assert_close(channels[1, :4], x[1])
    assert not channels[:, 4:].any()


@torch.no_grad()
def test_box_masks_are_channels_after_the_phases():
    model, x = tower(), torch.randn(1, 4, 32, 32, 32)
    boxes = torch.zeros(1, 3, 32, 32, 32)
    plain = model(x).last_hidden_state
    torch.testing.assert_close(plain, model(x, box_masks=boxes).last_hidden_state)
    boxes[0, 2, 4:12, 4:12, 4:12] = 1
    assert (plain - model(x, box_masks=boxes).last_hidden_state).abs().max() > 1e-3


def test_wrong_channels_are_named():
    model, x = tower(), torch.randn(1, 4, 32, 32, 32)
    with pytest.raises(ValueError, match="3 phases, the tower was built for 4"):
        model(x[:, :3])
    with pytest.raises(ValueError, match="2 channels, the tower was built for 3"):
        model(x, box_masks=x[:, :2])
    with pytest.raises(ValueError, match="case 0 of the batch has no phase"):
        model(x, torch.zeros(1, 4, dtype=torch.bool))


@torch.no_grad()
@pytest.mark.parametrize("present", [(1, 1, 1, 1), (0, 0, 1, 0), (1, 0, 1, 1)])
def test_inflation_is_the_identity_on_equal_phases(tmp_path, present):
    """The same volume in every present phase gives the one-channel model's features (notes: repeat and divide)."""
    state = one_channel_state()
    torch.save({"state_dict": old_keys(state, "module.")}, tmp_path / "swin.pt")
    model = tower()
    load_swin_weights(model, tmp_path / "swin.pt")
    single = SwinTransformer(1, 12, (4,) * 3, (2,) * 3, (1, 1, 1, 1), (1, 2, 3, 4)).eval()
    single.load_state_dict(state)
    x = torch.randn(1, 1, 32, 32, 32)
    mask = torch.tensor([present]).bool()
    expected = single(x)[-1].flatten(2).transpose(1, 2)
    torch.testing.assert_close(model(x.repeat(1, 4, 1, 1, 1), mask).last_hidden_state, expected, atol=1e-5, rtol=1e-4)


def test_new_box_channels_start_at_zero():
    weight = inflate_patch_embedding(torch.randn(5, 1, 2, 2, 2), num_phases=4, num_structures=3)
    assert weight.shape == (5, 7, 2, 2, 2)
    assert weight[:, :4].any()
    assert not weight[:, 4:].any()
    with pytest.raises(ValueError, match="4 input channels"):
        inflate_patch_embedding(torch.randn(5, 4, 2, 2, 2), 4)


@pytest.mark.parametrize("prefix", ["module.", "swinViT.", "module.swinViT.", ""])
def test_key_layouts_load_whole(tmp_path, prefix):
    state = old_keys(one_channel_state(), prefix)
    other = {"encoder1.layer.weight": torch.zeros(2)} if "swinViT" in prefix else {"module.rotation_head.weight": torch.zeros(4, 4)}
    save_file({k: v.contiguous() for k, v in (state | other).items()}, tmp_path / "swin.safetensors")
    model = tower()
    report = load_swin_weights(model, tmp_path / "swin.safetensors")
    assert (report.missing, report.mismatched) == ([], [])
    assert report.unexpected == ([] if "swinViT" in prefix else ["rotation_head.weight"])
    name = "layers2.0.blocks.0.mlp.linear1.weight"
    assert torch.equal(model.swin.state_dict()[name], state[prefix + name.replace("linear1", "fc1")])
    assert sorted(report.loaded) == sorted(k for k, _ in model.swin.named_parameters())


def test_a_checkpoint_that_does_not_fit_is_refused_and_changes_nothing(tmp_path):
    state = one_channel_state()
    del state["layers4.0.blocks.0.attn.qkv.weight"]
    state["layers1.0.blocks.0.norm1.weight"] = torch.ones(24)
    save_file(state, tmp_path / "swin.safetensors")
    model = tower()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    with pytest.raises(ValueError, match=r"3% of the tower's weights.*qkv.weight.*\(24,\) in the file, \(12,\) in the model"):
        load_swin_weights(model, tmp_path / "swin.safetensors")
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    report = load_swin_weights(model, tmp_path / "swin.safetensors", max_missing=0.05)
    assert report.missing == ["layers4.0.blocks.0.attn.qkv.weight"]
    assert len(report.mismatched) == 1


def test_a_pickle_that_runs_code_is_not_opened(tmp_path):
    class Harm:
        def __reduce__(self):
            return (print, ("run",))

    torch.save({"state_dict": Harm()}, tmp_path / "harm.pt")
    with pytest.raises(pickle.UnpicklingError):
        load_swin_weights(tower(), tmp_path / "harm.pt")


@torch.no_grad()
def test_save_and_load_through_auto_model(tmp_path):
    auto.register()
    model, x = tower(), torch.randn(1, 4, 32, 32, 32)
    model.save_pretrained(tmp_path)
    again = AutoModel.from_pretrained(tmp_path)
    assert type(again) is Swin3DModel
    assert torch.equal(model(x).last_hidden_state, again(x).last_hidden_state)


@torch.no_grad()
def test_stock_llava_takes_the_tower():
    from transformers import LlamaConfig, LlavaConfig, LlavaForConditionalGeneration

    auto.register()
    text = LlamaConfig(
        vocab_size=50, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2
    )
    vision = Swin3DConfig(**(SMALL | {"swin_stage": 3}))
    config = LlavaConfig(
        vision_config=vision, text_config=text, image_token_index=49, vision_feature_layer=-1, vision_feature_select_strategy="full"
    )
    model = LlavaForConditionalGeneration(config).eval()
    ids = torch.tensor([[1, *[49] * 8, 2, 3]])
    x = torch.randn(1, 4, 32, 32, 32)
    first = model(input_ids=ids, pixel_values=x).logits
    assert (first - model(input_ids=ids, pixel_values=-x).logits).abs().max() > 1e-4


@torch.no_grad()
def test_regions_are_the_mean_patch_and_the_place_of_the_boxes():
    model, x = tower(), torch.randn(2, 4, 32, 32, 32)
    boxes = torch.zeros(2, 3, 32, 32, 32)
    boxes[0, 1, 8:24, 4:8, 0:32] = 1
    boxes[1, 2, 0:2, 0:2, 0:2] = boxes[1, 2, 30:32, 0:2, 0:2] = 1  # two boxes of one structure are one region
    out = model(x, box_masks=boxes)
    assert out.region_mask.tolist() == [[False, True, False], [False, False, True]]
    assert not out.regions[~out.region_mask].any()
    patches = model.swin.patch_embed(model.input_channels(x, None, boxes))
    torch.testing.assert_close(out.regions[0, 1, :12], patches[0, :, 4:12, 2:4].mean((1, 2, 3)))
    torch.testing.assert_close(out.regions[1, 2, :12], (patches[1, :, 0, 0, 0] + patches[1, :, 15, 0, 0]) / 2)
    place = out.regions[0, 1, 12:].unflatten(0, (3, 7))
    torch.testing.assert_close(place[:, 6], 2 * torch.tensor([1.0, 0.25, 2.0]), atol=1e-4, rtol=0)  # 16, 4 and 32 of 32 voxels
    for axis, centre in enumerate((0.0, -0.625, 0.0)):
        angles = centre * torch.pi * torch.tensor([0.5, 1, 2])
        torch.testing.assert_close(place[axis, :6], torch.cat([angles.sin(), angles.cos()]), atol=1e-5, rtol=0)
    assert not model(x).region_mask.any()
