"""The four input schemas: what a model is told beside the image (paper Section 4, facts.md P50-P52)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gastricx_hf.inputs.guard import ALLOWED, check_prompt, check_row
from gastricx_hf.inputs.labs import abnormal_labs_text
from gastricx_hf.schema import Schema

TABLE_HEADING = "Laboratory findings:"


@dataclass(frozen=True)
class Prompt:
    """What a model reads for one row.

    Attributes:
        text: the whole prompt, question first.
        table_text: the laboratory text in it; empty where the schema has no table.
        uses_boxes: whether the reference boxes are drawn into the image input.
    """

    text: str
    table_text: str
    uses_boxes: bool


def build_prompt(row: Mapping, schema: Schema | str, task: str = "vqa") -> Prompt:
    """The prompt of a dataset row in an input schema, checked by the leak guard.

    The question comes first and the table after it, so that a text cut at the model's maximum length never loses the question;
    the paper does not give the order.

    Raises:
        LeakError: the row or the prompt gives away what is asked.
        ValueError: unknown task or schema.
    """
    if task not in ALLOWED:
        raise ValueError(f"unknown task {task!r}: prompts exist for {sorted(ALLOWED)}")
    schema = Schema(schema)
    check_row(row, ALLOWED[task], task)
    table = abnormal_labs_text(row["labs"]) if schema.table else ""
    context = f"{TABLE_HEADING} {table}" if table else ""
    check_prompt(context, row, task=task)
    question = row["question"].strip()
    return Prompt(text=f"{question} {context}".strip(), table_text=table, uses_boxes=schema.bbox)
