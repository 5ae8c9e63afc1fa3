"""The map of the code names what exists, in the order that the boundaries hold."""

import ast
import re
from itertools import pairwise
from pathlib import Path

import pytest

from tests.test_boundaries import ROOT, WINGS, library_imports, wing_of

PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`([\w.]+)`\s+\(`([\w/]+\.py)`\)", PAGE)))
"""Names with their modules."""


def defined_in(body: list[ast.stmt]) -> dict[str, ast.stmt]:
    """Give what a module or class defines, by name."""
    found: dict[str, ast.stmt] = {}
    for statement in body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found[name] = statement
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                found[name] = statement
    return found


def imported_wings() -> dict[str, set[str]]:
    """Give the other wings that each wing imports."""
    found: dict[str, set[str]] = {wing: set() for wing in WINGS}
    for importer, imported in library_imports():
        if importer != "backstory" and wing_of(importer) != wing_of(imported):
            found[wing_of(importer)].add(wing_of(imported))
    return found


def all_reached(arrows: dict[str, set[str]], start: str) -> set[str]:
    return arrows[start].union(*(all_reached(arrows, following) for following in arrows[start]))


def drawn_arrows() -> set[tuple[str, str]]:
    """Read the arrows of the picture; a line may hold several, and ``&`` joins several ends."""
    [picture] = re.findall(r"^```mermaid\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    drawn = set()
    for line in picture.splitlines()[1:]:
        steps = [[name.strip() for name in step.split("&")] for step in line.split("-->")]
        drawn |= {
            (importer, imported) for left, right in pairwise(steps) for importer in left for imported in right
        }
    return drawn


@pytest.mark.parametrize(("name", "module"), NAMED)
def test_a_named_function_or_class_is_where_the_page_says(name: str, module: str) -> None:
    path = ROOT / module
    assert path.is_file()
    outer, _, inner = name.partition(".")
    known = defined_in(ast.parse(path.read_text(encoding="utf-8")).body)
    assert outer in known
    if inner:
        owner = known[outer]
        assert isinstance(owner, ast.ClassDef)
        assert inner in defined_in(owner.body)


def test_every_path_of_the_page_exists() -> None:
    paths = set(re.findall(r"(?:^|[`\s])((?:assets|backstory|docs|pipelines|tests)/[\w/.]*)", PAGE))
    assert len(paths) > 30
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []


def test_every_link_of_the_page_leads_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)", PAGE)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_page_has_three_walks_of_five_to_eight_steps() -> None:
    walks = re.findall(r"^## A [^\n]+\n\n(1\. .*?)\n\n", PAGE, re.MULTILINE | re.DOTALL)
    assert len(walks) == 3
    for walk in walks:
        steps = re.split(r"^\d+\. ", walk, flags=re.MULTILINE)[1:]
        assert 5 <= len(steps) <= 8
        assert all(re.search(r"\(`[\w/]+\.py`\)", step) for step in steps)


def test_the_page_lists_the_wings_in_order() -> None:
    assert re.findall(r"^\d+\. \*\*(\w+)\*\*", PAGE, re.MULTILINE) == list(WINGS)


@pytest.mark.parametrize("wing", ["ingest", "pipeline", "interfaces"])
def test_the_page_names_the_folders_of_the_large_wings(wing: str) -> None:
    [entry] = re.findall(rf"^\d+\. \*\*{wing}\*\*.*?(?=\n\d+\. |\n\n)", PAGE, re.MULTILINE | re.DOTALL)
    folders = {path.parent.name for path in (ROOT / "backstory" / wing).glob("*/__init__.py")}
    assert set(re.findall(r"`(\w+)`", entry)) == folders


def test_the_picture_draws_the_imports_between_wings() -> None:
    arrows = imported_wings()
    nearest = {
        (importer, imported)
        for importer, wings in arrows.items()
        for imported in wings
        if not any(imported in all_reached(arrows, other) for other in wings)
    }
    assert drawn_arrows() == nearest


def test_the_tests_that_the_page_runs_exist() -> None:
    [(module, chosen)] = re.findall(r"pytest (\S+) -k (\w+)", PAGE)
    tests = defined_in(ast.parse((ROOT / module).read_text(encoding="utf-8")).body)
    assert [name for name in tests if chosen in name]
    assert Path(module).parts[0] == "tests"
