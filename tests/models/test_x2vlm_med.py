"""The model: every objective, what it listens to, ranking and generation against the plain forward pass, exact saving."""

import pytest
import torch
from transformers import AutoModel, AutoModelForImageTextToText

from gastricx_hf.models import auto
from gastricx_hf.models.x2vlm_med import LOSSES, X2VLMMedModel


def with_targets(batch):
    torch.manual_seed(0)
    targets = {"boxes": 0.3 + 0.2 * torch.rand(4, 6), "box_present": torch.tensor([1, 1, 0, 1]), "stage": torch.tensor([0, 3, -100, 2])}
    return {**batch, **targets}


def test_every_objective_gives_finite_gradients_to_its_parts(fresh_model, batch):
    heads = {"itc": "itc_head", "itm": "itm_head", "mlm": "mlm_head", "box": "bbox_head", "stage": "stage_head", "vqa": "decoder"}
    assert set(heads) == set(LOSSES)
    for name, head in heads.items():
        model = fresh_model()
        losses = model.losses(with_targets(batch), [name])
        assert list(losses) == [name]
        losses[name].backward()
        reached = {n.split(".")[0] for n, p in model.named_parameters() if p.grad is not None and p.grad.any()}
        fused = set() if name == "itc" else {"fusion"}
        assert reached == {"vision_encoder", "vision_adapter", "text_encoder", head} | fused
        assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


def test_all_objectives_together_reach_every_parameter(fresh_model, batch):
    model = fresh_model()
    losses = model.losses(with_targets(batch))
    assert list(losses) == list(LOSSES)
    sum(losses.values()).backward()
    idle = [n for n, p in model.named_parameters() if p.grad is None]
    assert idle == ["decoder.cls.predictions.bias"]  # BLIP keeps a second name for the output bias, used where weights are tied


def test_unknown_objective_is_named(model, batch):
    with pytest.raises(ValueError, match="unknown losses"):
        model.losses(batch, ["itc", "captions"])


@torch.no_grad()
def test_forward_is_the_decoders_own_likelihood(model, batch, asked):
    out = model(**asked(batch))
    fused = model.read(batch)
    rows = [
        model.decoder(
            batch["labels"][i : i + 1, : (batch["labels"][i] != -100).sum()],
            encoder_hidden_states=fused[i : i + 1, : batch["attention_mask"][i].sum()],
            labels=batch["labels"][i : i + 1, : (batch["labels"][i] != -100).sum()],
            reduction="none",
        ).loss
        for i in range(4)
    ]
    torch.testing.assert_close(out.loss, torch.cat(rows).mean())
    assert model(**{k: v for k, v in asked(batch).items() if k != "labels"}).loss is None


@torch.no_grad()
def test_answer_depends_on_image_boxes_phases_and_table(model, make_batch, asked):
    batch = asked(make_batch())
    loss = model(**batch).loss
    image = batch | {"pixel_values": batch["pixel_values"].flip(2)}
    boxes = batch | {"box_masks": batch["box_masks"].roll(24, 2)}
    phases = batch | {"phase_mask": batch["phase_mask"].clone()}
    phases["phase_mask"][0, 2] = False
    words = ("where is the tumor?", "which phase? CEA 2.4 ng/mL", "is the tumor in the antrum?", "where?")
    table = asked(make_batch(questions=words))
    for changed in (image, boxes, phases, table):
        assert (model(**changed).loss - loss).abs() > 1e-4


@torch.no_grad()
def test_each_case_is_encoded_once_and_rows_find_theirs(model, batch, asked):
    calls = []
    handle = model.vision_encoder.register_forward_hook(lambda module, inputs, out: calls.append(len(inputs[0])))
    inputs = asked(batch)
    logits = model(**inputs).logits
    handle.remove()
    assert calls == [3]
    repeated = inputs | {name: inputs[name][inputs["case_index"]] for name in ("pixel_values", "phase_mask", "box_masks")}
    repeated["case_index"] = None
    torch.testing.assert_close(model(**repeated).logits, logits, atol=1e-5, rtol=1e-4)
    with pytest.raises(ValueError, match="4 text rows for 3 cases"):
        model(**(inputs | {"case_index": None}))
    tokens = model.encode_image(inputs["pixel_values"], inputs["phase_mask"], inputs["box_masks"]).tokens
    torch.testing.assert_close(model(**(inputs | {"pixel_values": None, "image_tokens": tokens})).logits, logits)


@torch.no_grad()
def test_padding_changes_nothing(model, batch, asked):
    inputs = asked(batch)
    padded = dict(inputs)
    for name, value in (("input_ids", 0), ("attention_mask", 0), ("labels", -100)):
        padded[name] = torch.nn.functional.pad(inputs[name], (0, 5), value=value)
    torch.testing.assert_close(model(**padded).loss, model(**inputs).loss)


@torch.no_grad()
def test_options_are_ranked_by_the_likelihood_of_the_forward_pass(model, batch, asked):
    scores = model.score_options(batch, batch["option_ids"], batch["option_mask"])
    each = model.score_options(batch, batch["option_ids"], batch["option_mask"], rows_at_once=2)
    torch.testing.assert_close(scores, each)
    assert scores.shape == (4, 3)
    assert torch.equal(scores == -torch.inf, ~batch["option_mask"])
    mean = model.score_options(batch, batch["option_ids"], batch["option_mask"], normalise=True)
    for k in range(3):
        ids = batch["option_ids"][:, k]
        rows = batch["option_mask"][:, k]
        for i in rows.nonzero().flatten().tolist():
            labels = torch.full_like(ids, -100)
            labels[i] = ids[i].masked_fill(ids[i] == 0, -100)
            loss = model(**(asked(batch) | {"labels": labels})).loss  # a mean over four rows of which three are empty
            torch.testing.assert_close(scores[i, k], -loss * 4)
            torch.testing.assert_close(mean[i, k], scores[i, k] / ((ids[i] != 0).sum() - 1))


@torch.no_grad()
def test_generation_is_greedy_decoding(model, batch):
    ids = model.generate_answer(batch, max_new_tokens=6)
    fused, expected = model.read(batch), torch.full((4, 1), model.config.bos_token_id)
    ended = torch.zeros(4, dtype=torch.bool)
    for _ in range(ids.shape[1] - 1):
        following = model.decode(expected, fused, batch["attention_mask"])[:, -1].argmax(-1).masked_fill(ended, 0)
        expected, ended = torch.cat([expected, following[:, None]], 1), ended | (following == model.config.eos_token_id)
    assert torch.equal(ids, expected)
    assert len(model.generate_answer(batch, max_new_tokens=3, num_beams=3)) == 4


@torch.no_grad()
def test_heads_give_probabilities_and_boxes(model, batch):
    assert model.stage(batch).shape == (4, 4)
    match = model.match(batch)
    assert match.shape == (4,)
    assert ((match > 0) & (match < 1)).all()
    boxes, scores = model.locate(batch)
    assert boxes.shape == (4, 6)
    assert ((boxes > 0) & (boxes < 1)).all()
    assert ((scores > 0) & (scores < 1)).all()
    embeds = model.encode_image(batch["pixel_values"]).embeds, model.encode_text(batch["input_ids"], batch["attention_mask"]).embeds
    for embed in embeds:
        torch.testing.assert_close(embed.norm(dim=1), torch.ones(len(embed)))


@torch.no_grad()
@pytest.mark.parametrize("tied", [False, True])
def test_saving_is_exact_and_safetensors_only(fresh_model, batch, asked, tmp_path, tied):
    auto.register()
    model = fresh_model(tie_word_embeddings=tied)
    model.save_pretrained(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["config.json", "model.safetensors"]
    for cls in (AutoModel, AutoModelForImageTextToText, X2VLMMedModel):
        again, report = cls.from_pretrained(tmp_path, output_loading_info=True)
        assert type(again) is X2VLMMedModel
        assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
        assert (again.eval()(**asked(batch)).logits - model(**asked(batch)).logits).abs().max() == 0
        shared = again.text_encoder.embeddings.word_embeddings.weight.data_ptr() == again.mlm_head[3].weight.data_ptr()
        assert shared == tied


def test_the_same_seed_gives_the_same_model(fresh_model):
    first, second = fresh_model().state_dict(), fresh_model().state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_it_learns_where_a_box_is(fresh_model, processor):
    """Overfits four cases that differ only in the box mask: the answer can come from nowhere else."""
    from types import SimpleNamespace

    import numpy as np

    torch.manual_seed(0)
    volumes, pixels = [], np.random.default_rng(0).normal(size=(4, 64, 64, 32)).astype(np.float32)
    for corner in range(4):
        box = np.zeros((3, 64, 64, 32), np.uint8)
        box[0, 32 * (corner // 2) : 32 * (corner // 2) + 24, 32 * (corner % 2) : 32 * (corner % 2) + 24, 8:24] = 1
        volumes.append(SimpleNamespace(pixel_values=pixels, phase_mask=np.ones(4, bool), box_mask=box))
    batch = processor(["where is the tumor?"] * 4, volumes, answers=["antrum", "venous", "phase", "limit"])
    model = fresh_model().train()
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3)
    for _ in range(60):
        loss = model(**batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.7  # blind to the box it cannot get below log 4 = 1.39
