"""The objectives against plain cross-entropy, against BLIP's own likelihood, and by hand."""

import pytest
import torch
import torch.nn.functional as F
from transformers.models.blip.configuration_blip import BlipTextConfig
from transformers.models.blip.modeling_blip_text import BlipTextLMHeadModel

from gastricx_hf.models.x2vlm_med_losses import (
    contrastive_loss,
    hard_negatives,
    mask_words,
    mean_cross_entropy,
    positive_pairs,
    sequence_log_prob,
)


def test_positives_by_case_and_by_patient():
    index = torch.tensor([0, 1, 1])
    assert positive_pairs(2, index).tolist() == [[True, False, False], [False, True, True]]
    assert positive_pairs(2, index, case_ids=torch.tensor([7, 7])).all()


def test_one_text_per_case_is_clips_loss():
    torch.manual_seed(0)
    similarity, target = torch.randn(5, 5), torch.arange(5)
    expected = (F.cross_entropy(similarity, target) + F.cross_entropy(similarity.T, target)) / 2
    torch.testing.assert_close(contrastive_loss(similarity, torch.eye(5).bool()), expected)


def test_several_texts_of_a_case_share_the_probability():
    similarity, positive = torch.zeros(3, 3), torch.tensor([[1, 1, 0], [0, 0, 1], [0, 0, 0]]).bool()
    torch.testing.assert_close(contrastive_loss(similarity, positive), torch.tensor(3.0).log())  # uniform, case 2 has no text
    sure = torch.tensor([[9.0, 9, -9], [-9, -9, 9], [-9, -9, -9]])
    expected = (0 + (torch.tensor(2.0).log() + 0) / 2) / 2  # text finds its case; case 0 is split over two texts
    torch.testing.assert_close(contrastive_loss(sure, positive), expected, atol=1e-4, rtol=0)


def test_negatives_are_never_the_same_patient_and_prefer_the_similar():
    torch.manual_seed(0)
    index = torch.arange(4).repeat_interleave(2)
    positive = positive_pairs(4, index)
    similarity = torch.zeros(4, 8)
    similarity[1, 0] = 9.0  # volume 1 looks like text 0, which belongs to case 0
    drawn = [hard_negatives(similarity, positive, index) for _ in range(50)]
    images, texts = (torch.stack(x) for x in zip(*drawn, strict=True))
    rows = torch.arange(8)
    assert not positive[images, rows].any()
    assert not positive[index, texts].any()
    assert (images[:, 0] == 1).float().mean() > 0.9
    assert (texts[:, 2] == 0).float().mean() > 0.9  # row 2 belongs to case 1
    with pytest.raises(ValueError, match="at least two patients"):
        hard_negatives(similarity[:1], torch.ones(1, 8).bool(), index * 0)


def test_a_hopeless_negative_can_still_be_drawn():
    similarity = torch.tensor([[900.0, -900.0], [-900.0, 900.0]])
    images, texts = hard_negatives(similarity, torch.eye(2).bool(), torch.arange(2))
    assert (images.tolist(), texts.tolist()) == ([1, 0], [1, 0])


def test_masking_spares_special_tokens_and_masks_one_word_at_least():
    torch.manual_seed(0)
    ids = torch.randint(10, 99, (200, 22))
    ids[:, 0], ids[:, -2], ids[:, -1] = 2, 3, 0
    masked, labels = mask_words(ids, [0, 2, 3, 4], 4, 0.5)
    chosen = labels != -100
    assert not chosen[:, [0, -2, -1]].any()
    assert torch.equal(masked == 4, chosen)
    assert torch.equal(torch.where(chosen, labels, masked), ids)
    assert 0.45 < chosen[:, 1:-2].float().mean() < 0.55
    assert (mask_words(ids, [0, 2, 3, 4], 4, 0.0)[1] != -100).sum(1).tolist() == [1] * 200
    assert not (mask_words(torch.tensor([[2, 3, 0]]), [0, 2, 3, 4], 4, 0.5)[1] != -100).any()


def test_likelihood_is_that_of_blips_own_decoder():
    torch.manual_seed(0)
    config = BlipTextConfig(
        vocab_size=30, hidden_size=16, encoder_hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        bos_token_id=2, eos_token_id=3, sep_token_id=3, pad_token_id=0,
    )  # fmt: skip
    decoder, states = BlipTextLMHeadModel(config).eval(), torch.randn(3, 7, 16)
    ids = torch.tensor([[2, 9, 8, 3], [2, 9, 3, 0], [2, 3, 0, 0]])
    out = decoder(ids, encoder_hidden_states=states, labels=ids.masked_fill(ids == 0, -100), reduction="none")
    torch.testing.assert_close(-sequence_log_prob(out.logits, ids, ids != 0), out.loss)


def test_nothing_to_learn_is_zero_not_nan():
    logits = torch.randn(2, 3, requires_grad=True)
    loss = mean_cross_entropy(logits, torch.tensor([-100, -100]))
    loss.backward()
    assert loss.item() == 0
    torch.testing.assert_close(mean_cross_entropy(logits, torch.tensor([1, -100])), F.cross_entropy(logits[:1], torch.tensor([1])))
