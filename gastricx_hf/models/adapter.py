"""What a model may offer to training, inference and evaluation. What it does not offer shows as a dash in a table, never as zero."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

VERBS = ("generate", "score_options", "encode_image", "encode_text", "match", "stage", "locate", "loss")


class Adapter(Protocol):
    """A thin object around a model and its processor. `name` and `view` are there always; of the verbs only those that the model has.

    A batch is what the processor made (a mapping of tensors): C cases, B text rows, `case_index` (B,) saying which case a row is about.

    Attributes:
        name: of the family, for tables.
        view: how inputs/ must present the volumes ("channels3d", "channels2d", "slices", "chat", "montage").
    """

    name: str
    view: str

    def generate(self, batch: Any, **generation: Any) -> list[str]:
        """B answers as text."""

    def score_options(self, batch: Any) -> np.ndarray:
        """(B, K) log-probability of each closed answer, -inf where a row has no such option; the same meaning in every family."""

    def encode_image(self, batch: Any) -> np.ndarray:
        """(C, E) unit-length embeddings for retrieval."""

    def encode_text(self, batch: Any) -> np.ndarray:
        """(B, E) unit-length embeddings for retrieval."""

    def match(self, batch: Any) -> np.ndarray:
        """(B,) probability that text and case belong together."""

    def stage(self, batch: Any) -> np.ndarray:
        """(B, stages) probabilities."""

    def locate(self, batch: Any) -> tuple[np.ndarray, np.ndarray]:
        """(B, 6) centre and size relative to the volume in axis order (i, j, k), and (B,) scores."""

    def loss(self, batch: Any) -> Any:
        """Scalar tensor to minimise; only adapters of trainable models have it."""


def offers(adapter: Any, verb: str) -> bool:
    """Whether an adapter has a verb.

    Raises:
        ValueError: no such verb exists, which would otherwise read as "not offered".
    """
    if verb not in VERBS:
        raise ValueError(f"unknown verb {verb!r}: expected one of {VERBS}")
    return callable(getattr(adapter, verb, None))
