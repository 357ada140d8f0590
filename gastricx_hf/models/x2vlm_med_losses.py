"""Objectives of X2-VLM on tensors: contrast with several positives, hard negatives for matching, word masking, answer likelihood."""

from __future__ import annotations

import torch
import torch.nn.functional as F


def positive_pairs(num_cases: int, case_index: torch.Tensor, case_ids: torch.Tensor | None = None) -> torch.Tensor:
    """(C, B) bool: which text rows belong to which volume.

    `case_ids` (C,) names the patient of each volume, for batches that hold one patient more than once; without it volumes are patients.
    """
    ids = torch.arange(num_cases, device=case_index.device) if case_ids is None else case_ids.to(case_index.device)
    return ids[:, None] == ids[case_index][None]


def contrastive_loss(similarity: torch.Tensor, positive: torch.Tensor) -> torch.Tensor:
    """Symmetric cross-entropy in which a patient's rows share the probability (X2-VLM's ITC with ids).

    Args:
        similarity: (C, B), already divided by the temperature.
        positive: (C, B) bool.
    """
    target = positive.to(similarity.dtype)
    to_image = -(similarity.log_softmax(0) * target / target.sum(0, keepdim=True)).sum(0)
    with_text = positive.any(1)  # a volume without a text row has nothing to be contrasted with
    to_text = -(similarity.log_softmax(1) * target / target.sum(1, keepdim=True).clamp(min=1)).sum(1)[with_text]
    return (to_image.mean() + to_text.mean()) / 2


def hard_negatives(similarity: torch.Tensor, positive: torch.Tensor, case_index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """One other patient's volume and one other patient's text for every text row, drawn in proportion to the similarity.

    Returns:
        (B,) volume indices and (B,) text-row indices.

    Raises:
        ValueError: the batch holds one patient only.
    """
    if bool(positive.all()):
        raise ValueError("image-text matching needs at least two patients in a batch to find negatives")
    by_image = similarity.detach().float().softmax(0).masked_fill(positive, 0)
    by_text = similarity.detach().float().softmax(1).masked_fill(positive, 0)
    images = torch.multinomial((by_image + 1e-6 * ~positive).T, 1).squeeze(1)
    texts = torch.multinomial((by_text + 1e-6 * ~positive)[case_index], 1).squeeze(1)
    return images, texts


def mask_words(input_ids: torch.Tensor, special_ids: list[int], mask_token_id: int, probability: float):
    """Replace word pieces by [MASK], at least one in every row that has any.

    Returns:
        (B, L) masked ids, and (B, L) labels that are -100 where nothing was masked.
    """
    word = ~torch.isin(input_ids, torch.tensor(special_ids, device=input_ids.device))
    draw = torch.rand(input_ids.shape, device=input_ids.device).masked_fill(~word, 2.0)
    chosen = (draw < probability) | ((draw == draw.min(1, keepdim=True).values) & word)
    return input_ids.masked_fill(chosen, mask_token_id), input_ids.masked_fill(~chosen, -100)


def sequence_log_prob(logits: torch.Tensor, ids: torch.Tensor, counted: torch.Tensor) -> torch.Tensor:
    """(N,) summed log-probability of each answer.

    Args:
        logits: (N, A, V) of the decoder when fed `ids`; position t predicts token t + 1.
        ids: (N, A) start token, words, end token, padding.
        counted: (N, A) bool, which of `ids` are not padding; the start token is given, so it never counts.
    """
    log_probs = logits[:, :-1].float().log_softmax(-1).gather(-1, ids[:, 1:, None]).squeeze(-1)
    return (log_probs * counted[:, 1:]).sum(1)


def mean_cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Cross-entropy over the labels that are not -100; zero, not NaN, where there is none."""
    total = F.cross_entropy(logits.flatten(0, -2).float(), labels.flatten(), ignore_index=-100, reduction="sum")
    return total / (labels != -100).sum().clamp(min=1)
