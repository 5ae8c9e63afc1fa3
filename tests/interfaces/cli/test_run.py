"""``backstory run``: exit codes, what it prints, and that it needs no Dagster."""

import json
import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from backstory.pipeline.workspace import Workspace
from tests.interfaces.cli.invocation import exit_code

# Stands in for an environment that has the library only.
WITHOUT_DAGSTER = (
    "import sys; sys.modules['dagster'] = None; from backstory.interfaces.cli.app import main; main()"
)


Call = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Give a function that runs the command in this process, up to its exit."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        capsys.readouterr()
        code = exit_code(monkeypatch, "run", *arguments)
        return subprocess.CompletedProcess(arguments, code, *capsys.readouterr())

    return run


def test_a_run_says_what_it_made_and_what_it_cost_and_a_second_that_nothing_changed(
    workspace: Workspace, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = subprocess.run(
        [sys.executable, "-c", WITHOUT_DAGSTER, "run", "--workspace", str(workspace.root)],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
        timeout=600,
        check=False,
    )
    assert first.returncode == 0, first.stdout + first.stderr
    lines = first.stdout.splitlines()
    assert [line.split()[:2] for line in lines[:3]] == [
        ["Documents:", "6"],
        ["Messages:", "12"],
        ["Windows:", "3"],
    ]
    assert not any("texts embedded (" in line or "partitions" in line for line in lines)
    assert workspace.tables.keys("window_contexts") == ["2025-03-13", "2025-03-15"]
    monkeypatch.setenv("BACKSTORY_WORKSPACE", str(workspace.root))
    second = call()
    assert second.returncode == 0
    [line] = second.stdout.splitlines()
    assert "Nothing has changed since the last run" in line


def test_json_holds_all_that_is_different_and_nothing_else_is_printed(
    workspace: Workspace, call: Call
) -> None:
    root = str(workspace.root)
    first = json.loads(call("-w", root, "--json").stdout)
    assert (first["unchanged"], first["finished"], first["failures"]) == (False, True, [])
    assert first["differences"]["messages"]["added"] == 12
    (workspace.documents_dir / "later.md").rename(workspace.documents_dir / "earlier.md")
    (workspace.documents_dir / "unrelated.md").write_text("# Owls\n", encoding="utf-8")
    second = json.loads(call("-w", root, "--json").stdout)
    assert second["differences"]["documents"] == {
        "added": [],
        "changed": ["unrelated.md"],
        "renamed": [["later.md", "earlier.md"]],
        "removed": [],
    }
    third = json.loads(call("-w", root, "--json").stdout)
    assert third["unchanged"]
    assert third["differences"]["documents"] is None


@pytest.mark.parametrize(
    "days", [(), ("--from", "2025-03-15"), ("--from", "2025-03-15", "--to", "2025-03-15")]
)
def test_without_chats_a_run_stops_before_it_makes_anything(
    days: tuple[str, ...], workspace: Workspace, call: Call
) -> None:
    workspace.chats_dir.rename(workspace.root / "aside")
    done = call(*days, "-w", str(workspace.root))
    assert done.returncode == 2
    assert (
        f"{workspace.chats_dir} does not exist; create the folder and put chat exports into it" in done.stderr
    )
    assert done.stdout == ""
    assert not workspace.tables.keys("documents")


def test_a_range_of_days_makes_only_these(workspace: Workspace, call: Call) -> None:
    days = ("--from", "2025-03-15", "--to", "2025-03-15")
    assert call(*days, "-w", str(workspace.root)).returncode == 0
    assert workspace.tables.keys("window_contexts") == ["2025-03-15"]


def test_lines_that_could_not_be_read_are_named_with_file_and_reason(
    workspace: Workspace, call: Call
) -> None:
    with (workspace.chats_dir / "garden.txt").open("a", encoding="utf-8") as export:
        export.write("31/02/2025, 10:00 - Ada Lind: no such day\n")
    result = call("-w", str(workspace.root))
    assert result.returncode == 0
    [line] = [line for line in result.stdout.splitlines() if "garden.txt" in line]
    assert "1 line or record could not be read, the first of them 13 (" in line
    assert "Ada Lind" not in result.stdout


def test_files_set_aside_are_named_with_their_reason_and_exit_with_3_until_they_are_dealt_with(
    workspace: Workspace, call: Call
) -> None:
    assert call("-w", str(workspace.root)).returncode == 0
    others = [workspace.chats_dir / "empty.txt", workspace.chats_dir / "other.txt"]
    others[0].write_text("", encoding="utf-8")
    others[1].write_text("03/04/2025, 09:00 - Ada Lind: hello\n", encoding="utf-8")
    result = call("-w", str(workspace.root))
    assert result.returncode == 3
    lines = result.stdout.splitlines()
    assert "Files of conversations: 1 read, 1 without text, 1 waiting for your answer; 12 messages" in lines
    assert [result.stdout.count(path.name) for path in others] == [1, 1]
    [empty, other] = [line for line in lines if line.startswith("  chats/")]
    assert empty.startswith("  chats/empty.txt: without text: ")
    assert other.startswith(
        "  chats/other.txt: waiting for your answer: its dates can be read in more than one way"
    )
    (workspace.chats_dir / "void.txt").write_text("", encoding="utf-8")
    assert "  chats/empty.txt, chats/void.txt: without text: " in call("-w", str(workspace.root)).stdout
    for path in (*others, workspace.chats_dir / "void.txt"):
        path.unlink()
    assert call("-w", str(workspace.root)).returncode == 0


def test_a_stage_that_fails_exits_with_1_and_names_it(
    make_workspace: Callable[..., Workspace], call: Call
) -> None:
    workspace = make_workspace(
        "embedding: {provider: hashing}\nchunks: {max_tokens: 16, overlap_tokens: 0}\n"
    )
    (workspace.documents_dir / "long.md").write_text(
        f"# {'a very long title ' * 6}\n\ntext\n", encoding="utf-8"
    )
    result = call("-w", str(workspace.root))
    assert result.returncode == 1
    assert "failed: document_chunks: " in result.stdout


def test_a_run_that_would_remove_messages_exits_with_1_until_that_is_accepted(
    workspace: Workspace, call: Call
) -> None:
    assert call("-w", str(workspace.root)).returncode == 0
    export = workspace.chats_dir / "garden.txt"
    lines = export.read_text(encoding="utf-8").splitlines(keepends=True)
    export.write_text("".join(lines[-3:]), encoding="utf-8")
    stopped = call("-w", str(workspace.root))
    assert stopped.returncode == 1
    assert "failed: messages: the run wrote nothing, since it would remove 9 messages" in stopped.stdout
    assert "- garden: 9 messages of 1 day (2025-03-13); chats/garden.txt no longer holds" in stopped.stdout
    accepted = call("-w", str(workspace.root), "--accept-removals")
    assert accepted.returncode == 0, accepted.stdout + accepted.stderr
    assert workspace.tables.keys("messages") == ["2025-03-15"]
