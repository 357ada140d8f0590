import json

import numpy as np
import pytest

PROVENANCE = {
    "model": "reader",
    "data_revision": "d" * 64,
    "split_hash": "s" * 64,
    "preprocessing_hash": "p" * 64,
    "seed": 0,
    "phantom": True,
    "package_version": "0.1.0",
    "language": "en",
}
OPTIONS = {"yes_no_factual": ["no", "yes"], "staging_related": ["T1", "T2", "T3"], "lesion_centric": []}


def prediction_rows(schema="image", patients=12, per_category=2, skill=1.0, seed=0, **provenance) -> list[dict]:
    """Prediction lines of a reader who knows more the higher `skill` is; the same questions for every schema and skill."""
    rng = np.random.default_rng(seed)
    rows = []
    for patient in range(patients):
        for category, options in OPTIONS.items():
            for n in range(per_category):
                reference = options[rng.integers(len(options))] if options else "gastric antrum"
                scores = rng.normal(size=len(options)) + skill * np.array([option == reference for option in options], float)
                prediction = options[int(np.argmax(scores))] if options else "antrum"
                rows.append(
                    {
                        "example_id": f"P{patient:03d}-{category}-{n}",
                        "case_id": f"P{patient:03d}",
                        "task": "vqa",
                        "schema": schema,
                        "category": category,
                        "answer_type": "closed" if options else "open",
                        "question": f"What about {category}, {n}?",
                        "options": list(options),
                        "option_logprobs": scores.tolist(),
                        "prediction": prediction,
                        "reference": reference,
                        "provenance": {**PROVENANCE, **provenance},
                    }
                )
    return rows


def write_rows(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def make_rows():
    return prediction_rows


@pytest.fixture
def write():
    return write_rows


@pytest.fixture
def run(tmp_path):
    """A run folder with predictions of all four schemas."""
    for skill, schema in enumerate(["image", "image+table", "image+bbox", "image+table+bbox"]):
        write_rows(tmp_path / "run" / "predictions" / f"vqa-{schema}.jsonl", prediction_rows(schema, skill=1.0 + skill))
    return tmp_path / "run"
