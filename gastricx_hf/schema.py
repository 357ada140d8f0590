"""The records that cross folders. Every other module speaks in these words."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum


class Phase(StrEnum):
    """Contrast phases in acquisition order; every phase axis in the package uses this order (paper 3.2)."""

    NON_CONTRAST = "non_contrast"
    ARTERIAL = "arterial"
    VENOUS = "venous"
    DELAYED = "delayed"

    @classmethod
    def parse(cls, text: str) -> Phase:
        """Read a phase name, also in the paper's other words ("equilibrium", facts.md I13).

        Raises:
            ValueError: the word names no phase; the message lists what is accepted.
        """
        word = text.strip().lower().replace("-", "_").replace(" ", "_")
        word = {"equilibrium": "delayed", "resting": "non_contrast", "plain": "non_contrast", "portal_venous": "venous"}.get(word, word)
        if word not in cls._value2member_map_:
            raise ValueError(f"unknown phase {text!r}: expected one of {[str(p) for p in cls]} or 'equilibrium'")
        return cls(word)


class Structure(StrEnum):
    """What a box surrounds (paper 3.2; the release says lesion, nodule, stomach_body)."""

    TUMOR = "tumor"
    LYMPH_NODE = "lymph_node"
    STOMACH = "stomach"


class Split(StrEnum):
    TRAIN = "train"
    VALIDATION = "validation"
    TEST = "test"


class Schema(StrEnum):
    """The four input schemas of the paper's Section 4 (facts.md P50)."""

    IMAGE = "image"
    IMAGE_TABLE = "image+table"
    IMAGE_BBOX = "image+bbox"
    IMAGE_TABLE_BBOX = "image+table+bbox"

    @property
    def table(self) -> bool:
        return "table" in self.value

    @property
    def bbox(self) -> bool:
        return "bbox" in self.value


@dataclass(frozen=True)
class Box3D:
    """A box in voxel indices of the stored volume of `phase`.

    Axis order is nibabel's (i, j, k); the range is half-open, `min <= index < max`.

    Raises:
        ValueError: an axis is empty or reversed, or starts below zero.
    """

    structure: Structure
    phase: Phase
    min: tuple[int, int, int]
    max: tuple[int, int, int]

    def __post_init__(self):
        if any(a < 0 or b <= a for a, b in zip(self.min, self.max, strict=True)):
            raise ValueError(f"{self.structure} box {self.min}..{self.max} is empty, reversed or negative")

    def inside(self, shape: tuple[int, ...]) -> bool:
        """Whether the box lies within a volume of this (i, j, k) shape."""
        return all(b <= n for b, n in zip(self.max, shape, strict=False))


@dataclass(frozen=True)
class Lab:
    """One laboratory value with its reference range; `value is None` means not measured, which is not normal."""

    name: str
    value: float | None
    unit: str
    lower: float | None = None
    upper: float | None = None
    before_surgery: bool = True


@dataclass(frozen=True)
class Question:
    """A question-answer pair. `evidence` is the report sentence that holds the answer: never shown to a model."""

    question_id: str
    question: str
    answer: str
    category: str
    source_report: str = ""
    evidence: str = ""


@dataclass(frozen=True)
class Case:
    """One patient in one language; paths are absolute, or `hf://` references.

    Attributes:
        volumes: phase -> NIfTI in HU; a phase that was not acquired is absent.
        tumor_masks, organ_masks: phase -> label NIfTI on the same grid as the phase.
        items: every record item by its name in indicators.csv; `None` is not recorded.
        t_stage .. overall_stage: "T3", "N1", "M0", "III"; `None` where not recorded.
        reports: "ct", "endoscopy", "diagnosis" -> text.
    """

    case_id: str
    language: str = "en"
    volumes: dict[Phase, str] = field(default_factory=dict)
    tumor_masks: dict[Phase, str] = field(default_factory=dict)
    organ_masks: dict[Phase, str] = field(default_factory=dict)
    endoscopy: str | None = None
    boxes: tuple[Box3D, ...] = ()
    sex: str | None = None
    age: int | None = None
    labs: tuple[Lab, ...] = ()
    items: dict[str, str | float | None] = field(default_factory=dict)
    t_stage: str | None = None
    n_stage: str | None = None
    m_stage: str | None = None
    overall_stage: str | None = None
    reports: dict[str, str] = field(default_factory=dict)
    questions: tuple[Question, ...] = ()


@dataclass(frozen=True)
class Prediction:
    """One line of a predictions file: everything that scoring needs, so no model or dataset is opened again.

    Attributes:
        options, option_logprobs: the closed answers and the model's log-probability of each (empty for an open question).
        prediction: the best option, or the generated text.
        answer_type: "closed" or "open".
        provenance: `Provenance.as_dict()` of the run that made it.
    """

    example_id: str
    case_id: str
    task: str
    schema: str
    category: str
    answer_type: str
    question: str
    options: list[str]
    option_logprobs: list[float]
    prediction: str
    reference: str
    provenance: dict

    def as_dict(self) -> dict:
        return asdict(self)


@dataclass(frozen=True)
class Score:
    """One number with its 95% interval from resampling patients; 0-100 except ranks.

    Attributes:
        variant: the metric's full name, with everything that the paper leaves unspecified.
        group: "all", or "category=..." and the like.
    """

    task: str
    schema: str
    metric: str
    variant: str
    group: str
    value: float
    low: float
    high: float
    n_patients: int
    n_items: int
    provenance: dict

    def as_dict(self) -> dict:
        return asdict(self)
