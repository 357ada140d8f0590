"""Texts and volumes to tensors and back; what does not fit together is named."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import AutoProcessor, BertTokenizer

from gastricx_hf.models import auto
from gastricx_hf.models.x2vlm_med_config import X2VLMMedConfig
from gastricx_hf.models.x2vlm_med_processor import SPECIAL_TOKENS, X2VLMMedProcessor, build_tokenizer


def case(seed=0, shape=(4, 6, 5, 4), box=False):
    pixels = np.random.default_rng(seed).normal(size=shape)
    return SimpleNamespace(
        pixel_values=pixels, phase_mask=[True, False, True, True], box_mask=np.ones((3, *shape[1:]), np.uint8) if box else None
    )


def test_vocabulary_knows_every_number_and_fits_the_tiny_model(tokenizer):
    config = X2VLMMedConfig.tiny(vocab_size=len(tokenizer))
    ids = tokenizer.convert_tokens_to_ids(list(SPECIAL_TOKENS))
    assert ids == [config.pad_token_id, 1, config.bos_token_id, config.eos_token_id, config.mask_token_id]
    assert "[UNK]" not in tokenizer.tokenize("CA-125 9876.05 U/mL, 0.3x zyx%")
    assert tokenizer.tokenize("胃窦部") == ["胃", "窦", "部"]
    assert tokenizer.tokenize("ANTRUM") == ["antrum"]


def test_vocabulary_is_a_function_of_the_texts():
    texts = ["the tumor is in the antrum", "CEA 23.4 ng/mL"] * 3
    assert build_tokenizer(texts, 250).get_vocab() == build_tokenizer(texts, 250).get_vocab()
    assert build_tokenizer(texts, 250).get_vocab() == build_tokenizer(texts[::-1], 250).get_vocab()
    vocabulary = build_tokenizer(texts, 110).get_vocab()
    assert len(vocabulary) == 110
    assert "the" in vocabulary  # the most frequent word
    assert "23" not in build_tokenizer(texts, 250).get_vocab()  # numbers are spelled


def test_batch_of_questions_answers_and_options(processor, tokenizer):
    batch = processor(
        ["where is the tumor?", "which phase?", "where?"], [case(0, box=True), case(1, box=True)], [0, 1, 1],
        answers=["antrum", "venous phase", "no"], options=[["antrum", "venous"], [], ["antrum", "where is it", "no"]],
    )  # fmt: skip
    assert batch["pixel_values"].dtype == torch.float32
    np.testing.assert_allclose(batch["pixel_values"][1], case(1).pixel_values, rtol=1e-6)
    assert batch["phase_mask"].tolist() == [[True, False, True, True]] * 2
    assert batch["box_masks"].shape == (2, 3, 6, 5, 4)
    assert batch["case_index"].tolist() == [0, 1, 1]
    for row, answer in zip(batch["labels"], ["antrum", "venous phase", "no"], strict=True):
        expected = tokenizer(answer)["input_ids"]
        assert row.tolist() == expected + [-100] * (batch["labels"].shape[1] - len(expected))
        assert (expected[0], expected[-1]) == (tokenizer.cls_token_id, tokenizer.sep_token_id)
    assert batch["option_mask"].tolist() == [[True, True, False], [False] * 3, [True] * 3]
    for b, k, option in ((0, 1, "venous"), (2, 0, "antrum"), (2, 1, "where is it")):
        assert tokenizer.decode(batch["option_ids"][b, k], skip_special_tokens=True) == option
    assert not batch["option_ids"][1].any()
    assert (batch["input_ids"] != 0).tolist() == batch["attention_mask"].bool().tolist()


def test_without_boxes_answers_or_volumes_the_keys_are_absent(processor):
    assert set(processor(["where?"], [case()])) == {"input_ids", "attention_mask", "pixel_values", "phase_mask"}
    assert set(processor(["where?"])) == {"input_ids", "attention_mask"}


def test_a_case_without_boxes_beside_one_with_has_empty_masks(processor):
    masks = processor(["where?"] * 2, [case(box=True), case()])["box_masks"]
    assert masks[0].all()
    assert not masks[1].any()


def test_long_texts_lose_their_end(processor):
    ids = processor(["where is the tumor? " + "cea 3 " * 200])["input_ids"]
    assert ids.shape == (1, 64)
    assert processor.tokenizer.decode(ids[0]).startswith("[CLS] where is the tumor")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"volumes": [case()], "answers": ["a", "b"]}, "answers has 2 entries for 1 texts"),
        ({"volumes": [case(), case()]}, "1 texts for 2 volumes"),
        ({"volumes": [case(), case(shape=(4, 6, 5, 3))], "case_index": [0]}, "must have one shape"),
    ],
)
def test_what_does_not_fit_together_is_named(processor, arguments, message):
    with pytest.raises(ValueError, match=message):
        processor(["where?"], **arguments)


@pytest.mark.parametrize("text", ["4.5 cm", "t4a", "mass-forming", "胃窦部肿瘤", "3.1 x 2.4 cm", "no", "upper third"])
def test_answers_come_back_as_they_were_written(processor, text):
    assert processor.decode_answers(processor.tokenizer([text], return_tensors="pt")["input_ids"]) == [text]


def test_it_survives_the_disk_through_auto_processor(processor, tmp_path):
    auto.register()
    processor.save_pretrained(tmp_path)
    again = AutoProcessor.from_pretrained(tmp_path)
    assert type(again) is X2VLMMedProcessor
    assert isinstance(again.tokenizer, BertTokenizer)
    assert again.preprocessing == {"shape": [64, 64, 32], "clip": [-100.0, 300.0]}
    assert again.max_length == 64
    first, second = (p(["CEA 9.3 胃窦?"], [case()], answers=["antrum"]) for p in (processor, again))
    assert all(torch.equal(first[name], second[name]) for name in first)
