"""Registration in fresh processes, in every order of imports that a user may write."""

import subprocess
import sys

import pytest


def run(code):
    result = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip().splitlines()[-1]


@pytest.fixture(scope="module")
def folder(model, processor, tmp_path_factory):
    path = tmp_path_factory.mktemp("checkpoint")
    model.save_pretrained(path)
    processor.save_pretrained(path)
    return str(path)


MODEL, PROCESSOR, CONFIG = "X2VLMMedModel", "X2VLMMedProcessor", "X2VLMMedConfig"


@pytest.mark.parametrize(
    ("imports", "auto", "expected"),
    [
        ("import gastricx_hf; from transformers import AutoModel", "AutoModel", MODEL),
        ("import transformers; import gastricx_hf; from transformers import AutoModel", "AutoModel", MODEL),
        ("from transformers import AutoModel; import gastricx_hf", "AutoModel", MODEL),
        ("import gastricx_hf; from transformers import AutoModelForImageTextToText", "AutoModelForImageTextToText", MODEL),
        ("import gastricx_hf; from transformers import AutoProcessor", "AutoProcessor", PROCESSOR),
        ("import gastricx_hf; from transformers import LlavaForConditionalGeneration, AutoConfig", "AutoConfig", CONFIG),
        ("import gastricx_hf; import transformers.generation.utils; from transformers import AutoConfig", "AutoConfig", CONFIG),
        ("from gastricx_hf.models.x2vlm_med import X2VLMMedModel; from transformers import AutoConfig", "AutoConfig", CONFIG),
        ("from gastricx_hf import X2VLMMedProcessor; from transformers import AutoModel", "AutoModel", MODEL),
    ],
)
def test_auto_classes_know_the_families(folder, imports, auto, expected):
    assert run(f"{imports}; print(type({auto}.from_pretrained({folder!r})).__name__)") == expected


def test_importing_the_package_imports_nothing_heavy_and_leaves_no_hook_behind():
    heavy = ["torch", "transformers", "datasets", "monai", "numpy"]
    assert run(f"import sys, gastricx_hf; print([m for m in {heavy} if m in sys.modules])") == "[]"
    hooks = "[f for f in sys.meta_path if type(f).__module__.startswith('gastricx_hf')]"
    assert (
        run(f"import sys, gastricx_hf; before = {hooks}; import transformers.models.auto.modeling_auto; print(len(before), {hooks})")
        == "1 []"
    )


def test_public_names_are_found_when_asked_for():
    assert (
        run("import gastricx_hf as g; print(g.Phase('venous'), g.Box3D.__module__, 'read_release' in dir(g))")
        == "venous gastricx_hf.schema True"
    )
    assert run("import gastricx_hf as g; print([n for n in g.__all__ if getattr(g, n, None) is None])") == "[]"
    assert (
        run("import gastricx_hf as g\ntry: g.Phases\nexcept AttributeError as e: print(e)")
        == "module 'gastricx_hf' has no attribute 'Phases'"
    )


def test_a_family_is_found_by_scanning_the_folder():
    from gastricx_hf.models import auto

    declared = {module.__name__.rpartition(".")[2]: module.AUTO for module in auto.families()}
    assert {"swin3d", "x2vlm_med"} <= set(declared)
    assert all("AutoConfig" in entry for entry in declared.values())
