"""The rules that hold the package together: one way through, quick import, a file of tests for each module."""

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "gastricx_hf"
ORDER = [
    "schema", "provenance", "cases", "sources", "preprocessing", "tasks", "inputs", "models", "training", "inference",
    "metrics", "evaluation", "probes", "vqa_construction", "hub", "dataset_script", "model_cards", "demo", "cli",
]  # fmt: skip
GROUND = {"schema", "provenance"}


def imported_folders(path: Path) -> set[tuple[str, int]]:
    """Folders of the package that a file imports from, with line numbers, also inside functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        found |= {(name.split(".")[1], node.lineno) for name in names if name.startswith("gastricx_hf.")}
    return found


def backward_imports(files: dict[Path, str]) -> list[str]:
    rows = []
    for path, folder in files.items():
        for target, line in sorted(imported_folders(path)):
            if target in ORDER and target != folder and ORDER.index(target) > ORDER.index(folder):
                rows.append(f"{path.name}:{line} ({folder}) imports from {target}, a later folder")
    return rows


def package_files() -> dict[Path, str]:
    files = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).parts
        if not parts[0].startswith("_"):  # the package's own lazy names may point anywhere
            files[path] = parts[0].removesuffix(".py")
    for path in (ROOT / "dataset_script").rglob("*.py"):
        files[path] = "dataset_script"
    return files


def test_a_folder_imports_only_from_folders_before_it():
    files = package_files()
    assert len(files) > 30
    unknown = {folder for folder in files.values() if folder not in ORDER}
    assert not unknown, f"give {unknown} a place in ORDER"
    assert backward_imports(files) == []


def test_the_walk_sees_a_planted_backward_import(tmp_path):
    bad = tmp_path / "bad.py"
    bad.write_text("def f():\n    from gastricx_hf.models.loading import load_adapter\n    return load_adapter\n")
    assert backward_imports({bad: "inputs"}) == ["bad.py:2 (inputs) imports from models, a later folder"]
    assert backward_imports({bad: "training"}) == []


def test_import_loads_no_heavy_library():
    heavy = ["torch", "transformers", "datasets", "monai", "matplotlib", "pandas", "SimpleITK", "scipy", "sklearn", "peft", "numpy"]
    code = f"import sys, gastricx_hf, gastricx_hf.cli; print([m for m in {heavy} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_every_module_has_its_tests():
    thin = {"__init__", "cli", "page", "arguments", "lora"}  # covered by the tests of what calls them
    names = {p.stem.removeprefix("test_") for p in (ROOT / "tests").rglob("test_*.py")}
    folders = {p.parent.name for p in (ROOT / "tests").rglob("test_*.py")}
    untested = [
        str(p.relative_to(ROOT)) for p, folder in package_files().items() if p.stem not in names | thin and folder not in folders | names
    ]
    assert untested == []


def test_no_path_of_a_machine_in_the_repository():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    texts = [ROOT / name for name in listed if name.endswith((".py", ".md", ".cfg", ".toml", ".yaml", ".txt"))]
    assert len(texts) > 40
    places = [f"/{name}/" for name in ("work", "root", "farm")]
    rows = [str(p) for p in texts if p.is_file() and any(f" {m}" in p.read_text() or f'"{m}' in p.read_text() for m in places)]
    assert rows == []
