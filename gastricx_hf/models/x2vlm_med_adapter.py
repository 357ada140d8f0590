"""X2-VLM-Med behind the verbs of adapter.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from gastricx_hf.models.x2vlm_med import X2VLMMedModel
    from gastricx_hf.models.x2vlm_med_processor import X2VLMMedProcessor


class X2VLMMedAdapter:
    """Offers every verb. All but `loss` run without gradients and in evaluation mode, on the device that the model is on."""

    name = "x2vlm-med"
    view = "channels3d"

    def __init__(self, model: X2VLMMedModel, processor: X2VLMMedProcessor):
        self.model, self.processor = model, processor

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
