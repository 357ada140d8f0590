"""The examples run as a reader would run them: in a fresh process, in the folder that holds gastric-x."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gastricx_hf import cli

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("examples")
    assert cli.main(["build", "--source", "phantom", "--patients", "10", "--out", str(folder / "gastric-x")]) == 0
    return folder


PRINTED = {"01_look_at_a_patient": "raised:", "02_finetune_with_lora": "next: gastricx predict"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(path, place):
    env = os.environ | {"HF_HOME": str(place / "hf"), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, str(path)], cwd=place, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert PRINTED[path.stem] in done.stdout


def test_the_lora_example_is_short():
    assert len((EXAMPLES[1]).read_text().splitlines()) < 60
