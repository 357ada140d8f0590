"""Sizes: the paper's parameter count, and a configuration that survives the disk."""

import pytest
from transformers import AutoConfig
from transformers.initialization import no_init_weights

from gastricx_hf.models import auto
from gastricx_hf.models.x2vlm_med import X2VLMMedModel
from gastricx_hf.models.x2vlm_med_config import X2VLMMedConfig


def test_full_model_has_the_papers_size():
    """X2-VLM base without BEiT (85.8 M) is about 169 M with 12 + 6 layers; tower, decoder and heads bring it to 245-260 M."""
    with no_init_weights():
        model = X2VLMMedModel(X2VLMMedConfig.full())
    model.tie_weights()
    millions = {name: sum(p.numel() for p in part.parameters()) / 1e6 for name, part in model.named_children()}
    assert millions["vision_encoder"] == pytest.approx(8.08, abs=0.03)
    assert millions["text_encoder"] == pytest.approx(108.89, abs=0.02)  # BERT-base, 30,522 words, without pooler
    assert millions["fusion"] == pytest.approx(56.71, abs=0.02)
    assert millions["decoder"] == pytest.approx(81.2, abs=0.1)
    assert 245 < sum(p.numel() for p in model.parameters()) / 1e6 < 261


def test_configuration_survives_the_disk(tmp_path):
    auto.register()
    config = X2VLMMedConfig.tiny(vocab_size=321, volume_shape=(32, 48, 64), num_stages=5)
    config.save_pretrained(tmp_path)
    again = AutoConfig.from_pretrained(tmp_path)
    assert type(again) is X2VLMMedConfig
    assert again.to_diff_dict() | {"_name_or_path": ""} == config.to_diff_dict() | {"_name_or_path": ""}
    assert again.volume_shape == (32, 48, 64)
    assert (again.num_phases, again.num_structures, again.num_stages, again.text_config.vocab_size) == (4, 3, 5, 321)
    assert type(again.vision_config) is type(config.vision_config)


def test_cross_layers_follow_the_text_encoder():
    config = X2VLMMedConfig.tiny(vocab_size=99)
    cross = config.cross_config(3)
    assert (cross.vocab_size, cross.hidden_size, cross.encoder_hidden_size, cross.num_hidden_layers) == (99, 64, 64, 3)
    assert (cross.bos_token_id, cross.eos_token_id, cross.sep_token_id, cross.pad_token_id) == (2, 3, 3, 0)
    assert cross.initializer_range == config.text_config.initializer_range
    assert not cross.tie_word_embeddings
