import warnings

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.metrics import precision_recall_fscore_support, roc_auc_score

from gastricx_hf.metrics.vqa import scoring

SETS = [["no", "yes"], ["t1", "t2", "t3", "t4a"], ["antrum", "body", "no"], ["arterial", "delayed", "venous"]]


def random_questions(rng, n):
    """Questions over mixed option sets; small integer scores make many ties, unused answers make absent classes."""
    sets = [SETS[i] for i in rng.choice(len(SETS), size=rng.integers(1, 5), replace=False)]
    options = [list(rng.permutation(sets[rng.integers(len(sets))])) for _ in range(n)]
    logprobs = [(rng.integers(-3, 0, len(row)) if rng.random() < 0.5 else rng.normal(size=len(row))).tolist() for row in options]
    banned = rng.choice(["t4a", "body", "none of them"])
    references = [rng.choice([name for name in row if name != banned]) for row in options]
    return options, logprobs, references


def answered(options, logprobs, references):
    """The predicted answers in plain Python: a tie goes to a wrong option."""
    predicted = []
    for names, scores, reference in zip(options, logprobs, references, strict=True):
        best = [name for name, score in zip(names, scores, strict=True) if score == max(scores)]
        wrong = [name for name in best if name != reference]
        predicted.append(min(wrong) if wrong else reference)
    return predicted


def reference_auc(options, logprobs, references, weights):
    """Mean of scikit-learn's AUC over the classes, each over the questions that offer it."""
    aucs = []
    for label in sorted(set(references)):
        offered = [i for i, names in enumerate(options) if label in names]
        truth = [references[i] == label for i in offered]
        w = weights[offered]
        if 0 < np.dot(w, truth) < w.sum():
            # the softmax is rounded so that summing the same scores in another order makes no difference
            p = [round(softmax(logprobs[i])[options[i].index(label)], 12) for i in offered]
            aucs.append(roc_auc_score(truth, p, sample_weight=w))
    return 100 * np.mean(aucs) if aucs else float("nan")


def test_scores_equal_scikit_learn_on_random_questions():
    rng = np.random.default_rng(0)
    undefined = tied = 0
    for case in range(1000):
        options, logprobs, references = random_questions(rng, int(rng.integers(1, 25)))
        weights = rng.integers(0, 4, len(options)).astype(float) if case % 2 else np.ones(len(options))
        weights[0] = 1
        closed = scoring.encode_closed(options, logprobs, references)
        predicted = answered(options, logprobs, references)
        tied += sum(scores.count(max(scores)) > 1 for scores in logprobs)
        present = sorted({name for name, w in zip(references, weights, strict=True) if w})
        arguments = {"labels": present, "average": "macro", "zero_division": 0, "sample_weight": weights}
        precision, f1 = scoring.macro_precision_f1(closed, weights)
        expected = precision_recall_fscore_support(references, predicted, **arguments)
        assert (precision, f1) == pytest.approx((100 * expected[0], 100 * expected[2]), abs=1e-6)
        correct = [a == b for a, b in zip(predicted, references, strict=True)]
        assert scoring.mean(closed.correct, weights) == pytest.approx(100 * np.average(correct, weights=weights), abs=1e-6)
        if case % 4 < 2:  # scikit-learn takes milliseconds for each of about four classes a case
            auc = reference_auc(options, logprobs, references, weights)
            assert scoring.macro_auc(closed, weights) == pytest.approx(auc, abs=1e-6, nan_ok=True)
            undefined += np.isnan(auc)
    assert undefined > 10
    assert tied > 1000


def test_by_hand():
    options = [["no", "yes"], ["no", "yes"], ["no", "yes"], ["t1", "t2"]]
    logprobs = [[-1, -2], [-2, -1], [-1, -3], [-1, -2]]
    closed = scoring.encode_closed(options, logprobs, ["no", "yes", "yes", "t2"])
    scores = scoring.closed_scores(closed, ["a", "a", "a", "b"])
    # no: precision 1/2, recall 1; yes: precision 1, recall 1/2; t2: never predicted
    assert scores["precision"] == pytest.approx(100 * (1 / 2 + 1 + 0) / 3)
    assert scores["f1"] == pytest.approx(100 * (2 / 3 + 2 / 3 + 0) / 3)
    assert scores["accuracy"] == pytest.approx(50)
    assert scores["patient_accuracy"] == pytest.approx(100 * (2 / 3 + 0) / 2)
    # P(yes) ranks: reference no between the two yes: one pair of two is right, for both classes; t2 has no negatives
    assert scores["auc"] == pytest.approx(50)


def test_a_question_does_not_count_in_the_auc_of_a_class_it_does_not_offer():
    yes_no = ([["no", "yes"]] * 4, [[0, 1], [0, 2], [3, 0], [0, 0.5]], ["yes", "no", "no", "yes"])
    alone = scoring.macro_auc(scoring.encode_closed(*yes_no))
    stages = [["t1", "t2"]], [[0, 9]], ["t2"]
    together = scoring.encode_closed(*(a + b for a, b in zip(yes_no, stages, strict=True)))
    assert scoring.macro_auc(together) == alone


def test_ties_go_against_the_model():
    closed = scoring.encode_closed([["no", "yes"], ["no", "yes"]], [[-1, -1], [-1, -1]], ["no", "yes"])
    assert scoring.mean(closed.correct) == 0
    assert scoring.macro_auc(closed) == 50


def test_near_certain_answers_are_still_ranked():
    # the softmax of all four is 1.0 in float64
    closed = scoring.encode_closed([["no", "yes"]] * 4, [[-50, 0], [-60, 0], [-70, 0], [-80, 0]], ["no", "no", "yes", "yes"])
    assert scoring.macro_auc(closed) == 100


def test_order_of_options_does_not_matter():
    rng = np.random.default_rng(1)
    scores = rng.normal(size=(20, 3)).round(1)
    references = [SETS[3][i] for i in rng.integers(3, size=20)]
    forward = scoring.encode_closed([SETS[3]] * 20, scores.tolist(), references)
    backward = scoring.encode_closed([SETS[3][::-1]] * 20, scores[:, ::-1].tolist(), references)
    assert scoring.closed_scores(forward, ["a"] * 20) == scoring.closed_scores(backward, ["a"] * 20)


def test_weights_of_many_resamples_at_once():
    rng = np.random.default_rng(2)
    closed = scoring.encode_closed(*random_questions(rng, 30))
    cases = [f"p{i % 7}" for i in range(30)]
    weights = rng.integers(0, 3, (9, 30))
    together = scoring.closed_scores(closed, cases, weights)
    for r in range(9):
        for name, value in scoring.closed_scores(closed, cases, weights[r]).items():
            assert together[name][r] == pytest.approx(value, abs=1e-9, nan_ok=True)


def test_resample_without_weight_is_undefined_and_silent():
    closed = scoring.encode_closed([["no", "yes"]], [[0, 1]], ["yes"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = scoring.closed_scores(closed, ["a"], np.zeros((2, 1)))
    assert all(np.isnan(value).all() for value in scores.values())


@pytest.mark.parametrize(
    ("options", "logprobs", "reference", "message"),
    [
        (["yes"], [0.0], "yes", "fewer than two options"),
        (["yes", "Yes."], [0.0, 1.0], "yes", "equal once normalised"),
        (["no", "yes"], [0.0], "yes", "one log-probability per option"),
        (["no", "yes"], [0.0, float("nan")], "yes", "not a finite number"),
        (["no", "yes"], [0.0, float("-inf")], "yes", "not a finite number"),
        (["no", "yes"], [0.0, 1.0], "maybe", "not among its options"),
    ],
)
def test_bad_closed_questions_are_refused_with_their_number(options, logprobs, reference, message):
    good = ["no", "yes"], [0.0, 1.0], "yes"
    with pytest.raises(ValueError, match=rf"1 of 2 closed questions.*{message}"):
        scoring.encode_closed([good[0], options], [good[1], logprobs], [good[2], reference])


def test_wrong_number_of_weights_is_refused():
    closed = scoring.encode_closed([["no", "yes"]], [[0, 1]], ["yes"])
    with pytest.raises(ValueError, match=r"shape \(3,\) for 1 questions"):
        scoring.mean(closed.correct, np.ones(3))


@pytest.mark.parametrize(
    ("prediction", "reference", "exact", "f1"),
    [
        ("The gastric antrum.", "gastric antrum", 1, 1),
        ("antrum", "gastric antrum", 0, 2 / 3),
        ("", "antrum", 0, 0),
        ("3.5 cm", "35 cm", 0, 1 / 2),
        ("cT4a", "ct4A", 1, 1),
        ("antrum antrum", "antrum", 0, 2 / 3),
        ("well-differentiated", "well differentiated", 0, 1),
        ("胃窦", "胃窦部", 0, 4 / 5),
        ("胃窦部。", "胃窦部", 1, 1),
        ("Ｔ３", "T3", 1, 1),
        ("-", "-", 1, 1),
        ("+", "-", 0, 0),
        ("-20 HU", "20 HU", 0, 4 / 5),
    ],
)
def test_open_answers_by_hand(prediction, reference, exact, f1):
    assert scoring.exact_match(prediction, reference) == exact
    assert scoring.token_f1(prediction, reference) == pytest.approx(f1)


def test_open_scores_average_over_questions_and_over_patients():
    answers = scoring.encode_open(["antrum", "antrum", "body"], ["antrum", "gastric antrum", "antrum"])
    scores = scoring.open_scores(answers, ["a", "a", "b"])
    assert scores["exact_match"] == pytest.approx(100 / 3)
    assert scores["token_f1"] == pytest.approx(100 * (1 + 2 / 3 + 0) / 3)
    assert scores["patient_token_f1"] == pytest.approx(100 * (5 / 6 + 0) / 2)


def test_empty_open_reference_is_refused():
    with pytest.raises(ValueError, match="1 of 2 open questions have an empty reference"):
        scoring.encode_open(["a", "b"], ["a", " "])
