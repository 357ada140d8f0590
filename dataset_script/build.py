"""Write the `gastric-x` folder that plain `load_dataset("gastric-x", "vqa")` reads."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml
from tqdm import tqdm

from gastricx_hf.cases.splits import save_splits, split_hash
from gastricx_hf.provenance import MANIFEST, package_version, write_json
from gastricx_hf.schema import Case
from gastricx_hf.sources.release import PHANTOM_FILE, decide_box_convention, iter_release, release_digest

from . import card
from .checks import problems
from .gastric_x import CONFIGS, config_rows, features, split_cases
from .tables import embedded_bytes, write_split

EMBED_LIMIT = 20_000_000_000
"""Largest dataset that is embedded: loading it writes as much again into the Arrow cache."""
PROBLEMS_SHOWN = 10


def build(
    source: str | Path, out: str | Path, language: str = "en", seed: int = 0, embed: bool = False, phantom: bool | None = None
) -> dict:
    """Build the dataset folder from a release folder and return its manifest (gastricx.json).

    The tables refer to the volumes by absolute path, and no volume is copied; with `embed` the files' bytes are put in. The folder
    is written under another name and renamed when complete; an earlier build under `out` is replaced only then.

    Args:
        source: folder with imaging/ and metadata/, of the release or of phantom patients.
        out: the folder to make; call it "gastric-x" for the literal call to work.
        language: "en" or "cn"; one language per folder.
        seed: of the train, validation and test split.
        phantom: whether the patients are invented; None reads it from the source. Real data and phantoms are labelled differently
            everywhere.

    Raises:
        FileExistsError: `out` holds something that `build` did not make, or the source itself.
        ValueError: the source is not fit to build from; the message lists what is wrong. Nothing is left behind.
    """
    source, out = Path(source).absolute(), Path(out).absolute()
    _refuse_target(source, out)
    phantom = _is_phantom(source, phantom)
    inclusive = decide_box_convention(source)
    cases = list(tqdm(iter_release(source, language, inclusive), desc="reading patients", unit=" patients", disable=None))
    _refuse_unfit(cases)
    splits = split_cases(cases, seed)
    rows = {config: config_rows(config, cases, splits) for config in CONFIGS}
    if embed:
        _refuse_large(rows)
    manifest = {
        "data_revision": release_digest(cases),
        "split_hash": split_hash(splits),
        "phantom": phantom,
        "language": language,
        "source": "phantom" if phantom else "release",
        "package_version": package_version(),
        "counts": card.count(cases, rows),
        "box_max_inclusive": inclusive,
        "embedded": embed,
    }
    with _written_aside(out) as part:
        _write_tables(rows, part, embed)
        tables = {config: _digest(part / config) for config, made in rows.items() if any(made.values())}
        save_splits(splits, part / "splits.json")
        write_json(part / MANIFEST, manifest)
        (part / "eval.yaml").write_text(_eval_yaml(phantom), encoding="utf-8")
        (part / "README.md").write_text(card.dataset_card(manifest, tables), encoding="utf-8")
    return manifest


def _refuse_target(source: Path, out: Path) -> None:
    if out.exists() and not (out / MANIFEST).is_file() and not (out.is_dir() and not any(out.iterdir())):
        raise FileExistsError(f"{out} exists and was not made by `gastricx build` (no {MANIFEST}): choose another --out, or move it away")
    if source.resolve().is_relative_to(out.resolve()):
        raise FileExistsError(f"{out} holds the source {source}, which replacing it would delete: choose another --out")


def _is_phantom(source: Path, phantom: bool | None) -> bool:
    marked = (source / PHANTOM_FILE).is_file()
    if marked and phantom is False:
        raise ValueError(f"{source / PHANTOM_FILE} says that these patients are invented: they cannot be built as real data")
    return marked or bool(phantom)


def _refuse_unfit(cases: list[Case]) -> None:
    found = problems(cases)
    if found:
        shown = "\n  ".join(found[:PROBLEMS_SHOWN])
        more = f"\n  and {len(found) - PROBLEMS_SHOWN} more" if len(found) > PROBLEMS_SHOWN else ""
        raise ValueError(f"not built: {len(found)} problem{'s' * (len(found) > 1)} in the source\n  {shown}{more}")


def _refuse_large(rows: dict) -> None:
    size = sum(embedded_bytes(made, features(config)) for config, by_split in rows.items() for made in by_split.values())
    print(f"embedding {size / 1e9:.2f} GB (each question carries its patient's files)")
    if size > EMBED_LIMIT:
        raise ValueError(f"embedding would make {size / 1e9:.0f} GB, the limit is {EMBED_LIMIT / 1e9:.0f} GB: build without --embed")


def _write_tables(rows: dict, folder: Path, embed: bool) -> None:
    total = sum(len(made) for by_split in rows.values() for made in by_split.values())
    with tqdm(total=total, desc="writing rows", unit=" rows", disable=None) as bar:
        for config, by_split in rows.items():
            for split, made in ((split, made) for split, made in by_split.items() if made):
                write_split(made, features(config), folder / config, str(split), embed, bar.update)


def _digest(folder: Path) -> str:
    """sha256 of a configuration's tables. It goes into the card, because `datasets` keys its cache by the card alone: without it a
    rebuilt folder, or another one of the same name, would be answered with the old rows."""
    found = hashlib.sha256()
    for path in sorted(folder.glob("*.parquet")):
        found.update(path.name.encode() + hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def _eval_yaml(phantom: bool) -> str:
    text = Path(__file__).with_name("eval.yaml").read_text(encoding="utf-8")
    content = yaml.safe_load(text)
    return text.replace(f"name: {content['name']}\n", f"name: {content['name']} PHANTOM\n", 1) if phantom else text


@contextmanager
def _written_aside(out: Path) -> Iterator[Path]:
    """A sibling folder that takes the name `out` when the block ends well and vanishes when it does not.

    What killed builds left beside `out` is removed first; what a build that still runs is writing is not.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    for stale in out.parent.glob(f".{out.name}.part-*"):
        if not _runs(stale.name.rpartition("-")[2]):
            shutil.rmtree(stale)
    part = out.with_name(f".{out.name}.part-{os.getpid()}")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    try:
        yield part
        if out.exists():
            # The earlier build goes into the new one's place aside, so that a kill here leaves one of the two whole.
            old = part.with_name(part.name + "-old")
            out.rename(old)
            part.rename(out)
            shutil.rmtree(old)
        else:
            part.rename(out)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _runs(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except PermissionError:
        return True
    except (ValueError, OSError):
        return False
    return True
