"""The verbs, new models by size, and LoRA on the declared targets."""

import re

import numpy as np
import pytest
import torch

from gastricx_hf.models.x2vlm_med_adapter import X2VLMMedAdapter


@pytest.fixture
def adapter(fresh_model, processor):
    return X2VLMMedAdapter(fresh_model(), processor)


def test_verbs_give_arrays_and_leave_the_mode_alone(adapter, batch):
    adapter.model.train()
    scores = adapter.score_options(batch)
    assert adapter.model.training
    assert scores.shape == (4, 3)
    assert np.isneginf(scores).tolist() == (~batch["option_mask"]).tolist()
    probabilities = np.exp(scores[0, :2] - np.logaddexp.reduce(scores[0, :2]))
    assert probabilities.sum() == pytest.approx(1)
    assert all(isinstance(text, str) for text in adapter.generate(batch, max_new_tokens=3))
    assert adapter.encode_image(batch).shape == (3, 32)
    assert adapter.encode_text(batch).shape == (4, 32)
    assert adapter.match(batch).shape == (4,)
    np.testing.assert_allclose(adapter.stage(batch).sum(1), 1, rtol=1e-5)
    boxes, found = adapter.locate(batch)
    assert (boxes.shape, found.shape) == ((4, 6), (4,))


def test_loss_has_a_gradient(adapter, batch):
    loss = adapter.loss(batch)
    loss.backward()
    assert loss.item() > 0
    assert adapter.model.vision_encoder.swin.patch_embed.proj.weight.grad.any()


def test_new_tiny_model_fits_the_standardisation():
    adapter = X2VLMMedAdapter.create("tiny", {"shape": [32, 32, 32], "spacing": [6, 6, 8]}, ["where is the tumor"] * 3)
    assert adapter.model.config.volume_shape == (32, 32, 32)
    assert adapter.model.config.text_config.vocab_size == len(adapter.processor.tokenizer)
    assert adapter.processor.preprocessing["spacing"] == [6, 6, 8]
    assert adapter.processor.max_length == adapter.model.config.text_config.max_position_embeddings
    with pytest.raises(ValueError, match="no size 'huge'"):
        X2VLMMedAdapter.create("huge", {"shape": [32, 32, 32]}, [])


def test_lora_targets_are_the_linear_layers_of_the_text_side(fresh_model):
    names = {name for name, module in fresh_model().named_modules() if isinstance(module, torch.nn.Linear)}
    chosen = {name for name in names if re.fullmatch(X2VLMMedAdapter.LORA_TARGETS, name)}
    assert {name.split(".")[0] for name in chosen} == {"text_encoder", "fusion", "decoder"}
    assert "fusion.encoder.layer.0.crossattention.self.key" in chosen
    assert "decoder.bert.encoder.layer.0.output.dense" in chosen
    assert {n for n in names - chosen if n.startswith(("text", "fusion", "dec"))} == {
        "decoder.cls.predictions.transform.dense",
        "decoder.cls.predictions.decoder",
    }


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")
def test_lora_trains_saves_and_merges(fresh_model, batch, asked, tmp_path):
    from peft import LoraConfig, PeftModel, get_peft_model

    config = LoraConfig(r=4, target_modules=X2VLMMedAdapter.LORA_TARGETS, modules_to_save=X2VLMMedAdapter.fresh_modules(fresh_model()))
    model = get_peft_model(fresh_model(), config)
    frozen = [n for n, p in model.named_parameters() if not p.requires_grad and "base_layer" not in n and "original_module" not in n]
    assert frozen == ["base_model.model.decoder.cls.predictions.bias"]  # not used where embeddings are not tied
    inputs, losses = asked(batch), []
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 3e-3)
    for _ in range(6):
        loss = model(**inputs).loss
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[-1] < losses[0] - 1
    model.eval()
    with torch.no_grad():
        logits = model(**inputs).logits
        model.save_pretrained(tmp_path)
        again = PeftModel.from_pretrained(fresh_model(), tmp_path).eval()
        assert (again(**inputs).logits - logits).abs().max() == 0
        merged = model.merge_and_unload()
        torch.testing.assert_close(merged(**inputs).logits, logits, atol=1e-5, rtol=1e-4)
    assert set(merged.state_dict()) == set(fresh_model().state_dict())


def test_what_is_fresh_depends_on_the_text_weights(fresh_model):
    random, pretrained = fresh_model(), fresh_model(text_model_name="some/bert")
    assert "text_encoder.embeddings" in X2VLMMedAdapter.fresh_modules(random)
    fresh = X2VLMMedAdapter.fresh_modules(pretrained)
    assert "vision_encoder" in fresh
    assert not any("embeddings" in name or "LayerNorm" in name for name in fresh)
    names = [name for name, _ in pretrained.named_modules()]
    for wanted in X2VLMMedAdapter.FRESH_MODULES:
        assert any(name.endswith(wanted) for name in names), wanted
