from pathlib import Path

import numpy as np
import pytest

import gastricx_hf.metrics.vqa.scoring as scoring

FOLDER = Path(scoring.__file__).parent


@pytest.fixture(scope="module")
def metric(tmp_path_factory):
    import evaluate

    return evaluate.load(str(FOLDER), cache_dir=str(tmp_path_factory.mktemp("evaluate")))


def questions(n=40):
    rng = np.random.default_rng(0)
    predictions, references = [], []
    for i in range(n):
        options = [["no", "yes"], ["t1", "t2", "t3"], []][i % 3]
        logprobs = rng.normal(size=len(options)).tolist()
        predictions.append({"prediction": "gastric body", "options": options, "option_logprobs": logprobs})
        answer = options[rng.integers(len(options))] if options else "body"
        references.append({"answer": answer, "case_id": f"p{i % 5}", "category": ["factual", "staging", "lesion"][i % 3]})
    return predictions, references


def test_module_gives_the_numbers_of_the_pure_functions(metric):
    predictions, references = questions()
    scores = metric.compute(predictions=predictions, references=references)
    closed = [(p, r) for p, r in zip(predictions, references, strict=True) if p["options"]]
    encoded = scoring.encode_closed(
        [p["options"] for p, _ in closed], [p["option_logprobs"] for p, _ in closed], [r["answer"] for _, r in closed]
    )
    for name, value in scoring.closed_scores(encoded, [r["case_id"] for _, r in closed]).items():
        assert scores[scoring.VARIANTS[name]] == pytest.approx(value, abs=1e-12)
    assert scores[scoring.VARIANTS["token_f1"]] == pytest.approx(200 / 3)
    assert scores[f"lesion/{scoring.VARIANTS['token_f1']}"] == pytest.approx(200 / 3)
    assert f"lesion/{scoring.VARIANTS['accuracy']}" not in scores


def test_one_by_one_equals_all_at_once(metric):
    predictions, references = questions()
    for prediction, reference in zip(predictions, references, strict=True):
        metric.add(prediction=prediction, reference=reference)
    assert metric.compute() == metric.compute(predictions=predictions, references=references)


def test_category_may_be_empty(metric):
    predictions, references = questions(6)
    scores = metric.compute(predictions=predictions, references=[{**r, "category": ""} for r in references])
    assert set(scores) <= set(scoring.VARIANTS.values())


def test_errors_are_those_of_the_pure_functions(metric):
    predictions, references = questions(6)
    predictions[0]["option_logprobs"] = [float("nan"), 0.0]
    with pytest.raises(ValueError, match=r"1 of 4 closed questions.*not a finite number"):
        metric.compute(predictions=predictions, references=references)
