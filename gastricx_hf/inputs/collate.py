"""Dataset rows to a model's batch: each patient's volume once, each question with its prompt."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence

from gastricx_hf.inputs.schemas import build_prompt
from gastricx_hf.inputs.views import channels3d
from gastricx_hf.preprocessing.store import StandardStore
from gastricx_hf.schema import Schema
from gastricx_hf.tasks.vqa import VOLUME_COLUMNS, normalise_answer


def undecoded(dataset):
    """The dataset (or dict of them, or stream) with volume and endoscopy cells as `{"path", "bytes"}`, so that reading a row opens
    no volume; the standardised store reads those it needs.

    Raises:
        ValueError: the features of a stream are unknown.
    """
    from datasets import Image, Nifti

    if isinstance(dataset, Mapping):
        return type(dataset)({split: undecoded(part) for split, part in dataset.items()})
    if dataset.features is None:
        raise ValueError("the features of this stream are unknown: load it from a built `gastric-x` folder, which records them")
    for column, plain in [*((name, Nifti(decode=False)) for name in VOLUME_COLUMNS), ("endoscopy", Image(decode=False))]:
        if column in dataset.features:
            dataset = dataset.cast_column(column, plain)
    return dataset


class VQACollator:
    """Makes the batch of a list of `vqa` rows with undecoded cells (see `undecoded`).

    Rows are grouped by patient: `volumes` holds each patient once and `case_index` says which volume a row belongs to. Given
    several schemas (training on a mixture) one is drawn for each batch from a hash of the seed and the batch's question ids: a
    resumed run, which sees the same batches, draws the same, and texts of one length share a batch. Every prompt passes the leak guard.
    In training the answers are normalised as the closed options are, so that both are spelled alike.

    Args:
        processor: called as processor(text=, volumes=, case_index=, answers= or options=).
        store: standardised cases with the processor's settings.
        schema: one schema, or several of which one is drawn.
        train: give answers; otherwise give the options of each question (empty for an open one).

    Raises:
        ValueError: no schema, or several without training.
    """

    def __init__(self, processor, store: StandardStore, schema: Schema | str | Sequence[Schema | str], train: bool, seed: int = 0):
        self.processor = processor
        self.store = store
        self.schemas = tuple(Schema(s) for s in ([schema] if isinstance(schema, str) else schema))
        self.train = train
        self.seed = seed
        if not self.schemas or (len(self.schemas) > 1 and not train):
            raise ValueError(f"evaluation needs one input schema and training at least one, not {[str(s) for s in self.schemas]}")

    def __call__(self, rows: Sequence[Mapping]):
        """The batch of `rows`; raises LeakError for a prompt that gives its answer away, ValueError for an unfit volume."""
        schema = self.draw_schema(rows)
        prompts = [build_prompt(row, schema) for row in rows]
        first = {row["case_id"]: row for row in reversed(rows)}
        order = list(dict.fromkeys(row["case_id"] for row in rows))
        volumes = [channels3d(self.store.get(first[case_id]), schema) for case_id in order]
        targets = {"answers": [normalise_answer(row["answer"]) for row in rows]}
        if not self.train:
            targets = {"options": [list(row["options"] or ()) for row in rows]}
        case_index = [order.index(row["case_id"]) for row in rows]
        return self.processor(text=[prompt.text for prompt in prompts], volumes=volumes, case_index=case_index, **targets)

    def draw_schema(self, rows: Iterable[Mapping]) -> Schema:
        """The schema of this batch."""
        text = json.dumps([self.seed, [row["question_id"] for row in rows]])
        number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
        return self.schemas[number % len(self.schemas)]
