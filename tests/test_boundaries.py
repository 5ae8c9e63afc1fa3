"""Which package may import which, what an import loads, and what lies at the root."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

ROOT_FILES = {
    ".ci", ".git", ".gitignore", "CHANGELOG.md", "LICENSE", "Makefile", "README.md", "assets", "backstory",
    "benchmarks", "dagster.yaml", "docs", "examples", "pipelines", "pyproject.toml", "requirements.lock", "tests",
    "workspace.yaml",
}  # fmt: skip


def imported_by(package: str) -> dict[str, set[str]]:
    """Give the top-level names that each module of a package imports, wherever in the module."""
    found: dict[str, set[str]] = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        names: set[str] = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module.split(".")[0])
        found[str(path.relative_to(ROOT))] = names
    return found


@pytest.mark.parametrize(
    ("package", "forbidden"),
    [
        ("backstory", {"dagster", "assets", "pipelines", "tests", "benchmarks", "torch", "pandas"}),
        ("assets", {"pipelines", "tests", "benchmarks"}),
        ("pipelines", {"tests", "benchmarks"}),
    ],
)
def test_imports_point_one_way(package: str, forbidden: set[str]) -> None:
    imports = imported_by(package)
    assert imports
    assert {module: names & forbidden for module, names in imports.items() if names & forbidden} == {}


@pytest.mark.parametrize("package", ["assets", "pipelines"])
def test_dagster_can_read_the_annotations(package: str) -> None:
    with_future = [module for module, names in imported_by(package).items() if "__future__" in names]
    assert with_future == [], "`from __future__ import annotations` breaks annotated Dagster contexts"


@pytest.mark.parametrize(
    "statement",
    [
        "import backstory",
        "from backstory import deduplicate_by_document, chunk_markdown, consolidate_messages_to_markdown",
        "from backstory import open_workspace, run_pipeline, query_rag_for_context, VectorStore",
        "import backstory.cli.app",
    ],
)
def test_the_library_loads_no_heavy_package_before_it_needs_it(statement: str) -> None:
    heavy = ["dagster", "google.genai", "onnxruntime", "onnx", "torch"]
    code = f"import sys\n{statement}\nprint([name for name in {heavy} if name in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert result.stdout.strip() == "[]"


def test_every_public_name_can_be_imported() -> None:
    import backstory

    assert all(getattr(backstory, name) is not None for name in backstory.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = backstory.nothing


def test_nothing_unexpected_lies_at_the_root() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    ).stdout.splitlines()
    assert {name.split("/")[0] for name in listed} <= ROOT_FILES


def test_no_module_is_long_enough_to_hide_a_noun() -> None:
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for package in ("backstory", "assets", "pipelines")
        for path in (ROOT / package).rglob("*.py")
    }
    assert {name: length for name, length in lengths.items() if length > 300} == {}


def test_one_module_reads_the_environment() -> None:
    readers = {
        path.name
        for path in (ROOT / "backstory").rglob("*.py")
        if re.search(r"os\.environ|getenv", path.read_text(encoding="utf-8"))
    }
    assert readers == {"environment.py"}
