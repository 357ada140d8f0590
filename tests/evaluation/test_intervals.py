import numpy as np
import pytest
from sklearn.metrics import precision_recall_fscore_support, roc_auc_score

from gastricx_hf.evaluation import intervals
from gastricx_hf.metrics.vqa import scoring


def test_patients_are_drawn_whole_and_as_many_as_there_are():
    case_ids = ["b", "a", "b", "c", "a", "a"]
    weights = intervals.patient_bootstrap_weights(case_ids, n=500, seed=3).astype(int)
    assert weights.shape == (500, 6)
    for same in ([0, 2], [1, 4, 5]):
        assert (weights[:, same] == weights[:, same[:1]]).all()
    assert (weights[:, [1, 0, 3]].sum(axis=1) == 3).all()
    # a patient is absent from (2/3)^3 of the resamples
    assert (weights[:, 3] == 0).mean() == pytest.approx(8 / 27, abs=0.06)


def test_resamples_depend_on_patients_and_seed_alone():
    first = intervals.patient_bootstrap_weights(["a", "b", "c"], n=20, seed=1)
    turned = intervals.patient_bootstrap_weights(["c", "b", "a", "a"], n=20, seed=1)
    assert (first == turned[:, [2, 1, 0]]).all()
    assert (first != intervals.patient_bootstrap_weights(["a", "b", "c"], n=20, seed=2)).any()


@pytest.mark.parametrize(("case_ids", "n"), [([], 10), (["a"], 0)])
def test_nothing_to_resample_is_refused(case_ids, n):
    with pytest.raises(ValueError, match="must be at least 1"):
        intervals.patient_bootstrap_weights(case_ids, n)


def test_vectorised_interval_equals_a_loop_over_resamples_with_scikit_learn(monkeypatch):
    monkeypatch.setattr(intervals, "CHUNK", 7)
    rng = np.random.default_rng(0)
    options = ["no", "yes", "unclear"]
    case_ids = [f"p{i % 15}" for i in range(90)]
    references = [options[i] for i in rng.choice(3, p=[0.6, 0.35, 0.05], size=90)]
    logprobs = rng.normal(size=(90, 3)).round(1) + [[(o == r) * 0.7 for o in options] for r in references]
    closed = scoring.encode_closed([options] * 90, logprobs.tolist(), references)
    weights = intervals.patient_bootstrap_weights(case_ids, n=60, seed=5)
    found = intervals.bootstrap_intervals(lambda w: scoring.closed_scores(closed, case_ids, w), weights)
    probabilities = np.exp(logprobs) / np.exp(logprobs).sum(axis=1, keepdims=True)
    loop = {"precision": [], "f1": [], "accuracy": [], "auc": []}
    for weight in weights:
        drawn = np.repeat(np.arange(90), weight)
        truth = [references[i] for i in drawn]
        predicted = [closed.labels[closed.predicted[i]] for i in drawn]
        classes = sorted(set(truth))
        precision, _, f1, _ = precision_recall_fscore_support(truth, predicted, labels=classes, average="macro", zero_division=0)
        loop["precision"].append(precision)
        loop["f1"].append(f1)
        loop["accuracy"].append(np.mean([a == b for a, b in zip(truth, predicted, strict=True)]))
        per_class = [roc_auc_score([t == c for t in truth], probabilities[drawn, options.index(c)].round(12)) for c in classes]
        loop["auc"].append(np.mean(per_class))
    for name, values in loop.items():
        assert found[name] == pytest.approx(tuple(100 * np.percentile(values, [2.5, 97.5])), abs=1e-9), name


def test_undefined_resamples_are_left_out():
    low, high = intervals.percentile_interval(np.array([np.nan, 10.0, 20.0, np.nan]))
    assert (low, high) == pytest.approx((10.25, 19.75))
    assert np.isnan(intervals.percentile_interval(np.array([np.nan]))).all()


def test_interval_covers_the_truth_for_clustered_answers_where_resampling_questions_does_not():
    rng = np.random.default_rng(11)
    patients, questions, truth = 40, 8, 100 * 2 / 3
    patient_ids = np.repeat(np.arange(patients), questions)
    covered = {"patients": 0, "questions": 0}
    for simulation in range(200):
        correct = (rng.random((patients, questions)) < rng.beta(1.0, 0.5, size=(patients, 1))).astype(float).ravel()
        for unit, ids in (("patients", patient_ids), ("questions", np.arange(patients * questions))):
            weights = intervals.patient_bootstrap_weights(ids, n=200, seed=simulation)
            low, high = intervals.bootstrap_intervals(lambda w, c=correct: {"accuracy": scoring.mean(c, w)}, weights)["accuracy"]
            covered[unit] += low <= truth <= high
    assert 0.90 <= covered["patients"] / 200 <= 0.99
    assert covered["questions"] / 200 < 0.85
