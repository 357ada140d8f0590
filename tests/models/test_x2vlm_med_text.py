"""Text layers from a BERT folder written here: every copied tensor is compared."""

import pytest
import torch
from transformers import BertConfig, BertModel, DistilBertConfig

from gastricx_hf.models.x2vlm_med import X2VLMMedModel
from gastricx_hf.models.x2vlm_med_config import X2VLMMedConfig
from gastricx_hf.models.x2vlm_med_text import load_text_weights, text_setup

VISION = {"volume_shape": (32, 32, 32), "feature_size": 12, "window_size": 4, "depths": (1, 1, 1, 1), "num_heads": (1, 2, 3, 4)}


@pytest.fixture
def bert(tokenizer, tmp_path):
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=24,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=48,
        max_position_embeddings=40,
    )
    model = BertModel(config)
    model.save_pretrained(tmp_path / "bert")
    tokenizer.save_pretrained(tmp_path / "bert")
    return model, str(tmp_path / "bert")


def test_fusion_and_decoder_start_from_the_last_layers(bert, tokenizer):
    text, folder = bert
    again, settings = text_setup(folder)
    assert again.get_vocab() == tokenizer.get_vocab()
    model = X2VLMMedModel(X2VLMMedConfig.full(vision_config=VISION, fusion_layers=2, decoder_layers=1, **settings))
    cross = model.fusion.encoder.layer[0].crossattention.self.query.weight.clone()
    load_text_weights(model, folder)
    theirs = text.state_dict()
    ours = model.state_dict()
    for name, value in theirs.items():
        if not name.startswith("pooler"):
            assert torch.equal(ours[f"text_encoder.{name}"], value)
    part = "attention.self.query.weight"
    assert torch.equal(ours[f"fusion.encoder.layer.0.{part}"], theirs[f"encoder.layer.1.{part}"])
    assert torch.equal(ours[f"fusion.encoder.layer.1.{part}"], theirs[f"encoder.layer.2.{part}"])
    assert torch.equal(ours[f"decoder.bert.encoder.layer.0.{part}"], theirs[f"encoder.layer.2.{part}"])
    words = theirs["embeddings.word_embeddings.weight"]
    for name in ("decoder.bert.embeddings.word_embeddings.weight", "decoder.cls.predictions.decoder.weight", "mlm_head.3.weight"):
        assert torch.equal(ours[name], words)
    assert torch.equal(model.fusion.encoder.layer[0].crossattention.self.query.weight, cross)
    assert (model.config.bos_token_id, model.config.eos_token_id, model.config.mask_token_id) == (2, 3, 4)
    assert model.config.text_model_name == folder


def test_too_few_layers_and_other_models_are_refused(bert, tmp_path):
    _, folder = bert
    _, settings = text_setup(folder)
    model = X2VLMMedModel(X2VLMMedConfig.full(vision_config=VISION, fusion_layers=4, decoder_layers=1, **settings))
    with pytest.raises(ValueError, match="4 layers cannot be started from a text encoder of 3"):
        load_text_weights(model, folder)
    DistilBertConfig().save_pretrained(folder)
    with pytest.raises(ValueError, match="is a distilbert model"):
        text_setup(folder)
