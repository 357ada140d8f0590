"""X2-VLM-Med behind the verbs of adapter.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from gastricx_hf.models.x2vlm_med import X2VLMMedModel
    from gastricx_hf.models.x2vlm_med_processor import X2VLMMedProcessor


TEXT_IS_PRETRAINED = ["vision_encoder", "vision_adapter", "itc_head", "itm_head", "bbox_head", "stage_head", "predictions.transform"]
"""Parts that no text checkpoint supplies; the masked-word head is not among them because its output matrix is tied."""

NOTHING_IS_PRETRAINED = [
    *TEXT_IS_PRETRAINED,
    "mlm_head",
    "text_encoder.embeddings",
    "decoder.bert.embeddings",
    "predictions.decoder",
    "output.LayerNorm",
]


class X2VLMMedAdapter:
    """Offers every verb. All but `loss` run without gradients and in evaluation mode, on the device that the model is on.

    Attributes:
        LORA_TARGETS: PEFT `target_modules`, every linear layer of text encoder, fusion and decoder, never the tower.
        FRESH_MODULES: PEFT `modules_to_save` of a model without any pretrained part, everything but those layers.
    """

    name = "x2vlm-med"
    view = "channels3d"
    LORA_TARGETS = r"(text_encoder|fusion|decoder\.bert)\.encoder\.layer\.\d+\.(\w+\.)*(query|key|value|dense)"
    FRESH_MODULES = NOTHING_IS_PRETRAINED

    def __init__(self, model: X2VLMMedModel, processor: X2VLMMedProcessor):
        self.model, self.processor = model, processor

    @classmethod
    def create(cls, size: str, preprocessing: dict, texts: list[str]) -> X2VLMMedAdapter:
        """A new model. "tiny" is random and learns its vocabulary from `texts`; "full" takes vocabulary and text layers from the Hub
        model of `X2VLMMedConfig.text_model_name`, and its tower is random until `load_swin_weights`.

        Args:
            preprocessing: fields of the standardisation; its `shape` sizes the tower.

        Raises:
            ValueError: no such size.
        """
        from gastricx_hf.models.x2vlm_med import X2VLMMedModel
        from gastricx_hf.models.x2vlm_med_config import X2VLMMedConfig
        from gastricx_hf.models.x2vlm_med_processor import X2VLMMedProcessor, build_tokenizer
        from gastricx_hf.models.x2vlm_med_text import load_text_weights, text_setup

        shape = tuple(preprocessing["shape"])
        if size == "tiny":
            tokenizer = build_tokenizer(texts)
            model = X2VLMMedModel(X2VLMMedConfig.tiny(vocab_size=len(tokenizer), volume_shape=shape))
        elif size == "full":
            tokenizer, settings = text_setup(X2VLMMedConfig.text_model_name)
            model = X2VLMMedModel(X2VLMMedConfig.full(vision_config={"volume_shape": shape}, **settings))
            load_text_weights(model, X2VLMMedConfig.text_model_name)
        else:
            raise ValueError(f"{cls.name} has no size {size!r}: expected tiny or full")
        return cls(model, X2VLMMedProcessor(tokenizer, preprocessing, max_length=model.config.text_config.max_position_embeddings))

    @staticmethod
    def fresh_modules(model: X2VLMMedModel) -> list[str]:
        """PEFT `modules_to_save`: what has no pretrained weights in this model."""
        return TEXT_IS_PRETRAINED if model.config.text_model_name else NOTHING_IS_PRETRAINED

    def _inputs(self, batch) -> dict[str, torch.Tensor]:
        return {name: value.to(self.model.device) for name, value in batch.items() if isinstance(value, torch.Tensor)}

    def _ask(self, question, batch):
        """Run `question(model, inputs)` quietly and put the model back as it was."""
        training = self.model.training
        self.model.eval()
        try:
            with torch.no_grad():
                return question(self.model, self._inputs(batch))
        finally:
            self.model.train(training)

    def generate(self, batch, **generation) -> list[str]:
        return self.processor.decode_answers(self._ask(lambda m, x: m.generate_answer(x, **generation), batch))

    def score_options(self, batch, normalise: bool = False) -> np.ndarray:
        return _numpy(self._ask(lambda m, x: m.score_options(x, x["option_ids"], x["option_mask"], normalise), batch))

    def encode_image(self, batch) -> np.ndarray:
        return _numpy(self._ask(lambda m, x: m.encode_image(x["pixel_values"], x.get("phase_mask"), x.get("box_masks")).embeds, batch))

    def encode_text(self, batch) -> np.ndarray:
        return _numpy(self._ask(lambda m, x: m.encode_text(x["input_ids"], x.get("attention_mask")).embeds, batch))

    def match(self, batch) -> np.ndarray:
        return _numpy(self._ask(lambda m, x: m.match(x), batch))

    def stage(self, batch) -> np.ndarray:
        return _numpy(self._ask(lambda m, x: m.stage(x).softmax(-1), batch))

    def locate(self, batch) -> tuple[np.ndarray, np.ndarray]:
        boxes, scores = self._ask(lambda m, x: m.locate(x), batch)
        return _numpy(boxes), _numpy(scores)

    def loss(self, batch) -> torch.Tensor:
        inputs = self._inputs(batch)
        return self.model(**inputs).loss


def _numpy(tensor: torch.Tensor) -> np.ndarray:
    return tensor.float().cpu().numpy()
