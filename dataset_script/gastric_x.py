"""The `datasets` builder: a release folder to rows, one configuration per task plus `cases` with everything of a patient.

builder = GastricX(config_name="vqa", data_dir="path/to/release")
builder.download_and_prepare()
builder.as_dataset(split="train")
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import datasets
from datasets import Features, Image, List, Nifti, Value

from gastricx_hf.cases.splits import make_splits
from gastricx_hf.provenance import canonical_hash, package_version
from gastricx_hf.schema import Case, Phase, Split
from gastricx_hf.sources.release import read_release, release_digest
from gastricx_hf.tasks import vqa

TASKS = {vqa.NAME: vqa}
CONFIGS = (*TASKS, "cases")

_TEXT = Value("string")
_LAB = {"name": _TEXT, "value": Value("float64"), "unit": _TEXT, "lower": Value("float64"), "upper": Value("float64")}
_BOX = {"structure": _TEXT, "phase": _TEXT, "min": List(Value("int32")), "max": List(Value("int32"))}
_QUESTION = ("question_id", "question", "answer", "category", "source_report", "evidence")
_MASKS = tuple(f"{kind}_mask_{phase}" for kind in ("tumor", "organ") for phase in Phase)
_STAGES = ("t_stage", "n_stage", "m_stage", "overall_stage")
_REPORTS = {"ct_report": "ct", "endoscopy_report": "endoscopy", "diagnosis": "diagnosis"}

COLUMN_TYPES = {
    **{column: Nifti() for column in (*vqa.VOLUME_COLUMNS, *_MASKS)},
    "endoscopy": Image(),
    "age": Value("int32"),
    "labs": List(_LAB | {"before_surgery": Value("bool")}),
    "boxes": List(_BOX),
    "options": List(_TEXT),
    "questions": List(dict.fromkeys(_QUESTION, _TEXT)),
}
"""Type of every column that is not plain text. A name means the same thing in every configuration."""

CASE_COLUMNS = ("case_id", *vqa.VOLUME_COLUMNS, *_MASKS, *vqa.INPUT_COLUMNS[len(Phase) :], *_STAGES, *_REPORTS, "items", "questions")


def features(config: str) -> Features:
    """The columns of a configuration with their types."""
    columns = CASE_COLUMNS if config == "cases" else TASKS[config].COLUMNS
    return Features({column: COLUMN_TYPES.get(column, _TEXT) for column in columns})


def config_rows(config: str, cases: list[Case], splits: Mapping[Split, list[str]]) -> dict[Split, list[dict]]:
    """The rows of a configuration by split; files are path strings, `None` where there is no file."""
    if config != "cases":
        return TASKS[config].rows(cases, splits)
    by_id = {case.case_id: case for case in cases}
    return {split: [case_row(by_id[case_id]) for case_id in ids] for split, ids in splits.items()}


def case_row(case: Case) -> dict:
    """One patient with everything; `items` is the record as JSON text, since its fields differ between patients."""
    row = vqa.input_row(case)
    row |= {f"tumor_mask_{phase}": case.tumor_masks.get(phase) for phase in Phase}
    row |= {f"organ_mask_{phase}": case.organ_masks.get(phase) for phase in Phase}
    row |= {stage: getattr(case, stage) for stage in _STAGES}
    row |= {column: case.reports.get(report) for column, report in _REPORTS.items()}
    row["items"] = json.dumps(case.items, ensure_ascii=False)
    row["questions"] = [asdict(question) for question in case.questions]
    return {column: row[column] for column in CASE_COLUMNS}


def split_cases(cases: list[Case], seed: int) -> dict[Split, list[str]]:
    """The patient-level splits of a set of cases, stratified by overall stage."""
    return make_splits({case.case_id: case.overall_stage for case in cases}, seed=seed)


@dataclass
class GastricXConfig(datasets.BuilderConfig):
    """Configuration of `GastricX`; `data_dir` is the release folder.

    Attributes:
        language: "en" or "cn": language of record, reports and questions.
        seed: of the train, validation and test split.
    """

    language: str = "en"
    seed: int = 0


class GastricX(datasets.GeneratorBasedBuilder):
    """Rows of a release folder. Volumes stay where they are and are read when a row is used.

    The cache key holds a digest of the data, so that a changed release is never served stale.

    Raises:
        ValueError: `data_dir` is missing.
    """

    BUILDER_CONFIG_CLASS = GastricXConfig
    BUILDER_CONFIGS = [GastricXConfig(name=name, version=datasets.Version("1.0.0")) for name in CONFIGS]
    DEFAULT_CONFIG_NAME = vqa.NAME
    # Rows written at once; a row of `cases` can hold a hundred megabytes when files are embedded.
    DEFAULT_WRITER_BATCH_SIZE = 4

    def __init__(self, *args, data_dir: str | None = None, hash: str | None = None, **kwargs):
        if data_dir is None:
            raise ValueError("GastricX needs data_dir=, the folder that holds imaging/ and metadata/")
        data_dir = str(Path(data_dir).absolute())
        self.cases = read_release(data_dir, kwargs.get("language", GastricXConfig.language))
        digest = canonical_hash([hash, package_version(), release_digest(self.cases)])
        super().__init__(*args, data_dir=data_dir, hash=digest, **kwargs)

    def _info(self) -> datasets.DatasetInfo:
        return datasets.DatasetInfo(features=features(self.config.name))

    def _split_generators(self, dl_manager) -> list[datasets.SplitGenerator]:
        rows = config_rows(self.config.name, self.cases, split_cases(self.cases, self.config.seed))
        # A list is what `datasets` divides among processes and streaming workers.
        return [datasets.SplitGenerator(name=str(split), gen_kwargs={"rows": rows[split]}) for split in Split if rows[split]]

    def _generate_examples(self, rows: list[dict]):
        for row in rows:
            yield row.get("question_id", row["case_id"]), row


def register(name: str = "gastric-x") -> None:
    """Make `load_dataset("gastric-x", "vqa", data_dir=<release folder>)` resolve to this builder anywhere in this process.

    Never done at import: the name then hides a local folder `gastric-x/` ("./gastric-x" still reaches it), and it writes into a
    private table of `datasets`.
    """
    from datasets import packaged_modules

    module = sys.modules[__name__]
    code = packaged_modules._hash_python_lines(inspect.getsource(module).splitlines())
    packaged_modules._PACKAGED_DATASETS_MODULES[name] = (__name__, code)
