"""Predictions: a checkpoint and a dataset in, one JSON line per example out, written as it is made."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path

from gastricx_hf.provenance import Provenance, package_version, read_manifest
from gastricx_hf.schema import Prediction, Schema, Split


def predict(
    checkpoint: str | Path,
    dataset: str | Path,
    out: str | Path,
    schema: Schema | str = Schema.IMAGE_TABLE_BBOX,
    split: Split | str = Split.TEST,
    limit: int | None = None,
    seed: int = 0,
    progress: bool = True,
) -> Path:
    """Answer every `vqa` question of a split and append one `schema.Prediction` line each to `out`.

    Killed, it resumes: finished lines are kept, a half-written last line is dropped. A patient's volume is encoded once
    for all of the patient's questions; closed questions are scored by the log-probability of each option, open ones generated.

    Args:
        checkpoint: folder or Hub id.
        dataset: folder made by `gastricx build`.
        limit: only the first N questions, for a quick look.

    Raises:
        ValueError: `out` holds predictions of another run, or the checkpoint half-loads.
    """
    from datasets import load_dataset
    from tqdm import tqdm

    from gastricx_hf.inputs.collate import VQACollator, undecoded
    from gastricx_hf.models.loading import load_adapter
    from gastricx_hf.preprocessing.store import store_beside

    schema, split, out = Schema(schema), Split(split), Path(out)
    manifest = read_manifest(dataset)
    adapter = load_adapter(checkpoint)
    store = store_beside(dataset, adapter.processor.preprocessing)
    provenance = Provenance(
        model=_model_name(checkpoint),
        data_revision=manifest["data_revision"],
        split_hash=manifest["split_hash"],
        preprocessing_hash=store.settings.hash,
        seed=seed,
        phantom=manifest["phantom"],
        package_version=package_version(),
        language=manifest["language"],
    ).as_dict()
    done = finished_ids(out, provenance)
    rows = undecoded(load_dataset(str(dataset), "vqa", split=str(split)))
    rows = rows.select(range(min(limit, len(rows)))) if limit else rows
    todo = [i for i, question_id in enumerate(rows["question_id"]) if question_id not in done]
    case_ids = rows["case_id"]
    collator = VQACollator(adapter.processor, store, schema, train=False)
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("a", encoding="utf-8") as file, tqdm(total=len(todo), desc=f"vqa {schema}", unit="question", disable=not progress) as bar:
        for _, indices in groupby(todo, key=lambda i: case_ids[i]):
            batch = [rows[i] for i in indices]
            for answered in _answer(adapter, collator, batch):
                file.write(json.dumps(_line(schema, provenance, *answered), ensure_ascii=False) + "\n")
            file.flush()
            bar.update(len(batch))
    return out


def _line(schema: Schema, provenance: dict, row: dict, options: list[str], logprobs: list[float], text: str) -> dict:
    return Prediction(
        example_id=row["question_id"],
        case_id=row["case_id"],
        task="vqa",
        schema=str(schema),
        category=row["category"],
        answer_type=row["answer_type"],
        question=row["question"],
        options=options,
        option_logprobs=logprobs,
        prediction=text,
        reference=row["answer"],
        provenance=provenance,
    ).as_dict()


def _answer(adapter, collator, rows: list[dict]):
    """Yield (row, options, log-probabilities, answer) for the questions of one patient."""
    closed = [row for row in rows if row["options"]]
    opened = [row for row in rows if not row["options"]]
    if closed:
        for row, logprobs in zip(closed, adapter.score_options(collator(closed)), strict=True):
            options = list(row["options"])
            values = [float(v) for v in logprobs[: len(options)]]
            yield row, options, values, options[max(range(len(options)), key=values.__getitem__)]
    if opened:
        for row, text in zip(opened, adapter.generate(collator(opened)), strict=True):
            yield row, [], [], text


def _model_name(checkpoint: str | Path) -> str:
    """A name without a local path: the run's folder name, or the Hub id."""
    path = Path(checkpoint)
    return (path.parent.name if path.name == "checkpoint" else path.name) if path.exists() else str(checkpoint)


def finished_ids(out: Path, provenance: dict) -> set[str]:
    """Ids already in a predictions file; a half-written last line is cut off.

    Raises:
        ValueError: the file was made by another run (its provenance differs).
    """
    if not out.is_file():
        return set()
    text = out.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        aside = out.with_name(out.name + ".part")
        aside.write_text(whole, encoding="utf-8")
        aside.replace(out)
    done = set()
    for line in filter(None, whole.split("\n")):
        record = json.loads(line)
        changed = sorted(k for k in provenance if record["provenance"].get(k) != provenance[k])
        if changed:
            raise ValueError(f"{out} holds predictions with another {', '.join(changed)}: move it away, or write to another file")
        done.add(record["example_id"])
    return done
