import io
import json
import pickle
import zipfile

import pytest

from gastricx_hf.hub.screen import is_local_path, screen


def problems(path: str, content) -> str:
    content = content if isinstance(content, bytes) else (content if isinstance(content, str) else json.dumps(content)).encode()
    return "\n".join(map(str, screen(path, content)))


@pytest.mark.parametrize(
    "text",
    [
        "/home/someone/data",
        "saved to /scratch/ct/run1.",
        "(/mnt/d/x.nii.gz)",
        "~/data/volumes",
        "C:\\Users\\someone",
        "D:/data/ct",
        "\\\\server\\share\\ct",
        "file:///etc/hosts",
        "/data",
        "path=/opt/weights/a.bin",
    ],
)
def test_local_paths(text):
    assert is_local_path(text)
    assert "names a local path" in problems("config.json", {"base": text})


@pytest.mark.parametrize(
    "text",
    [
        "https://huggingface.co/you/name/resolve/main/a.json",
        "hf://datasets/you/name@main/imaging/P1/venous.nii.gz",
        "you/name",
        "runs/demo/checkpoint",
        "yes/no",
        "3/4 of the wall",
        "HU/mm/voxel",
        "</s>",
        "Q:\nA:\n",
        "image+table+bbox",
        "CA 19-9 12.3 U/mL",
        "AP@0.5",
        "| a | b |\n|---|---|",
    ],
)
def test_what_is_no_path_and_no_identifier(text):
    assert problems("config.json", {"text": text}) == ""


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("ask someone@clinic.example.org", "an e-mail address"),
        ("ID 11010519491231002X", "a Chinese identity number"),
        ("tel 13800138000", "a telephone number"),
        ("tel +86 138 0013 8000", "a telephone number"),
        ("010-12345678", "a telephone number"),
        ("(555) 010-0199", "a telephone number"),
        ("hf_" + "a1B2" * 8, "a Hugging Face token"),
    ],
)
def test_identifiers_are_found_but_never_repeated(text, kind):
    for path, content in (("a.jsonl", {"answer": text}), ("README.md", f"# x\n{text}\n"), ("a.json", {text: 1})):
        found = problems(path, content)
        assert kind in found
        assert text.split()[-1] not in found


def test_numbers_that_look_like_identifiers_are_not():
    numbers = {"parameters": 13800138000, "model_max_length": int(1e30), "loss": 0.13800138000, "seed": 20260101}
    assert problems("a.json", numbers | {"sha256": "1" * 64, "commit": "138001380001" + "f" * 28, "version": "1.2.3"}) == ""
    assert "identity number" in problems("a.json", {"id": 110105194912310021})


def test_the_place_is_named():
    assert problems("a.jsonl", '{"x": 1}\n{"x": {"path": "/home/a/b"}}\n').startswith(
        "a.jsonl line 2 x path: names a local path, '/home/a/b'"
    )
    assert problems("README.md", "one\n/home/a/b\n").startswith("README.md line 2: ")


def test_vocabularies_hold_pieces_not_paths():
    vocabulary = {"model": {"vocab": {"/usr/bin/x": 0, "/data": 1}}}
    assert problems("tokenizer.json", vocabulary) == ""
    assert "local path" in problems("tokenizer_config.json", vocabulary)


@pytest.mark.parametrize("bad", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_are_none(bad):
    assert "A missing number is left out or null" in problems("scores.json", f'[{{"value": {bad}}}]')


def torch_file() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({}))
    return buffer.getvalue()


@pytest.mark.parametrize("path", ["training_args.bin", "notes.txt", "model.safetensors", "optimizer.pt"])
@pytest.mark.parametrize("content", [pickle.dumps({"a": 1}), torch_file()], ids=["pickle", "zip"])
def test_pickles_are_found_by_content_whatever_their_name(path, content):
    assert "pickle" in problems(path, content)


@pytest.mark.parametrize("path", ["weights.ckpt", "rng_state.pth", "volume.nii", "code.py", "LICENSE"])
def test_only_known_kinds_of_files_leave(path):
    assert "are not published" in problems(path, "plain text")


def test_weights_show_their_metadata():
    def file(metadata):
        header = json.dumps({"__metadata__": metadata}).encode()
        return len(header).to_bytes(8, "little") + header

    assert problems("model.safetensors", file({"format": "pt"})) == ""
    assert "local path" in problems("model.safetensors", file({"trained_in": "/home/a/b"}))
    assert "cut off" in problems("model.safetensors", file({"format": "pt"})[:-2])


@pytest.mark.parametrize(("path", "content"), [("a.json", b"{"), ("a.jsonl", b'{"a": 1}\n{'), ("a.txt", b"\xff\xfe\x00")])
def test_unreadable_text_is_refused(path, content):
    assert "cannot be read" in problems(path, content)
