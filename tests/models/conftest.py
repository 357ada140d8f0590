"""One tiny X2-VLM-Med for all tests of the folder; tests that change it take a fresh one."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from gastricx_hf.models.x2vlm_med import X2VLMMedModel
from gastricx_hf.models.x2vlm_med_config import X2VLMMedConfig
from gastricx_hf.models.x2vlm_med_processor import X2VLMMedProcessor, build_tokenizer

TEXTS = [
    "Where is the tumor? antrum",
    "Which phase enhances most? venous",
    "Laboratory findings: CEA 23.4 ng/mL, 4.7x the upper limit",
    "胃窦部肿瘤",
]
SHAPE = (64, 64, 32)


def volume(seed, missing=None, boxes=False):
    rng = np.random.default_rng(seed)
    pixels = rng.normal(size=(4, *SHAPE)).astype(np.float32)
    present = np.ones(4, bool)
    if missing is not None:
        present[missing], pixels[missing] = False, 0
    box = np.zeros((3, *SHAPE), np.uint8)
    box[0, 10:20, 20:40, 5:15] = 1
    return SimpleNamespace(pixel_values=pixels, phase_mask=present, box_mask=box if boxes else None)


@pytest.fixture(scope="session")
def tokenizer():
    return build_tokenizer(TEXTS * 5, 300)


@pytest.fixture(scope="session")
def processor(tokenizer):
    return X2VLMMedProcessor(tokenizer, {"shape": list(SHAPE), "clip": [-100.0, 300.0]}, max_length=64)


@pytest.fixture
def fresh_model(tokenizer):
    def make(**changes):
        torch.manual_seed(0)
        return X2VLMMedModel(X2VLMMedConfig.tiny(vocab_size=len(tokenizer), **changes)).eval()

    return make


@pytest.fixture(scope="session")
def model(tokenizer):
    torch.manual_seed(0)
    return X2VLMMedModel(X2VLMMedConfig.tiny(vocab_size=len(tokenizer))).eval()


@pytest.fixture(scope="session")
def make_batch(processor):
    """Four rows about three cases, one of which has no arterial phase."""

    def make(boxes=True, questions=("where is the tumor?", "which phase? CEA 23.4 ng/mL", "is the tumor in the antrum?", "where?")):
        volumes = [volume(0, boxes=boxes), volume(1, missing=1, boxes=boxes), volume(2, boxes=boxes)]
        answers = ["antrum", "venous", "the upper limit", "胃窦 4.5"]
        options = [["antrum", "tumor"], ["venous", "phase", "upper limit of phase"], [], ["where"]]
        return processor(list(questions), volumes, [0, 1, 2, 2], answers=answers, options=options)

    return make


@pytest.fixture
def batch(make_batch):
    return make_batch()


@pytest.fixture(scope="session")
def asked():
    """The part of a batch that `forward` takes."""
    names = ("input_ids", "attention_mask", "pixel_values", "phase_mask", "box_masks", "case_index", "labels")
    return lambda batch: {name: batch[name] for name in names if name in batch}
