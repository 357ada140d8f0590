"""The dataset card (README.md) of a built folder: YAML that `datasets` and the Hub read, and the text of card.md."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import jinja2
from datasets import DatasetInfo
from datasets.info import DatasetInfosDict
from datasets.utils.metadata import MetadataConfigs
from huggingface_hub import DatasetCardData

from gastricx_hf.cases.indicators import load_indicators
from gastricx_hf.schema import Case, Phase, Split
from gastricx_hf.tasks import vqa

from .gastric_x import CONFIGS, features

TEMPLATE = Path(__file__).with_name("card.md")
RELEASE = "HaoChen2/Gastric-X"
GATE = {
    "extra_gated_heading": "Request access to Gastric-X",
    "extra_gated_prompt": (
        "These are data of patients, de-identified, under CC BY-NC-ND 4.0. By asking for access you agree to use them for "
        "non-commercial research only, not to try to identify anyone, not to pass them on, and not to publish adapted copies."
    ),
    "extra_gated_fields": {
        "Name": "text",
        "Institution": "text",
        "Institutional e-mail": "text",
        "Country": "country",
        "Purpose": {"type": "select", "options": ["Research", "Education", {"label": "Other", "value": "other"}]},
        "I have signed the consent form of the dataset": "checkbox",
        "I will not try to identify patients and will not redistribute the data": "checkbox",
    },
}


def count(cases: list[Case], rows: dict[str, dict[Split, list[dict]]]) -> dict:
    """Counts for manifest and card, read from the cases, never taken from the paper (facts.md I1-I5)."""
    questions = Counter(question.category or "none given" for case in cases for question in case.questions)
    return {
        "patients": len(cases),
        "volumes": {str(phase): sum(phase in case.volumes for case in cases) for phase in Phase},
        "patients_with": {
            "boxes": sum(bool(case.boxes) for case in cases),
            "tumor_masks": sum(bool(case.tumor_masks) for case in cases),
            "organ_masks": sum(bool(case.organ_masks) for case in cases),
            "endoscopy": sum(case.endoscopy is not None for case in cases),
            "labs": sum(any(lab.value is not None for lab in case.labs) for case in cases),
            "reports": sum(bool(case.reports) for case in cases),
            "questions": sum(bool(case.questions) for case in cases),
        },
        "questions": dict(sorted(questions.items())),
        "rows": {config: {str(split): len(made) for split, made in by_split.items()} for config, by_split in rows.items()},
    }


def dataset_card(manifest: dict, tables: dict[str, str]) -> str:
    """README.md of a built folder.

    Args:
        manifest: what gastricx.json holds.
        tables: configuration -> sha256 of its tables.
    """
    template = jinja2.Template(TEMPLATE.read_text(encoding="utf-8"), undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    body = template.render(
        m=manifest,
        counts=manifest["counts"],
        splits=[str(split) for split in Split],
        configs={config: list(features(config)) for config in CONFIGS},
        indicators=load_indicators(),
        categories=vqa.CATEGORIES,
        release=RELEASE,
    )
    return f"---\n{_metadata(manifest, tables)}\n---\n\n{body}"


def _metadata(manifest: dict, tables: dict[str, str]) -> DatasetCardData:
    # `datasets` refuses a split without rows, so it is not declared. Split sizes are left out: with them,
    # `load_dataset(..., filters=...)` refuses its own result.
    written = {config: [split for split, n in rows.items() if n] for config, rows in manifest["counts"]["rows"].items()}
    written = {config: splits for config, splits in written.items() if splits}
    configs = {c: {"data_files": [{"split": s, "path": f"{c}/{s}-*.parquet"} for s in splits]} for c, splits in written.items()}
    for config, declared in configs.items():
        declared["description"] = f"tables {tables[config]}"  # part of what `datasets` keys its cache by
    configs[next(iter(configs))]["default"] = True
    access = {"license": "apache-2.0"} if manifest["phantom"] else {"license": "cc-by-nc-nd-4.0"} | GATE
    rows = max(sum(by_split.values()) for by_split in manifest["counts"]["rows"].values())
    card = DatasetCardData(
        pretty_name="Gastric-X PHANTOM (synthetic patients)" if manifest["phantom"] else "Gastric-X",
        language=["zh" if manifest["language"] == "cn" else "en"],
        task_categories=["visual-question-answering", "image-to-text", "image-classification", "object-detection"],
        tags=["medical", "radiology", "ct", "gastric-cancer", "multi-phase", "nifti"] + ["phantom", "synthetic"] * manifest["phantom"],
        size_categories=["n<1K" if rows < 1000 else "1K<n<10K" if rows < 10_000 else "10K<n<100K"],
        **access,
    )
    MetadataConfigs(configs).to_dataset_card_data(card)
    DatasetInfosDict({config: DatasetInfo(features=features(config)) for config in written}).to_dataset_card_data(card)
    return card
