"""Boxes against monai's, the adapter's positions, the contrastive space."""

import pytest
import torch
from monai.data.box_utils import box_giou, box_iou

from gastricx_hf.models.heads import ContrastiveHead, VisionAdapter, box_iou_pairs, box_loss, centre_to_corner, corner_to_centre


def boxes(n, seed=0):
    torch.manual_seed(seed)
    return torch.cat([0.3 + 0.4 * torch.rand(n, 3), 0.1 + 0.3 * torch.rand(n, 3)], 1)


def test_centre_and_corner_are_inverse():
    assert centre_to_corner(torch.tensor([[5.0, 6, 7, 2, 4, 6]])).tolist() == [[4, 4, 4, 6, 8, 10]]
    torch.testing.assert_close(corner_to_centre(centre_to_corner(boxes(5))), boxes(5))


def test_pairwise_iou_is_monais():
    a, b = centre_to_corner(boxes(6)), centre_to_corner(boxes(6, seed=1))
    torch.testing.assert_close(box_iou_pairs(a, b), box_iou(a, b).diagonal())
    assert box_iou_pairs(a[:1], a[:1] + 9).item() == 0


def test_box_loss_by_hand():
    predicted, target = boxes(3), boxes(3, seed=1)
    logit, present = torch.tensor([0.3, -0.2, 1.0]), torch.tensor([1, 0, 1]).bool()
    a, b = centre_to_corner(predicted)[present], centre_to_corner(target)[present]
    l1 = (predicted - target)[present].abs().sum(1).mean()
    goal = torch.zeros(3)
    goal[present] = box_iou(a, b).diagonal()
    objectness = torch.nn.functional.binary_cross_entropy(logit.sigmoid(), goal)
    expected = l1 + (1 - box_giou(a, b).diagonal()).mean() + objectness
    torch.testing.assert_close(box_loss(predicted, target, logit, present), expected)


def test_box_loss_without_any_box_teaches_only_the_score():
    predicted = boxes(2).requires_grad_()
    logit = torch.zeros(2, requires_grad=True)
    box_loss(predicted, boxes(2), logit, torch.zeros(2)).backward()
    assert not predicted.grad.any()
    assert (logit.grad > 0).all()


def test_adapter_tells_places_apart_and_puts_their_mean_first():
    torch.manual_seed(0)
    adapter = VisionAdapter(6, 8, (2, 3, 4))
    tokens = torch.randn(2, 1, 6).expand(2, 24, 6)
    out = adapter(tokens)
    assert out.shape == (2, 25, 8)
    torch.testing.assert_close(out[:, 0], out[:, 1:].mean(1))
    assert len(torch.unique(out[0, 1:].round(decimals=4), dim=0)) == 24
    with pytest.raises(ValueError, match="23 tokens for a grid of 2x3x4"):
        adapter(tokens[:, 1:])


def test_regions_become_two_tokens_each_or_say_that_there_is_none():
    torch.manual_seed(0)
    adapter = VisionAdapter(6, 8, (1, 1, 2), region_sizes=(3, 4), num_structures=2)
    tokens, regions, present = torch.randn(2, 2, 6), torch.randn(2, 2, 7), torch.tensor([[1, 0], [1, 1]]).bool()
    out = adapter(tokens, regions, present)
    assert out.shape == (2, 3 + 4, 8)
    torch.testing.assert_close(out[:, :3], adapter(tokens))
    moved = regions.clone()
    moved[0, :, 3:] += 1  # another place, the same content
    changed = (adapter(tokens, moved, present) - out).abs().amax(2) > 1e-4
    assert changed.tolist() == [[False, False, False, False, False, True, False], [False] * 7]  # structure 1 of case 0 has no box


def test_positions_follow_the_flattening_of_the_grid():
    adapter = VisionAdapter(1, 8, (2, 3, 4))
    with torch.no_grad():
        adapter.linear.weight.zero_()
        adapter.position_i.weight.zero_()
        adapter.position_j.weight.zero_()
    out = adapter(torch.zeros(1, 24, 1))[0, 1:].unflatten(0, (2, 3, 4))
    torch.testing.assert_close(out, out[:1, :1].expand(2, 3, 4, 8))  # only k matters
    assert (out[0, 0, 0] - out[0, 0, 1]).abs().max() > 1e-3


def test_similarity_is_cosine_over_a_clamped_temperature():
    head = ContrastiveHead(8, 4, temperature=0.07)
    image, text = head.image(torch.randn(2, 5, 8)), head.text(torch.randn(3, 6, 8))
    torch.testing.assert_close(
        head.similarity(image, text), torch.nn.functional.cosine_similarity(image[:, None], text[None], dim=-1) / 0.07
    )
    with torch.no_grad():
        head.temperature.fill_(-1)
    torch.testing.assert_close(head.similarity(image, text), image @ text.T / 0.001)
