"""Which package may import which, what an import loads, and what lies at the root."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

ROOT_FILES = {
    ".ci", ".git", ".gitignore", "ARCHITECTURE.md", "CHANGELOG.md", "LICENSE", "Makefile", "NOTICE", "README.md",
    "assets", "backstory", "benchmarks", "dagster.yaml", "deploy", "docs", "examples", "hatch_build.py", "pipelines",
    "pyproject.toml", "requirements.lock", "tests", "workspace.yaml",
}  # fmt: skip


@cache
def read_imports(path: Path) -> list[ast.Import | ast.ImportFrom]:
    """Return the imports of a module, wherever in the module; each module is parsed once for all tests."""
    return list(find_imports(ast.parse(path.read_text(encoding="utf-8"))))


def find_imports(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports below a node; an import is a statement, so no expression is looked into."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        below = getattr(node, name, ())
        for inner in below if isinstance(below, list) else ():
            if isinstance(inner, ast.Import | ast.ImportFrom):
                yield inner
            else:
                yield from find_imports(inner)


@cache
def imported_by(package: str) -> dict[str, set[str]]:
    """Return the top-level names that each module of a package imports."""
    found: dict[str, set[str]] = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        names: set[str] = set()
        for node in read_imports(path):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif node.module:
                names.add(node.module.split(".")[0])
        found[str(path.relative_to(ROOT))] = names
    return found


@pytest.mark.parametrize(
    ("package", "forbidden"),
    [
        ("backstory", {"assets", "pipelines", "tests", "benchmarks", "torch", "pandas"}),
        ("assets", {"pipelines", "tests", "benchmarks"}),
        ("pipelines", {"tests", "benchmarks"}),
    ],
)
def test_imports_point_one_way(package: str, forbidden: set[str]) -> None:
    imports = imported_by(package)
    assert imports
    assert {module: names & forbidden for module, names in imports.items() if names & forbidden} == {}


def test_one_folder_of_the_library_imports_dagster() -> None:
    users = {module for module, names in imported_by("backstory").items() if "dagster" in names}
    assert users
    assert {Path(user).parts[1:3] for user in users} == {("interfaces", "dagster_specs")}


WINGS = (
    "base", "settings", "storage", "text", "ingest", "models",
    "index", "retrieval", "writing", "pipeline", "operations", "interfaces",
)  # fmt: skip
"""The wings of ``backstory/``, in the order of the data: a module imports from its own wing and from earlier ones."""

INDEPENDENT = {"models": "ingest", "index": "ingest", "retrieval": "ingest", "writing": "ingest"}
"""What answers does not know what reads: both meet only in the tables and in ``pipeline``."""


def wing_of(module: str) -> str:
    return module.split(".")[1]


@cache
def library_imports() -> list[tuple[str, str]]:
    """Give every import inside the library as the importing module and the imported one."""
    paths = sorted({*(ROOT / "backstory").rglob("*.py")} - {ROOT / "backstory" / "__main__.py"})
    modules = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in paths
    }
    found = []
    for path in paths:
        importer = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for node in read_imports(path):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("backstory"):
                named = {f"{node.module}.{alias.name}" for alias in node.names} & modules
                found += [(importer, module) for module in named or {node.module}]
    return found


def test_every_folder_is_a_wing() -> None:
    folders = {path.parent for path in (ROOT / "backstory").glob("*/**/*.py")}
    modules = {path.stem for path in (ROOT / "backstory").glob("*.py")}
    assert {folder.relative_to(ROOT / "backstory").parts[0] for folder in folders} == set(WINGS)
    assert modules == {"__init__", "__main__"}


def test_the_docstring_lists_the_wings_in_order() -> None:
    import backstory

    assert backstory.__doc__ is not None
    named = [name for name in re.findall(r"``(\w+)``", backstory.__doc__) if name in WINGS]
    assert named == list(WINGS)


def test_no_wing_imports_from_a_later_one() -> None:
    backward = [
        f"{importer} imports {imported}"
        for importer, imported in library_imports()
        if importer != "backstory"
        and (imported == "backstory" or WINGS.index(wing_of(imported)) > WINGS.index(wing_of(importer)))
    ]
    assert backward == []


def test_what_answers_does_not_know_what_reads() -> None:
    arrows = {(wing_of(a), wing_of(b)) for a, b in library_imports() if a != "backstory"}
    assert arrows & set(INDEPENDENT.items()) == set()


def test_only_the_top_re_exports_names() -> None:
    facades = {}
    for path in sorted((ROOT / "backstory").rglob("__init__.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module != "__future__"
            for alias in node.names
        }
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        if path.parent.name != "backstory" and imported - used:
            facades[str(path.relative_to(ROOT))] = imported - used
    assert facades == {}


def test_no_modules_import_each_other_in_a_circle() -> None:
    waiting: dict[str, set[str]] = {}
    for importer, imported in library_imports():
        waiting.setdefault(importer, set()).add(imported)
        waiting.setdefault(imported, set())
    while free := {module for module, needs in waiting.items() if not needs}:
        waiting = {module: needs - free for module, needs in waiting.items() if module not in free}
    assert waiting == {}


def test_nothing_is_built_upon_the_original_names() -> None:
    original = "backstory.interfaces.original"
    users = {importer for importer, imported in library_imports() if imported.startswith(original)}
    assert {user for user in users if not user.startswith(original)} <= {"backstory"}


@pytest.mark.parametrize("package", ["assets", "pipelines", "backstory/interfaces/dagster_specs"])
def test_dagster_can_read_the_annotations(package: str) -> None:
    with_future = [module for module, names in imported_by(package).items() if "__future__" in names]
    assert with_future == [], "`from __future__ import annotations` breaks annotated Dagster contexts"


def test_the_library_loads_no_heavy_package_before_it_needs_it() -> None:
    heavy = ["dagster", "fastapi", "google.genai", "ibis", "onnxruntime", "onnx", "torch"]
    statements = (
        "import backstory",
        "from backstory import deduplicate_by_document, chunk_markdown, consolidate_messages_to_markdown",
        "from backstory import open_workspace, run_pipeline, query_rag_for_context, VectorStore",
        "import backstory.interfaces.cli.app",
        "import backstory.interfaces.service.job_process",
    )
    # One process runs them all: what a statement loads stands in its own list first.
    shows = f"print([name for name in {heavy} if name in sys.modules])"
    code = "\n".join(["import sys", *(f"{statement}\n{shows}" for statement in statements)])
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert dict(zip(statements, result.stdout.splitlines(), strict=True)) == dict.fromkeys(statements, "[]")


def test_a_search_loads_nothing_that_builds_an_index() -> None:
    code = "import sys, backstory.interfaces.library.search; print(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert set(result.stdout.split()) & {"duckdb", "backstory.index.build", "backstory.index.graph"} == set()


def test_every_public_name_can_be_imported() -> None:
    import backstory

    assert all(getattr(backstory, name) is not None for name in backstory.__all__)
    assert set(backstory.__all__) <= set(dir(backstory))
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


def test_one_module_reads_the_environment() -> None:
    readers = {
        path.name
        for path in (ROOT / "backstory").rglob("*.py")
        if re.search(r"os\.environ|getenv", path.read_text(encoding="utf-8"))
    }
    assert readers == {"environment.py"}


def test_no_thread_meets_the_parser_of_python() -> None:
    """CPython 3.11 lets threads disturb each other in it: see :mod:`backstory.base.files.arrays`."""
    users = {
        module
        for module, names in imported_by("backstory").items()
        if "ast" in names
        or re.search(
            r"\bnp\.load\(|\bnp\.lib\.format\.read_|open_memmap", (ROOT / module).read_text(encoding="utf-8")
        )
    }
    assert users == set()
