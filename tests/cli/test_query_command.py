"""``query``."""

import json
from pathlib import Path
from typing import Any

import pytest

from backstory.workspace import Workspace
from tests.cli.invocation import run


def test_query_asks_the_index(made: Path) -> None:
    answer = json.loads(run("query", "a clicking disk", "-w", str(made), "--json").stdout)
    assert answer["documents"][0]["slug"] == "disk"
    assert answer["engine"] == "exact"
    shown = run("query", "a clicking disk", "-w", str(made)).stdout.splitlines()
    assert shown[0] == "1. Disk"
    assert shown[1].startswith("   disk, undated, similarity 0.")
    assert shown[-1].startswith("Searched by exact")


def test_query_marks_what_no_context_would_take(made: Path) -> None:
    (made / "backstory.yaml").write_text(
        "embedding: {provider: hashing}\nrag: {min_similarity: 0.99}\n", encoding="utf-8"
    )
    shown = run("query", "a clicking disk", "-w", str(made)).stdout
    assert shown.count("*\n") == 2
    assert "* below the threshold 0.99: not similar enough for a context" in shown


@pytest.fixture
def found(made_workspace: Workspace) -> Any:
    """Give a function that queries the workspace of six posts; it gives their slugs."""

    def query(*options: str) -> list[str]:
        result = run("query", "sourdough bread", *options, "-w", str(made_workspace.root), "--json")
        assert result.exit_code == 0, result.output
        return [row["slug"] for row in json.loads(result.stdout)["documents"]]

    return query


def test_query_gives_as_many_documents_as_are_wanted(found: Any) -> None:
    assert len(found()) == 3  # rag.top_k of the settings
    assert len(found("-k", "1")) == 1
    assert len(found("--top-k", "100")) == 6


def test_query_hides_what_was_published_later(found: Any) -> None:
    assert set(found("--as-of", "2024-06-01", "-k", "100")) == {"drip-irrigation", "backup-disk", "unrelated"}
    assert "backup-disk" not in found("--as-of", "2024-05-31", "-k", "100")


def test_query_keeps_documents_with_any_of_the_tags(found: Any) -> None:
    assert set(found("--tag", "sourdough")) == {"sourdough", "later"}
    assert set(found("--tag", "sourdough", "--tag", "moths")) == {"sourdough", "later", "unrelated"}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--tag", "nothing"), "Nothing found: no document has the tag 'nothing'.\n"),
        (("--as-of", "2020-01-01"), "Nothing found: no document is dated 2020-01-01 or before.\n"),
        (
            ("--tag", "moths", "--tag", "b", "--as-of", "2020-01-01"),
            "Nothing found: no document has the tag 'moths' or 'b' and is dated 2020-01-01 or before.\n",
        ),
    ],
)
def test_query_says_why_it_found_nothing(
    made_workspace: Workspace, options: tuple[str, ...], sentence: str
) -> None:
    assert run("query", "moths", *options, "-w", str(made_workspace.root)).stdout == sentence
