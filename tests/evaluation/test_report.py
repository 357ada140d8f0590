"""The oracle's line on the page: equally likely answers are a coin's throw, not a certain miss."""

import json

import pytest

from gastricx_hf.evaluation.report import oracle_accuracy
from gastricx_hf.schema import Schema


def test_a_reader_of_even_odds_is_right_half_of_the_time(tmp_path):
    (tmp_path / "predictions").mkdir()
    provenance = {"model": "m", "data_revision": "d", "split_hash": "s", "preprocessing_hash": "p", "seed": 0, "phantom": True,
                  "package_version": "0", "language": "en"}  # fmt: skip
    rows = [
        {"example_id": f"q{n}", "case_id": f"P{n}", "task": "vqa", "schema": "image", "category": "c", "answer_type": "closed",
         "question": "?", "options": ["no", "yes"], "option_logprobs": [-0.1, -2.0], "prediction": "no",
         "reference": "yes" if n % 2 else "no", "provenance": provenance}
        for n in range(20)
    ]  # fmt: skip
    (tmp_path / "predictions" / "vqa-image.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    even = {row["example_id"]: {"no": 0.5, "yes": 0.5} for row in rows}
    sure = {row["example_id"]: {row["reference"]: 1.0} for row in rows}
    found = oracle_accuracy(tmp_path, {None: even, Schema.IMAGE: sure})
    assert found[None] == pytest.approx(50)
    assert found[Schema.IMAGE] == pytest.approx(100)
