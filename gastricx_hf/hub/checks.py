"""Checks of a whole run before it may be pushed: its checkpoint loads, and phantom numbers are called phantom."""

from __future__ import annotations

from pathlib import Path

from gastricx_hf.hub.results import PHANTOM_LABEL, prediction_files, read_predictions, read_provenance, read_scores
from gastricx_hf.hub.screen import SAFETENSORS, Finding


def verify_checkpoint(checkpoint: str | Path) -> list[Finding]:
    """Load a checkpoint as its users will and compare it with its files; an empty list is good news.

    Found: it does not load by `AutoModel`, keys are missing, unexpected or of another shape, a weight is not finite, or a loaded weight
    differs from the stored one.
    """
    from safetensors import safe_open
    from transformers import AutoModel

    import gastricx_hf  # noqa: F401 - registers the model classes

    where, again = f"{checkpoint}", "Train or save the checkpoint again"
    try:
        model, info = AutoModel.from_pretrained(checkpoint, output_loading_info=True)
    except (OSError, ValueError, KeyError, RuntimeError, ImportError) as error:
        return [Finding(where, f"does not load by AutoModel ({str(error)[:300]})", again)]
    found = []
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if keys := sorted(map(str, info[kind])):
            found.append(Finding(where, f"{len(keys)} {kind.replace('_', ' ')} on loading: {', '.join(keys[:5])}", again))
    state = model.state_dict()
    for path in sorted(Path(checkpoint).glob(f"*{SAFETENSORS}")):
        with safe_open(path, framework="pt") as stored:
            for key in stored.keys():  # noqa: SIM118 - safe_open is no mapping
                tensor = stored.get_tensor(key)
                if tensor.is_floating_point() and not tensor.isfinite().all():
                    found.append(Finding(f"{path.name} {key}", "holds NaN or infinity", "Train again: this run diverged"))
                elif key in state and not state[key].equal(tensor.to(state[key].dtype)):
                    found.append(Finding(f"{path.name} {key}", "is another weight after loading", again))
    return found


def phantom_findings(run_dir: Path, texts: dict[str, str]) -> list[Finding]:
    """Phantom scores or predictions that do not say so: no flag, a flag that other records of the same data contradict, no label.

    Args:
        texts: path -> content of what shows the scores: the card and the results file.
    """
    records = {"checkpoint/gastricx_provenance.json": [read_provenance(run_dir)]}
    records["scores.json"] = [score.provenance for score in read_scores(run_dir)]
    records |= {f"predictions/{p.name}": [line["provenance"] for line in read_predictions(p)] for p in prediction_files(run_dir)}
    phantom_data = {p.get("data_revision") for provenances in records.values() for p in provenances if p.get("phantom") is True}
    found = []
    for where, provenances in records.items():
        if any(not isinstance(p.get("phantom"), bool) for p in provenances):
            found.append(Finding(where, "does not say whether its patients are phantoms", "Make it again with gastricx_hf"))
        elif any(not p["phantom"] and p.get("data_revision") in phantom_data for p in provenances):
            found.append(
                Finding(where, "calls data real that another record of this run calls phantom", "Make both again from one dataset")
            )
    if any(p.get("phantom") is not False for p in records["scores.json"]):
        unlabelled = [path for path, text in texts.items() if PHANTOM_LABEL not in text]
        found += [Finding(path, "shows phantom scores without their label", f"Say {PHANTOM_LABEL!r}") for path in unlabelled]
    return found
