"""`gastricx VERB`: one verb for each step, in the order in which data flows."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from gastricx_hf.schema import Schema, Split


def main(argv: list[str] | None = None) -> int:
    """Run one verb. Exit codes: 0 done, 1 something was wrong and is named, 2 wrong usage."""
    arguments, rest = _parser().parse_known_args(argv)
    if rest and arguments.verb != "train":
        _parser().error(f"unrecognised arguments: {' '.join(rest)}")
    arguments.rest = rest
    try:
        arguments.do(arguments)
        return 0
    except KeyboardInterrupt:
        print("stopped; the same command resumes", file=sys.stderr)
        return 1
    except (ValueError, OSError, RuntimeError) as error:  # what our code raises for bad input: one sentence, no trace
        print(f"gastricx {arguments.verb}: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gastricx",
        description="Gastric-X: build the dataset, train, predict, score and publish. Start with `gastricx demo`.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="source -> build -> train -> predict -> score -> report -> push; each step's output is the next one's input.",
    )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)

    demo = _verb(verbs, "demo", _demo, "everything once, on phantom patients, in minutes; no network", "gastricx demo")
    demo.add_argument("--out", type=Path, default=Path("demo"), help="folder for all of it (default: demo)")
    demo.add_argument("--patients", type=int, default=400, help="phantom patients (default: 400)")
    demo.add_argument("--seed", type=int, default=0)
    demo.add_argument("--epochs", type=float, default=None, help="passes over the training patients (default: the demo's recipe)")

    example = "gastricx build --source phantom --patients 40 --out gastric-x"
    build = _verb(verbs, "build", _build, "a release folder or phantom patients -> the folder that load_dataset reads", example)
    build.add_argument("--source", required=True, help="folder of the release, or 'phantom'")
    build.add_argument("--out", type=Path, default=Path("gastric-x"), help="dataset folder (default: gastric-x)")
    build.add_argument("--language", choices=("en", "cn"), default="en", help="language of reports and questions")
    build.add_argument("--seed", type=int, default=0, help="seed of the patient-level 70/15/15 split, and of phantom patients")
    build.add_argument("--embed", action="store_true", help="put the volumes' bytes into the tables (small sets) instead of references")
    build.add_argument("--patients", type=int, default=40, help="with --source phantom: how many")
    build.add_argument("--size", choices=("tests", "small", "full"), default="tests", help="with --source phantom: volume size")

    audit = _verb(
        verbs, "audit", _audit, "everything that is wrong with a release folder, one row each", "gastricx audit release/ --voxels"
    )
    audit.add_argument("source", type=Path, help="folder of the release")
    audit.add_argument("--voxels", action="store_true", help="also read every voxel: units, padding, NaN, truncation")
    audit.add_argument("--out", type=Path, help="write the findings as CSV")
    audit.add_argument("--language", choices=("en", "cn"), default="en")

    example = "gastricx train --dataset gastric-x --schemas image+table+bbox --output_dir runs/first"
    _verb(verbs, "train", _train, "fine-tune a model on the training split; resumes after a kill", example, add_help=False)

    example = "gastricx predict runs/first/checkpoint --dataset gastric-x --schema image"
    predict = _verb(verbs, "predict", _predict, "answer a split with a checkpoint: one JSON line per question; resumes", example)
    predict.add_argument("checkpoint", help="checkpoint folder or Hub id")
    predict.add_argument("--dataset", type=Path, default=Path("gastric-x"), help="folder made by `gastricx build`")
    predict.add_argument("--schema", choices=[*map(str, Schema), "all"], default="all", help="input schema (default: all four)")
    predict.add_argument("--split", choices=list(map(str, Split)), default="test")
    predict.add_argument("--limit", type=int, help="only the first N questions")
    predict.add_argument("--out", type=Path, help="folder for the files (default: predictions/ beside the checkpoint)")

    score = _verb(verbs, "score", _score, "predictions -> scores.json with intervals from resampled patients", "gastricx score runs/first")
    score.add_argument("folder", type=Path, metavar="RUN", help="run folder with predictions/")
    score.add_argument("--dataset", type=Path, help="check that every question of the split is answered; score the majority answer too")
    score.add_argument("--split", choices=list(map(str, Split)), default="test")
    score.add_argument("--resamples", type=int, default=1000)
    score.add_argument("--seed", type=int, default=0)
    score.add_argument("--allow-partial", action="store_true", help="score what is there and mark the result")

    push = _verb(
        verbs,
        "push",
        _push,
        "checkpoint, card, scores and predictions to the Hub; a dry run until --yes",
        "gastricx push runs/first --repo you/name",
    )
    push.add_argument("folder", type=Path, metavar="RUN", help="run folder")
    push.add_argument("--repo", required=True, help="you/name on the Hub")
    push.add_argument("--yes", action="store_true", help="really send (otherwise the files are only listed)")
    push.add_argument("--public", action="store_true", help="make the repositories public (otherwise private)")
    return parser


def _verb(verbs, name: str, do, words: str, example: str, **options) -> argparse.ArgumentParser:
    parser = verbs.add_parser(name, help=words, description=words, epilog=f"example: {example}", **options)
    parser.set_defaults(do=do, words=words)
    return parser


def _demo(arguments) -> None:
    from gastricx_hf.demo import demo

    demo(arguments.out, patients=arguments.patients, seed=arguments.seed, epochs=arguments.epochs)


def _build(arguments) -> None:
    from gastricx_hf.dataset_script.build import build

    source = arguments.source
    if source == "phantom":
        from gastricx_hf.sources.phantom import write_phantom

        source = arguments.out.with_name(arguments.out.name + "-source")
        write_phantom(source, arguments.patients, seed=arguments.seed, size=arguments.size)
    manifest = build(source, arguments.out, language=arguments.language, seed=arguments.seed, embed=arguments.embed)
    print(f"{arguments.out}: {manifest['counts']}{' (PHANTOM)' if manifest['phantom'] else ''}")
    print(f"next: python -c \"from datasets import load_dataset; print(load_dataset('{arguments.out}', 'vqa'))\"")


def _audit(arguments) -> None:
    from gastricx_hf.cases.audit import audit, write_audit
    from gastricx_hf.sources.release import read_release

    findings = audit(read_release(arguments.source, language=arguments.language), voxels=arguments.voxels)
    for finding in findings:
        print(f"{finding.severity:8} {finding.case_id} {finding.file} {finding.field}: {finding.message} Fix: {finding.fix}")
    if arguments.out:
        write_audit(findings, arguments.out)
    errors = sum(f.severity == "error" for f in findings)
    print(f"{errors} errors, {len(findings) - errors} warnings")
    if errors:
        raise ValueError(f"{errors} errors in {arguments.source}")


def _train(arguments) -> None:
    from transformers import HfArgumentParser

    from gastricx_hf.training.arguments import GastricTrainingArguments
    from gastricx_hf.training.train import train

    parser = HfArgumentParser(GastricTrainingArguments, prog="gastricx train", description=arguments.words)
    (training_arguments,) = parser.parse_args_into_dataclasses(arguments.rest)
    checkpoint = train(training_arguments)
    print(f"checkpoint: {checkpoint}\nnext: gastricx predict {checkpoint} --dataset {training_arguments.dataset}")


def _predict(arguments) -> None:
    from gastricx_hf.inference.run import predict

    folder = arguments.out or Path(arguments.checkpoint).parent / "predictions"
    for schema in Schema if arguments.schema == "all" else [Schema(arguments.schema)]:
        out = folder / f"vqa-{schema}.jsonl"
        predict(arguments.checkpoint, arguments.dataset, out, schema=schema, split=arguments.split, limit=arguments.limit)
        print(out)
    print(f"next: gastricx score {folder.parent}")


def _score(arguments) -> None:
    from gastricx_hf.evaluation.score import score_run
    from gastricx_hf.evaluation.tables import vqa_table

    expected = train_rows = None
    if arguments.dataset:
        from datasets import load_dataset

        rows = load_dataset(str(arguments.dataset), "vqa")
        expected = rows[arguments.split]["question_id"]
        train_rows = rows["train"].select_columns(["category", "options", "answer"]).to_list()
    scores = score_run(arguments.folder, expected, train_rows, arguments.allow_partial, arguments.resamples, arguments.seed)
    print(vqa_table(scores))
    print(f"{arguments.folder / 'scores.json'}\nnext: gastricx push {arguments.folder} --repo you/name")


def _push(arguments) -> None:
    from gastricx_hf.hub.push import push

    push(arguments.folder, arguments.repo, yes=arguments.yes, public=arguments.public)
