"""Send a run to the Hub: checkpoint, card, scores and predictions. Says first what would leave, and refuses what must not."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gastricx_hf.hub.card import model_card, predictions_card
from gastricx_hf.hub.checks import phantom_findings, verify_checkpoint
from gastricx_hf.hub.results import config_name, eval_results_yaml, prediction_files, read_predictions, read_scores
from gastricx_hf.hub.screen import SAFETENSORS, Finding, screen


class PushRefused(ValueError):
    """Something in the run may not leave; the message lists every reason."""


@dataclass(frozen=True)
class Outgoing:
    """One file that would leave: where to ("model" or "dataset" repository, path in it) and from where (a file, or content)."""

    kind: str
    path: str
    source: Path | bytes

    @property
    def size(self) -> int:
        return len(self.source) if isinstance(self.source, bytes) else self.source.stat().st_size

    def screened_content(self) -> bytes:
        """What decides whether it may leave: the whole file, of weights the header alone."""
        if isinstance(self.source, bytes):
            return self.source
        if self.source.suffix != SAFETENSORS:
            return self.source.read_bytes()
        with self.source.open("rb") as file:
            start = file.read(8)
            return start + file.read(min(int.from_bytes(start, "little"), 100_000_000))


@dataclass(frozen=True)
class PushPlan:
    """What a push sends where.

    Attributes:
        repos: "model" and, if the run has predictions, "dataset" -> repository id.
        public: the kinds that become public; all others are private.
    """

    repos: dict[str, str]
    public: frozenset[str]
    files: list[Outgoing]

    def __str__(self) -> str:
        lines = []
        for kind, repo in self.repos.items():
            lines.append(f"{repo} ({kind} repository, {'PUBLIC' if kind in self.public else 'private'})")
            lines += [f"  {_readable(f.size):>9}  {f.path}" for f in self.files if f.kind == kind]
        return "\n".join([*lines, f"{len(self.files)} files, {_readable(sum(f.size for f in self.files))}"])


def push(run_dir: str | Path, repo_id: str, yes: bool = False, public: bool = False) -> PushPlan:
    """List what a run would send to `repo_id` and `<repo_id>-predictions`, check it, and send it if `yes`.

    The checkpoint goes to the root of the model repository, so that `AutoModel.from_pretrained(repo_id)` works; each predictions file
    becomes one configuration of the predictions dataset. Both are private unless `public`; predictions on real patients stay private
    even then, because they repeat questions and answers of gated data.

    Raises:
        PushRefused: local paths, identifiers, pickles, NaN, unlabelled phantom scores, or a checkpoint that does not load; all listed.
        FileNotFoundError, ValueError: the run is incomplete, or `repo_id` is not a repository name.
        PermissionError, ConnectionError: not logged in or not allowed; the Hub cannot be reached.
    """
    run_dir = Path(run_dir)
    plan = make_plan(run_dir, repo_id, public)
    print(plan)
    findings = [finding for file in plan.files for finding in _screen_file(file)] + phantom_findings(run_dir, _generated(plan))
    if not findings:
        findings = verify_checkpoint(run_dir / "checkpoint")
    if findings:
        raise PushRefused("\n".join([f"nothing was sent, for {len(findings)} reason(s):", *(f"- {finding}" for finding in findings)]))
    if public and "dataset" in plan.repos and "dataset" not in plan.public:
        print("The predictions stay private: they repeat questions and answers of gated data.")
    if yes:
        _send(plan)
    else:
        print("Checked; nothing was sent. Add --yes to send.")
    return plan


def make_plan(run_dir: Path, repo_id: str, public: bool = False) -> PushPlan:
    """Every file that a push sends, generated ones included; nothing is checked or sent."""
    from huggingface_hub.utils import validate_repo_id

    if repo_id.count("/") != 1:
        raise ValueError(f"{repo_id!r} is not a repository name: write it as you/name")
    validate_repo_id(f"{repo_id}-predictions")  # the longer of the two names
    repos = {"model": repo_id}
    checkpoint, scores, predictions = run_dir / "checkpoint", read_scores(run_dir), prediction_files(run_dir)
    files = [Outgoing("model", "README.md", model_card(run_dir, repo_id).encode())]
    if results := eval_results_yaml(scores, repo_id):
        files.append(Outgoing("model", ".eval_results/gastric-x.yaml", results.encode()))
    if scores:
        files.append(Outgoing("model", "scores.json", run_dir / "scores.json"))
    kept = [path for path in sorted(checkpoint.rglob("*")) if path.is_file() and path != checkpoint / "README.md"]
    files += [Outgoing("model", path.relative_to(checkpoint).as_posix(), path) for path in kept]
    if predictions:
        repos["dataset"] = f"{repo_id}-predictions"
        files.append(Outgoing("dataset", "README.md", predictions_card(run_dir, repo_id).encode()))
        files += [Outgoing("dataset", f"predictions/{config_name(path)}.jsonl", path) for path in predictions]
    real = any(line["provenance"].get("phantom") is not True for path in predictions for line in read_predictions(path))
    return PushPlan(repos, frozenset(kind for kind in repos if public and not (kind == "dataset" and real)), files)


def _generated(plan: PushPlan) -> dict[str, str]:
    """The texts of the model repository that this push wrote itself."""
    return {f.path: f.source.decode() for f in plan.files if f.kind == "model" and isinstance(f.source, bytes)}


def _screen_file(file: Outgoing) -> list[Finding]:
    where = file.path if file.kind == "model" else f"(predictions) {file.path}"
    if isinstance(file.source, Path) and file.source.is_symlink():
        return [Finding(where, "is a link, so what would leave is not in the run", "Put the file itself there")]
    return [Finding(where + f.where.removeprefix(file.path), f.problem, f.fix) for f in screen(file.path, file.screened_content())]


def _readable(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def _send(plan: PushPlan) -> None:
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi

    api = HfApi()
    with _clear_errors(api.endpoint, plan):
        api.whoami()
        for kind, repo in plan.repos.items():
            if api.repo_exists(repo, repo_type=kind) and not api.repo_info(repo, repo_type=kind).private and kind not in plan.public:
                way = "make it private" if kind == "dataset" else "make it private, give --public"
                raise PushRefused(f"nothing was sent: {repo} exists and is public: {way}, or choose another name")
        for kind, repo in reversed(plan.repos.items()):
            api.create_repo(repo, repo_type=kind, private=kind not in plan.public, exist_ok=True)
            files = [f for f in plan.files if f.kind == kind]
            stale = _stale(api.list_repo_files(repo, repo_type=kind), {f.path for f in files})
            operations = [CommitOperationDelete(path) for path in stale]
            operations += [CommitOperationAdd(f.path, f.source) for f in files]
            commit = api.create_commit(repo, operations, commit_message="Publish a gastricx_hf run", repo_type=kind)
            removed = f", {len(stale)} of an earlier push removed" if stale else ""
            state = "private" if api.repo_info(repo, repo_type=kind).private else "PUBLIC"
            print(f"sent {len(files)} files to {commit.repo_url} ({state}{removed})")


def _stale(existing: list[str], sent: set[str]) -> list[str]:
    """Weights and predictions of an earlier push, which loading would mix with the new ones."""
    ours = [p for p in existing if p.endswith((SAFETENSORS, f"{SAFETENSORS}.index.json")) or p.startswith(("adapter/", "predictions/"))]
    return [path for path in ours if path not in sent]


@contextmanager
def _clear_errors(endpoint: str, plan: PushPlan):
    """Turn what the client library raises into one sentence that says what to do; a token is never part of it."""
    from huggingface_hub.errors import HfHubHTTPError, HTTPError, LocalTokenNotFoundError

    repos = " and ".join(plan.repos.values())
    try:
        yield
    except LocalTokenNotFoundError:
        raise PermissionError(
            "not logged in to the Hub, nothing was sent: run `hf auth login` with a token that may write, or set HF_TOKEN"
        ) from None
    except HfHubHTTPError as error:
        status = error.response.status_code
        if status in (401, 403):
            raise PermissionError(
                f"the Hub refused ({status}): this token is not valid or may not write to {repos}. Run `hf auth login` with one that may"
            ) from None
        raise ConnectionError(
            f"the Hub at {endpoint} answered {status} ({error.server_message or 'no reason given'}): push again later"
        ) from None
    except (HTTPError, RuntimeError) as error:
        raise ConnectionError(
            f"cannot reach the Hub at {endpoint} ({type(error).__name__}): check the connection and push again; finished uploads are kept"
        ) from None
