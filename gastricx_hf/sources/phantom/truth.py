"""The generative model of a phantom patient: every probability that the oracle needs is a constant of this file.

Image, table and box each carry part of the truth:
- the CT may show a second, physiological wall thickening drawn by the same law as the tumour; only the box tells which is which;
- nodes are drawn for N+ and, as reactive nodes, for some N0 patients; only the metastatic ones get a box;
- peritoneal spread shows as ascites in about half of its patients, and raises CA125 in most;
- an ulcerated tumour bleeds: the CT at this resolution does not show it, haemoglobin does.
The proportions serve the probes; they are not epidemiology.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gastricx_hf.cases.indicators import make_lab
from gastricx_hf.cases.staging import overall_stage
from gastricx_hf.schema import Lab, Phase

SITES = ("upper third", "middle third", "lower third")
PEAKS = ("arterial phase", "venous phase", "delayed phase")
GROSS = ("ulcerative", "mass-forming")
SPREADS = ("none", "liver", "peritoneum")
T_STAGES = ("T1", "T2", "T3", "T4a")
N_STAGES = ("N0", "N1", "N2", "N3a")

LARGE_CM = 5.0
P_LARGE = 0.5
P_T = {False: (0.20, 0.25, 0.30, 0.25), True: (0.05, 0.10, 0.35, 0.50)}
"""P(T1..T4a | larger than LARGE_CM)."""
P_N = ((0.80, 0.10, 0.06, 0.04), (0.60, 0.20, 0.12, 0.08), (0.40, 0.22, 0.20, 0.18), (0.20, 0.25, 0.27, 0.28))
"""P(N0..N3a | T), a row per T."""
P_M1 = (0.15, 0.35, 0.50, 0.60)
"""P(M1 | N)."""
P_LIVER = 0.45
"""P(liver | M1); the rest is peritoneal."""
P_ULCER = 0.5
P_MIMIC = 0.7
P_STRANDING = {False: 0.1, True: 0.9}
"""P(perigastric fat stranding | T4)."""
P_REACTIVE_NODES = 0.4
P_ASCITES = {False: 0.04, True: 0.55}
"""P(ascites | peritoneal spread)."""
P_LAB_MISSING = 0.05
P_ARTERIAL = 0.85
P_BOXES = 0.95
P_MALE = 0.675  # Figure 2A, facts.md P7

INFORMATIVE_LABS = {
    # item: (which fact, mean log ratio to the limit if false, if true, standard deviation, which limit)
    "Tumor Markers CEA": ("node_positive", np.log(0.40), np.log(2.4), 0.60, "upper"),
    "Tumor Markers CA199": ("node_advanced", np.log(0.40), np.log(2.0), 0.70, "upper"),
    "Tumor Markers CA125": ("peritoneum", np.log(0.40), np.log(2.6), 0.50, "upper"),
    "Tumor Markers CA724": ("t4", np.log(0.40), np.log(1.8), 0.60, "upper"),
    "Tumor Markers AFP": ("liver", np.log(0.35), np.log(3.0), 0.70, "upper"),
    "CBC Hemoglobin": ("ulcerative", np.log(1.12), np.log(0.80), 0.08, "lower"),
    "Biochemistry Albumin": ("metastatic", np.log(1.10), np.log(0.92), 0.07, "lower"),
}
PLAIN_LABS = (
    "CBC White Blood Cell Count",
    "CBC Platelet Count",
    "Biochemistry ALT",
    "Biochemistry AST",
    "Biochemistry Creatinine",
    "Biochemistry Total Bilirubin",
    "Biochemistry Fasting Glucose",
)
"""Measured in everybody, related to nothing: a model that reads meaning into them is wrong."""


@dataclass(frozen=True)
class Lesion:
    """A wall thickening as the CT shows it: site, place along the stomach axis (0 cardia .. 1 pylorus), size, peak."""

    site: str
    place: float
    angle: float
    size_cm: float
    peak: str


@dataclass(frozen=True)
class Facts:
    """What the questions ask for."""

    site: str
    size_cm: float
    peak: str
    gross: str
    t: str
    n: str
    spread: str
    ascites: bool

    @property
    def large(self) -> bool:
        return self.size_cm > LARGE_CM

    def lab_fact(self, name: str) -> bool:
        """Whether the fact that drives a lab (second word of INFORMATIVE_LABS) holds."""
        return {
            "node_positive": self.n != "N0",
            "node_advanced": self.n in ("N2", "N3a"),
            "peritoneum": self.spread == "peritoneum",
            "t4": self.t == "T4a",
            "liver": self.spread == "liver",
            "ulcerative": self.gross == "ulcerative",
            "metastatic": self.spread != "none",
        }[name]


@dataclass(frozen=True)
class Truth:
    """One planted patient. `lesions[0]` is the tumour; a second lesion, if any, is the mimic."""

    case_id: str
    index: int
    seed: int
    sex: str
    age: int
    lesions: tuple[Lesion, ...]
    facts: Facts
    stranding: bool
    nodes_visible: bool
    labs: tuple[Lab, ...]
    shifts_mm: dict[Phase, tuple[float, float, float]]
    phases: tuple[Phase, ...]
    boxed: bool

    @property
    def overall_stage(self) -> str:
        return overall_stage(self.facts.t, self.facts.n, "M0" if self.facts.spread == "none" else "M1")

    def rng(self, purpose: int) -> np.random.Generator:
        """A generator of its own for each thing drawn later (CT, picture, wording), so that none disturbs another."""
        return np.random.default_rng([self.seed, self.index, purpose])


def draw_truth(index: int, seed: int = 0) -> Truth:
    """Draw patient number `index`; the same index and seed always give the same patient."""
    rng = np.random.default_rng([seed, index])
    sex = "male" if rng.random() < P_MALE else "female"
    sites = rng.permutation(len(SITES))
    lesions = tuple(_draw_lesion(rng, SITES[site]) for site in sites[: 1 + (rng.random() < P_MIMIC)])
    facts = _draw_facts(rng, lesions[0])
    breath = rng.normal(0, 3.0, size=(len(Phase), 3)) * (0.4, 0.4, 1.0)  # breathing moves mostly along the body axis
    shifts = {phase: tuple(breath[i].round(2).tolist()) for i, phase in enumerate(Phase)} | {Phase.VENOUS: (0.0, 0.0, 0.0)}
    return Truth(
        case_id=f"PHANTOM{index:05d}",
        index=index,
        seed=seed,
        sex=sex,
        age=int(np.clip(rng.normal(61, 11), 24, 89)),
        lesions=lesions,
        facts=facts,
        stranding=bool(rng.random() < P_STRANDING[facts.t == "T4a"]),
        nodes_visible=bool(facts.n != "N0" or rng.random() < P_REACTIVE_NODES),
        labs=_draw_labs(rng, facts, sex),
        shifts_mm=shifts,
        phases=tuple(p for p in Phase if p is not Phase.ARTERIAL or rng.random() < P_ARTERIAL),
        boxed=bool(rng.random() < P_BOXES),
    )


def _draw_lesion(rng, site: str) -> Lesion:
    low, high = {"upper third": (0.06, 0.28), "middle third": (0.40, 0.60), "lower third": (0.72, 0.92)}[site]
    size = rng.uniform(5.5, 8.5) if rng.random() < P_LARGE else rng.uniform(2.5, 4.5)
    return Lesion(site, float(rng.uniform(low, high)), float(rng.uniform(0, 2 * np.pi)), round(float(size), 1), PEAKS[rng.integers(3)])


def _draw_facts(rng, tumour: Lesion) -> Facts:
    t = int(rng.choice(4, p=P_T[tumour.size_cm > LARGE_CM]))
    n = int(rng.choice(4, p=P_N[t]))
    spread = "none" if rng.random() >= P_M1[n] else "liver" if rng.random() < P_LIVER else "peritoneum"
    return Facts(
        site=tumour.site,
        size_cm=tumour.size_cm,
        peak=tumour.peak,
        gross=GROSS[int(rng.random() >= P_ULCER)],
        t=T_STAGES[t],
        n=N_STAGES[n],
        spread=spread,
        ascites=bool(rng.random() < P_ASCITES[spread == "peritoneum"]),
    )


def _draw_labs(rng, facts: Facts, sex: str) -> tuple[Lab, ...]:
    labs = []
    for name, (fact, false_mean, true_mean, deviation, side) in INFORMATIVE_LABS.items():
        limit = getattr(make_lab(name, None, sex), side)
        value = limit * np.exp(rng.normal(true_mean if facts.lab_fact(fact) else false_mean, deviation))
        labs.append(make_lab(name, None if rng.random() < P_LAB_MISSING else _rounded(value), sex))
    for name in PLAIN_LABS:
        empty = make_lab(name, None, sex)
        low, high = empty.lower or 0.0, empty.upper
        value = max(low + (high - low) * rng.normal(0.5, 0.26), 0.2 * high)
        labs.append(make_lab(name, None if rng.random() < P_LAB_MISSING else _rounded(value), sex))
    return tuple(labs)


def _rounded(value: float) -> float:
    return round(float(value), 1 if value >= 10 else 2)
