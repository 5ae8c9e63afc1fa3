"""Commands that look at a workspace beside a run of it: neither disturbs the other."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

from backstory import run_pipeline
from backstory.interfaces.cli.app import app
from backstory.pipeline.workspace import Workspace, open_workspace
from tests.forms import Share
from tests.privileges import NOBODY
from tests.started_python import StartedPython
from tests.survival.commands import CHANGING, ELSEWHERE, LOOKING
from tests.workspaces import CHAT, SETTINGS

MAIN = "from backstory.interfaces.cli.app import main; main()"
POSTING = f"{SETTINGS}writers: {{provider: digest}}\n"
ROUNDS = 5


@pytest.fixture
def posting(make_workspace: Callable[..., Workspace], share: Share) -> Path:
    """A workspace with posts, after its first run, that only its owner can read."""
    root = make_workspace(POSTING).root
    root.chmod(0o700)
    share(root)
    run_pipeline(open_workspace(root))
    return root


def start(*words: str) -> subprocess.Popen[str]:
    return StartedPython(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


READER = """
import json, sys
from pathlib import Path
from backstory import Library
from backstory.base.errors import BackstoryError

failures = []
with Library.open(Path(sys.argv[1])) as library:
    for number in range(int(sys.argv[2])):
        calls = {
            "text": lambda: library.text("sourdough.md"),
            "document": lambda: library.document("sourdough.md"),
            "documents": lambda: library.documents(),
            "grep": lambda: library.grep("starter"),
            "summarize": lambda: library.summarize("sourdough.md"),
            "search": lambda: library.search(f"a sluggish starter {number}"),
        }
        for name, call in calls.items():
            try:
                call()
            except Exception as error:
                failures.append([name, repr(error)])
print(json.dumps(failures))
"""


def call_library(root: Path, rounds: int) -> list[list[str]]:
    process = start("-c", READER, str(root), str(rounds))
    output, _ = process.communicate()
    assert process.returncode == 0, output
    found: list[list[str]] = json.loads(output.splitlines()[-1])
    return found


def run_beside(root: Path, looks: Sequence[Future[Any]], *, publishes: bool = False) -> list[str]:
    """Run a workspace again and again, with one more message each time, until others have looked at it enough.

    The message is of an earlier day than the latest window, which has its context all the time. No message leaves,
    since ``doctor`` would rightly name the copies that the other commands have made of it.

    Returns:
        What the runs that failed printed.
    """
    told = []
    text = CHAT
    for number in count():
        text += f"13/03/2025, 19:{number % 60:02} - Ben Okri: Message {number} of the sluggish starter\n"
        (root / "chats" / "garden.txt").write_text(text, encoding="utf-8")
        if publishes:
            (root / "posts" / "frost.md").write_text(
                f"# Frost\n\nIt came {number} times.\n", encoding="utf-8"
            )
        process = start("-c", MAIN, "run", "--workspace", str(root))
        output, _ = process.communicate()
        told += [output] if process.returncode else []
        if all(look.done() for look in looks):
            break
    return told


def call_commands(root: Path, folder: Path, kind: str, *, user: int = 0) -> list[dict[str, Any]]:
    become = f"import os; os.setuid({user}); " if user else ""
    code = f"from tests.survival.commands import main; {become}main()"
    process = start("-c", code, str(root), str(folder), kind)
    output, _ = process.communicate()
    assert process.returncode == 0, output
    return [json.loads(line) for line in output.splitlines()]


def test_every_command_is_called_by_the_tests_of_this_file() -> None:
    program = typer.main.get_command(app)
    assert isinstance(program, TyperGroup)
    names = set(program.commands)
    assert {call[0] for call in LOOKING + CHANGING} | ELSEWHERE == names


def test_every_command_that_looks_and_a_run_beside_it_succeed(posting: Path, tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        calls = pool.submit(call_commands, posting, tmp_path, "looking")
        assert run_beside(posting, [calls]) == []
        assert [call for call in calls.result() if call["code"] or call["opened"]] == []


def test_an_open_library_reads_documents_while_runs_publish_others(posting: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        calls = pool.submit(call_library, posting, 60)
        assert run_beside(posting, [calls], publishes=True) == []
        assert calls.result() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_whoever_may_only_read_a_workspace_searches_it(
    make_workspace: Callable[..., Workspace], open_folder: Path
) -> None:
    root = make_workspace(POSTING).root
    run_pipeline(open_workspace(root))
    copy = Path(shutil.copytree(root, open_folder / "workspace"))
    for path in (copy, *copy.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    calls = call_commands(copy, open_folder, "reading", user=NOBODY)
    assert [call for call in calls if call["code"]] == []


@pytest.mark.long
def test_no_command_that_changes_a_workspace_opens_a_database_beside_sqlite(
    posting: Path, tmp_path: Path
) -> None:
    calls = call_commands(posting, tmp_path, "changing")
    assert [call for call in calls if call["code"] or call["opened"]] == []


@pytest.mark.long
def test_processes_that_look_again_and_again_disturb_no_run(posting: Path, tmp_path: Path) -> None:
    def look(number: int) -> list[dict[str, Any]]:
        called = []
        for round_number in range(ROUNDS):
            folder = tmp_path / f"{number}-{round_number}"
            folder.mkdir()
            called += call_commands(posting, folder, str(number))
        return called

    with ThreadPoolExecutor(3) as pool:
        looks = [pool.submit(look, number) for number in range(len(LOOKING))]
        assert run_beside(posting, looks) == []
        assert [call for each in looks for call in each.result() if call["code"]] == []
