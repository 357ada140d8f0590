"""Eight phantom patients and their dataset, made once."""

import pytest

from gastricx_hf.dataset_script.build import build
from gastricx_hf.sources.phantom import write_phantom


@pytest.fixture(scope="session")
def dataset(tmp_path_factory):
    root = tmp_path_factory.mktemp("eight")
    build(write_phantom(root / "phantom", 8, seed=1, progress=False), root / "gastric-x")
    return root / "gastric-x"
