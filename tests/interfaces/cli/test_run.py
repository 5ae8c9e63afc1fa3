"""``backstory run``: its exit codes, what it gives, and that it needs no Dagster."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import Result

from backstory.pipeline.workspace import Workspace
from tests.interfaces.cli.invocation import exit_code, run

# Stands in for an environment that has the library only.
WITHOUT_DAGSTER = (
    "import sys; sys.modules['dagster'] = None; from backstory.interfaces.cli.app import main; main()"
)


def call(workspace: Workspace, *options: str) -> Result:
    return run("run", "-w", str(workspace.root), *options)


def call_json(workspace: Workspace) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(call(workspace, "--json").stdout)
    return found


def test_a_run_says_what_it_made_and_a_second_that_nothing_changed(workspace: Workspace) -> None:
    first = subprocess.run(
        [sys.executable, "-c", WITHOUT_DAGSTER, "run", "--workspace", str(workspace.root)],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
        timeout=600,
        check=False,
    )
    assert first.returncode == 0, first.stdout + first.stderr
    said = [line.split()[:2] for line in first.stdout.splitlines()]
    assert said[:3] == [["Documents:", "6"], ["Messages:", "12"], ["Windows:", "3"]]
    assert workspace.tables.keys("window_contexts") == ["2025-03-13", "2025-03-15"]
    second = call(workspace)
    assert (second.exit_code, len(second.stdout.splitlines())) == (0, 1)


def test_json_holds_all_that_is_different_and_nothing_else_is_printed(workspace: Workspace) -> None:
    first = call_json(workspace)
    assert (first["unchanged"], first["finished"], first["failures"]) == (False, True, [])
    assert first["differences"]["messages"]["added"] == 12
    (workspace.documents_dir / "later.md").rename(workspace.documents_dir / "earlier.md")
    (workspace.documents_dir / "unrelated.md").write_text("# Owls\n", encoding="utf-8")
    assert call_json(workspace)["differences"]["documents"] == {
        "added": [],
        "changed": ["unrelated.md"],
        "renamed": [["later.md", "earlier.md"]],
        "removed": [],
    }
    third = call_json(workspace)
    assert (third["unchanged"], third["differences"]["documents"]) == (True, None)


@pytest.mark.parametrize(
    "days", [(), ("--from", "2025-03-15"), ("--from", "2025-03-15", "--to", "2025-03-15")]
)
def test_without_chats_a_run_stops_before_it_makes_anything(
    days: tuple[str, ...], workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace.chats_dir.rename(workspace.root / "aside")
    assert exit_code(monkeypatch, "run", *days, "-w", str(workspace.root)) == 2
    assert not workspace.tables.keys("documents")


def test_a_range_of_days_makes_only_these(workspace: Workspace) -> None:
    assert call(workspace, "--from", "2025-03-15", "--to", "2025-03-15").exit_code == 0
    assert workspace.tables.keys("window_contexts") == ["2025-03-15"]


def test_lines_that_could_not_be_read_are_named_with_file_and_place(workspace: Workspace) -> None:
    with (workspace.chats_dir / "garden.txt").open("a", encoding="utf-8") as export:
        export.write("31/02/2025, 10:00 - Ada Lind: no such day\n")
    result = call(workspace)
    assert result.exit_code == 0
    [line] = [line for line in result.stdout.splitlines() if "garden.txt" in line]
    assert "13 (" in line
    assert "Ada Lind" not in result.stdout


def test_files_set_aside_are_named_once_and_exit_with_3_until_they_are_dealt_with(
    workspace: Workspace,
) -> None:
    assert call(workspace).exit_code == 0
    texts = {"empty.txt": "", "other.txt": "03/04/2025, 09:00 - Ada Lind: hello\n", "void.txt": ""}
    for name, text in texts.items():
        (workspace.chats_dir / name).write_text(text, encoding="utf-8")
    result = call(workspace)
    assert result.exit_code == 3
    assert [result.stdout.count(name) for name in texts] == [1, 1, 1]
    assert "  chats/empty.txt, chats/void.txt: " in result.stdout
    for name in texts:
        (workspace.chats_dir / name).unlink()
    assert call(workspace).exit_code == 0


def test_a_stage_that_fails_exits_with_1_and_names_it(make_workspace: Callable[..., Workspace]) -> None:
    workspace = make_workspace(
        "embedding: {provider: hashing}\nchunks: {max_tokens: 16, overlap_tokens: 0}\n"
    )
    text = f"# {'a very long title ' * 6}\n\ntext\n"
    (workspace.documents_dir / "long.md").write_text(text, encoding="utf-8")
    result = call(workspace)
    assert result.exit_code == 1
    assert "failed: document_chunks: " in result.stdout


def test_a_run_that_would_remove_messages_exits_with_1_until_that_is_accepted(workspace: Workspace) -> None:
    assert call(workspace).exit_code == 0
    export = workspace.chats_dir / "garden.txt"
    lines = export.read_text(encoding="utf-8").splitlines(keepends=True)
    export.write_text("".join(lines[-3:]), encoding="utf-8")
    stopped = call(workspace)
    assert stopped.exit_code == 1
    assert "- garden: 9 messages of 1 day (2025-03-13)" in stopped.stdout
    accepted = call(workspace, "--accept-removals")
    assert accepted.exit_code == 0, accepted.output
    assert workspace.tables.keys("messages") == ["2025-03-15"]


def test_a_run_without_a_file_leaves_nothing_behind(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace.chats_dir / "garden.txt").unlink()
    before = sorted(workspace.root.rglob("*"))
    assert exit_code(monkeypatch, "run", "-w", str(workspace.root)) == 2
    assert sorted(workspace.root.rglob("*")) == before
