"""The model card of a run: what was trained on what, with which recipe, and what it scored; nothing is typed in by hand."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

from gastricx_hf.hub.results import (
    DATASET_ID,
    PHANTOM_LABEL,
    PIPELINES,
    card_results,
    config_name,
    is_phantom,
    prediction_files,
    read_predictions,
    read_provenance,
    read_record,
    read_scores,
    task_metrics,
)
from gastricx_hf.schema import Score

RECIPE = (
    ("optimiser", "optim", "AdamW", lambda v: v.startswith("adamw")),
    ("learning rate, visual side", "learning_rate", "5e-5 (side not stated)", lambda v: v == 5e-5),
    ("text side, times the visual rate", "text_lr_multiplier", "2", lambda v: v == 2),
    ("weight decay", "weight_decay", "0.01", lambda v: v == 0.01),
    ("schedule after warm-up", "lr_scheduler_type", "linear", lambda v: v == "linear"),
    ("warm-up, share of steps", "warmup_steps", "0.1", lambda v: v == 0.1),
    ("batch size", "batch_size", "32", lambda v: v == 32),
    ("epochs", "num_train_epochs", "not stated", None),
    ("steps", "steps", "not stated", None),
    ("precision", "precision", "not stated", None),
    ("LoRA rank", "lora_rank", "no LoRA", lambda v: v == "no LoRA"),
    ("input schemas in training", "schemas", "not stated", None),
    ("training questions used", "limit", "all", lambda v: v == "all"),
    ("seed", "seed", "not stated", None),
)
"""Row name, argument, the paper's value (facts.md P47-P50), and whether a value is the paper's (None: the paper gives none)."""

SPLIT = "predictions"
"""Split name in the predictions dataset: a prediction does not record which split its patient is in."""


def model_card(run_dir: str | Path, repo_id: str) -> str:
    """README.md of the model repository `repo_id`, with its YAML header, from the files of a run.

    The text is that of `model_cards/<model type>.md`, or `base.md` for a family that has none.

    Raises:
        FileNotFoundError: the run has no checkpoint or no training record.
        ValueError: a record is broken.
    """
    checkpoint = Path(run_dir) / "checkpoint"
    config = read_record(checkpoint / "config.json", run_dir, ("model_type",))
    training = read_record(Path(run_dir) / "training.json", run_dir, ("arguments", "steps", "parameters", "trainable_parameters"))
    provenance, scores = read_provenance(run_dir), read_scores(run_dir)
    configs = [config_name(path) for path in prediction_files(run_dir)]
    arguments, tasks = training["arguments"], sorted({s.task for s in scores} or {"vqa"})
    family = f"{config['model_type'].replace('-', '_')}.md"
    return _render(
        family if (template_folder() / family).is_file() else "base.md",
        header=metadata(repo_id, provenance, scores, tasks),
        repo_id=repo_id,
        predictions_id=f"{repo_id}-predictions",
        dataset_id=DATASET_ID,
        configs=configs,
        config=config,
        architecture=", ".join(config.get("architectures") or [config["model_type"]]),
        provenance=provenance,
        phantom_model=provenance["phantom"],
        phantom_scores=any(map(is_phantom, scores)),
        phantom_label=PHANTOM_LABEL,
        other_split=any(s.provenance["split_hash"] != provenance["split_hash"] for s in scores),
        tasks=", ".join(PIPELINES[task].replace("-", " ") for task in tasks),
        start=start_of(provenance["model"]),
        random_start=":" in provenance["model"],
        recipe=recipe(training),
        lora=arguments.get("lora", False),
        has_adapter=(checkpoint / "adapter").is_dir(),
        has_processor=(checkpoint / "processor_config.json").is_file(),
        parameters=f"{training['parameters']:,}",
        trainable=f"{training['trainable_parameters']:,}",
        tables=score_tables(scores),
        metrics=metric_legend(scores),
        preprocessing=preprocessing_settings(checkpoint),
    )


def predictions_card(run_dir: str | Path, repo_id: str) -> str:
    """README.md of the predictions dataset of `repo_id`: its YAML header makes each predictions file a configuration.

    Raises:
        ValueError: two files would become the same configuration.
    """
    from huggingface_hub import DatasetCardData

    provenance = read_provenance(run_dir)
    paths = prediction_files(run_dir)
    configs = [config_name(path) for path in paths]
    flags = {line["provenance"].get("phantom") for path in paths for line in read_predictions(path)}
    if len(set(configs)) < len(configs):
        raise ValueError(f"{run_dir}/predictions: two files would become one configuration ({', '.join(configs)}): rename one")
    files = [{"config_name": c, "data_files": [{"split": SPLIT, "path": f"predictions/{c}.jsonl"}]} for c in configs]
    data = DatasetCardData(
        license="apache-2.0" if flags == {True} else "cc-by-nc-nd-4.0",
        language=_language(provenance),
        tags=["gastric-x", "predictions", *(["phantom"] if True in flags else [])],
        configs=files,
    )
    return _render(
        "predictions.md",
        header=f"---\n{data.to_yaml(line_break=chr(10))}\n---",
        repo_id=repo_id,
        predictions_id=f"{repo_id}-predictions",
        configs=configs,
        split=SPLIT,
        phantom=True in flags,
        real=flags != {True},
        phantom_label=PHANTOM_LABEL,
    )


def _render(template: str, **values) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    templates = Environment(loader=FileSystemLoader(template_folder()), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return templates.get_template(template).render(values).rstrip("\n") + "\n"


def _language(provenance: dict) -> str:
    return {"cn": "zh"}.get(provenance["language"], provenance["language"])


def template_folder() -> Path:
    """Where the templates are: `gastricx_hf.model_cards` as installed, or `model_cards` beside the package in a source tree."""
    try:
        return Path(import_module("gastricx_hf.model_cards").__file__).parent
    except ModuleNotFoundError:
        return Path(__file__).parents[2] / "model_cards"


def metadata(repo_id: str, provenance: dict, scores: list[Score], tasks: list[str]) -> str:
    """The YAML header of the card, with its `---` lines."""
    from huggingface_hub import ModelCardData

    phantom = provenance["phantom"]
    base = provenance["model"]
    data = ModelCardData(
        model_name=repo_id.split("/")[1],
        library_name="transformers",
        license="apache-2.0" if phantom else "cc-by-nc-nd-4.0",
        language=_language(provenance),
        pipeline_tag=PIPELINES[tasks[0]],
        tags=["gastric-x", "medical", "ct", "gastric-cancer", *(["phantom"] if phantom or any(map(is_phantom, scores)) else [])],
        datasets=None if phantom else [DATASET_ID],
        base_model=base if is_hub_id(base) else None,
        eval_results=card_results(scores, repo_id) or None,
    )
    return f"---\n{data.to_yaml(line_break=chr(10))}\n---"


def is_hub_id(name: str) -> bool:
    """Whether a model's name is one on the Hub, and not a new model (FAMILY:SIZE) or a folder."""
    return bool(re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", name)) and not Path(name).exists()


def start_of(model: str) -> str:
    """What the weights were before fine-tuning, in words."""
    if ":" in model:
        return f"`{model}`, a new model with random weights"
    return f"[{model}](https://huggingface.co/{model})" if is_hub_id(model) else f"a checkpoint folder, `{Path(model).name}`"


def recipe(training: dict) -> list[dict]:
    """One row per setting: the paper's value, this run's, and whether they differ."""
    a = training["arguments"]
    size = a["per_device_train_batch_size"] * a.get("gradient_accumulation_steps", 1)
    here = a | {
        "batch_size": size,
        "steps": training["steps"],
        "precision": "bf16" if a.get("bf16") else "fp16" if a.get("fp16") else "fp32",
        "lora_rank": f"{a['lora_rank']} (alpha {a['lora_alpha']})" if a["lora"] else "no LoRA",
        "schemas": ", ".join(re.findall(r"image[+a-z]*", str(a["schemas"]))),
        "limit": "all" if a["limit"] in (None, "None") else f"the first {a['limit']}",
    }
    return [
        {"name": name, "paper": paper, "here": here[key], "differs": same is not None and not same(here[key])}
        for name, key, paper, same in RECIPE
    ]


def score_tables(scores: list[Score]) -> list[dict]:
    """A table of all metrics by schema for each task, and one of the headline metric by group where scores have groups."""
    tables = []
    for task in sorted({s.task for s in scores}):
        headline, metrics = task_metrics(task)
        chosen = [s for s in scores if s.task == task]
        pooled = [s for s in chosen if s.group == "all"]
        names = [m for m in metrics if any(s.metric == m for s in pooled)]
        tables.append(_table(f"### {task.replace('_', ' ')}", pooled, names, lambda s: s.metric))
        grouped = [s for s in chosen if s.group != "all" and s.metric == headline]
        if grouped:
            tables.append(_table(f"{headline} by group:", grouped, sorted({s.group for s in grouped}), lambda s: s.group))
    return tables


def _table(title: str, scores: list[Score], columns: list[str], column_of) -> dict:
    cells = {(s.schema, column_of(s)): f"{s.value:.1f} ({s.low:.1f} to {s.high:.1f})" for s in scores}
    schemas = dict.fromkeys(s.schema for s in scores)
    rows = [[schema, *(cells.get((schema, column), "–") for column in columns)] for schema in schemas]
    return {"title": title, "columns": ["input schema", *columns], "rows": rows}


def metric_legend(scores: list[Score]) -> list[str]:
    """One line per pooled metric: short name, full name, and how many patients and items stand behind it."""
    pooled = [s for s in scores if s.group == "all"]
    lines = (f"{s.metric}: `{s.variant}`, {s.n_patients} patients, {s.n_items} items" for s in pooled)
    return list(dict.fromkeys(lines))


def preprocessing_settings(checkpoint: Path) -> dict:
    """The standardisation settings that the processor carries; empty if it names none."""
    for name in ("processor_config.json", "preprocessor_config.json"):
        if (checkpoint / name).is_file():
            settings = read_record(checkpoint / name, checkpoint.parent).get("preprocessing")
            if isinstance(settings, dict):
                return settings
    return {}
