"""``windows``, ``context``, ``explain`` and ``report``."""

import io
import json
import os
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from rich.console import Console

from backstory import run_pipeline
from backstory.interfaces.cli.windows import print_windows
from backstory.interfaces.library.explain import explain_hits
from backstory.interfaces.library.library import Library
from backstory.operations.inspection.windows import list_windows
from backstory.pipeline.workspace import Workspace
from tests.interfaces.cli.conftest import POSTS
from tests.interfaces.cli.invocation import run
from tests.started_python import run_python

WEEKS = """\
conversations: {folder: chats}
partitions: {start: 2025-03-01, grain: month}
windows: {unit: messages, size: 6, overlap: 0}
embedding: {provider: hashing}
"""


@pytest.mark.parametrize("settings", ["", WEEKS])
def test_windows_fit_into_80_columns(make_workspace: Callable[..., Workspace], settings: str) -> None:
    workspace = make_workspace(settings)
    run_pipeline(workspace)
    rows = list_windows(workspace)
    stream = io.StringIO()
    print_windows(Console(file=stream, width=80, force_terminal=True, color_system=None), rows)
    lines = [line.rstrip() for line in stream.getvalue().splitlines()]
    assert len(lines) == len(rows) + 1
    assert all(len(line) <= 80 and "…" not in line for line in lines)
    assert all(line.endswith("garden") for line in lines[1:])


def test_windows_are_chosen_by_day_and_number(made_workspace: Workspace) -> None:
    def days(*options: str) -> list[str]:
        shown = run("windows", "-w", str(made_workspace.root), "--json", *options).stdout
        return [window["started_at"][:10] for window in json.loads(shown)]

    assert days() == ["2025-03-13", "2025-03-13", "2025-03-15"]
    assert days("--from", "2025-03-14") == ["2025-03-15"]
    assert days("--to", "2025-03-14") == ["2025-03-13", "2025-03-13"]
    assert days("--from", "2025-03-13", "--to", "2025-03-13", "--limit", "1") == ["2025-03-13"]
    assert days("-n", "2") == ["2025-03-13", "2025-03-15"]


def test_context_gives_the_text_and_the_reasons(made: Path) -> None:
    [window] = json.loads(run("windows", "-w", str(made), "--json").stdout)
    context = json.loads(run("context", window["window_id"], "-w", str(made), "--json").stdout)
    assert {row["slug"] for row in context["documents"]} == set(POSTS)
    assert any("irrigation" in text for row in context["documents"] for text in row["asked_by"])
    shown = run("context", window["short_id"], "-w", str(made)).stdout
    assert "Related Previous Posts" in shown
    for row in context["documents"]:
        parts = len(row["asked_by"])
        assert f"{row['rank']}. {row['slug']} serves {parts} part{'s' if parts > 1 else ''} of" in shown
    assert f"Verdict: {context['verdict'].replace('_', ' ')}." in shown
    assert f"Advice: {context['recommendation']}." in shown


@pytest.mark.parametrize("command", ["context", "report"])
@pytest.mark.parametrize("reference", ["latest", "2025-03-15"])
def test_a_window_is_named_by_its_place_in_time(
    made_workspace: Workspace, command: str, reference: str
) -> None:
    newest = list_windows(made_workspace)[-1]["window_id"]
    by_id, by_time = (
        run(command, name, "-w", str(made_workspace.root)).stdout for name in (newest, reference)
    )
    assert by_id
    assert by_time == by_id


def test_report_writes_a_page_and_says_where(made: Path, tmp_path: Path) -> None:
    [window] = json.loads(run("windows", "-w", str(made), "--json").stdout)
    printed = Path(run("report", window["short_id"], "-w", str(made)).stdout.strip())
    assert printed == made / "reports" / f"{window['window_id']}.html"
    page = printed.read_text(encoding="utf-8")
    assert 'href="../posts/irrigation.md"' in page
    elsewhere = tmp_path / "pages" / "one.html"
    assert run("report", window["window_id"], "-w", str(made), "--output", str(elsewhere)).exit_code == 0
    assert "irrigation.md" not in elsewhere.read_text(encoding="utf-8")  # the way there would name folders


@pytest.mark.parametrize(("ends", "code"), [("exit 0", 0), ("exit 1", 1)])
def test_report_opens_the_page_in_the_browser(made: Path, tmp_path: Path, ends: str, code: int) -> None:
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {opened}\n{ends}\n', encoding="utf-8")
    browser.chmod(0o755)
    # A process of its own: the standard library reads BROWSER once.
    command = ["report", "latest", "-w", str(made), "--open"]
    result = run_python(
        ["-c", "from backstory.interfaces.cli.app import main; main()", *command],
        env={**os.environ, "BROWSER": f"{browser} %s"},
    )
    assert result.returncode == code, result.stderr
    assert opened.read_text(encoding="utf-8") == Path(result.stdout.strip()).as_uri()


def test_explain_says_what_the_library_says(made_workspace: Workspace) -> None:
    root = str(made_workspace.root)
    with Library.open(made_workspace.root) as library:
        for document in ("night-train", "unrelated", "later"):
            told = json.loads(run("explain", "2025-03-15", document, "-w", root, "--json").stdout)
            explanation = library.explain("2025-03-15", document)
            assert told == json.loads(json.dumps(explanation.to_dict(), default=str))
            [found] = explanation.documents
            shown = run("explain", "2025-03-15", document, "-w", root).stdout
            assert found.uri in shown
            assert (found.reason in shown) is not found.kept
        [train] = library.explain("latest", "night-train").documents
        assert train.kept
        everything = library.explain("latest").documents
    shown = run("explain", "latest", "-w", root).stdout
    assert all(found.uri in shown for found in everything)


@pytest.mark.parametrize("cause", ["not_selected", "near_duplicate"])
def test_a_document_that_a_context_lacks_is_explained_by_a_hit_that_no_other_one_stands_for(
    cause: str,
) -> None:
    hits = pl.DataFrame(
        {
            "document_id": ["d", "d"],
            "query_chunk_id": ["q1", "q2"],
            "kept": [False, False],
            "cause": ["duplicate_document", cause],
            "because_of": ["a", "b"],
            "rank": pl.Series([None, None], dtype=pl.Int64),
            "similarity": [0.6, 0.4],
            "probability": [0.9, 0.7],
        }
    )
    explained = explain_hits(hits, None, {}, {"b": "posts/copy.md"})
    assert explained.cause == cause
    assert ("posts/copy.md" in explained.reason) is (cause == "near_duplicate")
