"""The best that any reader could do: exact Bayes posteriors of the phantom's generative model, per input schema.

An oracle knows every constant of truth.py and sees exactly what a schema shows: with the image, all lesions as drawn
(not which of them is the tumour), fat, nodes, ascites and liver; with the table, the laboratory values that lie outside
their range; with boxes, which lesion is the tumour and whether metastatic nodes exist. A trained model must land
between the majority answer and the oracle.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from gastricx_hf.schema import Schema
from gastricx_hf.sources.phantom import truth as law
from gastricx_hf.sources.phantom.truth import Facts, Truth, draw_truth
from gastricx_hf.sources.phantom.wording import KINDS

AXES = (law.SITES, (False, True), law.PEAKS, law.GROSS, law.T_STAGES, law.N_STAGES, law.SPREADS, (False, True))
"""The discrete states: site, larger than LARGE_CM, peak phase, gross type, T, N, spread, ascites."""
SHAPE = tuple(len(axis) for axis in AXES)


def oracle(task: str, schema: Schema | str | None, patients: int = 2000, seed: int = 0) -> float:
    """Expected accuracy (0-100) of the best reader on the closed questions of `task`, given what `schema` shows.

    Args:
        schema: an input schema, or `None` for a reader of the question alone (the text-only ceiling).

    Raises:
        ValueError: a task that has no oracle.
    """
    if task != "vqa":
        raise ValueError(f"no oracle for task {task!r}: phantom patients have one for 'vqa'")
    best = [max(p.values()) for i in range(patients) for p in posteriors(draw_truth(i, seed), schema) if p]
    return 100.0 * float(np.mean(best))


def oracle_posteriors(task: str, schema: Schema | str | None, patients: int, seed: int) -> dict[str, dict[str, float]]:
    """`question_id -> {answer: probability}` of every closed question (English) of the first `patients` phantom patients.

    Written as predictions, these are scored by the very code that scores a model.
    """
    if task != "vqa":
        raise ValueError(f"no oracle for task {task!r}: phantom patients have one for 'vqa'")
    result = {}
    for index in range(patients):
        patient = draw_truth(index, seed)
        for number, posterior in enumerate(posteriors(patient, schema)):
            if posterior:
                result[f"{patient.case_id}-{number:03d}"] = posterior
    return result


def posteriors(patient: Truth, schema: Schema | str | None) -> list[dict[str, float]]:
    """Posterior over the answers of each of the patient's eight questions; empty for an open question."""
    state = np.array(_prior())
    if schema is not None:
        schema = Schema(schema)
        state = state * _image(patient)
        if schema.bbox and patient.boxed:
            state = state * _boxes(patient)
        if schema.table:
            state = state * _table(patient)
    result = []
    state = state.ravel() / state.sum()
    for kind, index in zip(KINDS, _answers(), strict=True):
        weights = np.bincount(index, state, minlength=len(kind.answers)) if kind.answers else ()
        result.append({answer: float(w) for answer, w in zip(kind.answers, weights, strict=True)})
    return result


@lru_cache(1)
def _prior() -> np.ndarray:
    """P(state), an array of SHAPE."""
    site = np.full(3, 1 / 3)
    large = np.array([1 - law.P_LARGE, law.P_LARGE])
    peak = np.full(3, 1 / 3)
    gross = np.array([law.P_ULCER, 1 - law.P_ULCER])
    t = np.array([law.P_T[False], law.P_T[True]])
    n = np.array(law.P_N)
    m1 = np.array(law.P_M1)
    spread = np.stack([1 - m1, m1 * law.P_LIVER, m1 * (1 - law.P_LIVER)], axis=1)
    wet = np.array([law.P_ASCITES[s == "peritoneum"] for s in law.SPREADS])
    ascites = np.stack([1 - wet, wet], axis=1)
    return np.einsum("s,l,p,g,lt,tn,nm,ma->slpgtnma", site, large, peak, gross, t, n, spread, ascites)


def _along(axis: int, values) -> np.ndarray:
    """Values of one state axis, shaped to multiply an array of SHAPE."""
    shape = [1] * len(SHAPE)
    shape[axis] = len(values)
    return np.array(values, float).reshape(shape)


def _lesion(lesions) -> np.ndarray:
    """Likelihood of the tumour being one of `lesions`, each as probable as the other."""
    seen = np.zeros(SHAPE[:3])
    for lesion in lesions:
        seen[law.SITES.index(lesion.site), int(lesion.size_cm > law.LARGE_CM), law.PEAKS.index(lesion.peak)] += 1 / len(lesions)
    return seen.reshape(*SHAPE[:3], 1, 1, 1, 1, 1)


def _image(patient: Truth) -> np.ndarray:
    sign = lambda present, probability: probability if present else 1 - probability  # noqa: E731
    likelihood = _lesion(patient.lesions)
    likelihood = likelihood * _along(4, [sign(patient.stranding, law.P_STRANDING[t == "T4a"]) for t in law.T_STAGES])
    nodes = [sign(patient.nodes_visible, law.P_REACTIVE_NODES if n == "N0" else 1.0) for n in law.N_STAGES]
    liver = [float((s == "liver") == (patient.facts.spread == "liver")) for s in law.SPREADS]
    wet = [float(a == patient.facts.ascites) for a in (False, True)]
    return likelihood * _along(5, nodes) * _along(6, liver) * _along(7, wet)


def _boxes(patient: Truth) -> np.ndarray:
    nodal = [float((n != "N0") == (patient.facts.n != "N0")) for n in law.N_STAGES]
    return _lesion(patient.lesions[:1]) * _along(5, nodal)


def _table(patient: Truth) -> np.ndarray:
    """Likelihood of the abnormal values shown, and of the others being normal or not measured."""
    axis_of = {"node_positive": 5, "node_advanced": 5, "peritoneum": 6, "t4": 4, "liver": 6, "ulcerative": 3, "metastatic": 6}
    labs = {lab.name: lab for lab in patient.labs}
    likelihood = np.ones([1] * len(SHAPE))
    for name, (fact, false_mean, true_mean, deviation, side) in law.INFORMATIVE_LABS.items():
        axis = axis_of[fact]
        by_fact = {holds: _lab_likelihood(labs[name], mean, deviation, side) for holds, mean in ((False, false_mean), (True, true_mean))}
        likelihood = likelihood * _along(axis, [by_fact[_holds(fact, axis, value)] for value in AXES[axis]])
    return likelihood


def _holds(fact: str, axis: int, value) -> bool:
    facts = {"site": "", "size_cm": 0.0, "peak": "", "gross": "", "t": "", "n": "N0", "spread": "none", "ascites": False}
    facts[{3: "gross", 4: "t", 5: "n", 6: "spread"}[axis]] = value
    return Facts(**facts).lab_fact(fact)


def _lab_likelihood(lab, mean: float, deviation: float, side: str) -> float:
    from scipy.stats import norm

    limit = getattr(lab, side)
    low = -np.inf if lab.lower is None else np.log(lab.lower / limit)
    high = np.inf if lab.upper is None else np.log(lab.upper / limit)
    ratio = None if lab.value is None else np.log(lab.value / limit)
    if ratio is not None and not low <= ratio <= high:
        return float(norm.pdf(ratio, mean, deviation))
    normal = norm.cdf(high, mean, deviation) - norm.cdf(low, mean, deviation)
    return float(law.P_LAB_MISSING + (1 - law.P_LAB_MISSING) * normal)


@lru_cache(1)
def _answers() -> tuple[np.ndarray | None, ...]:
    """For each kind, the index of the answer in every state (flattened SHAPE)."""
    states = [
        Facts(AXES[0][site], 6.0 if AXES[1][large] else 4.0, *(AXES[2 + axis][i] for axis, i in enumerate(rest)))
        for site, large, *rest in np.ndindex(SHAPE)
    ]
    return tuple(np.array([k.answers.index(k.answer(f)) for f in states]) if k.answers else None for k in KINDS)
