"""Hashes do not depend on order, files are whole or absent, a missing manifest says what to do."""

import hashlib
import json

import pytest

from gastricx_hf.provenance import canonical_hash, package_version, read_manifest, write_json


def test_hash_is_of_sorted_json():
    assert canonical_hash({"b": 1, "a": [2, 3]}) == canonical_hash({"a": [2, 3], "b": 1})
    assert canonical_hash({"a": 1}) == hashlib.sha256(b'{"a": 1}').hexdigest()
    assert canonical_hash({"a": 1}) != canonical_hash({"a": 2})


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "x.json"
    write_json(path, {"a": 1})
    with pytest.raises(TypeError):
        write_json(path, {"a": object()})
    assert json.loads(path.read_text()) == {"a": 1}


def test_missing_manifest_says_how_to_build(tmp_path):
    with pytest.raises(FileNotFoundError, match="gastricx build"):
        read_manifest(tmp_path)
    assert package_version()[0].isdigit()
