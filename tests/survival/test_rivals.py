"""Runs at the same time, and a reader that polls all that they write; all of them in processes of their own."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.forms import SHARED
from tests.started_python import StartedPython
from tests.survival.conftest import LATER_POST
from tests.workspaces import CHAT
from tests.world import describe, run, write_inputs

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 2

# Writes its own file and runs over its own days, some rounds.
RUNNER = f"""
import sys
from datetime import date
from pathlib import Path
from backstory.pipeline.run.plan import find_wanted
from tests.workspaces import run_workspace
from backstory.pipeline.workspace import open_workspace

root, name, text, first = Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
for number in range({ROUNDS}):
    (root / name).write_text(text.replace("elbow", "elbow " * number), encoding="utf-8")
    workspace = open_workspace(root)
    wanted = find_wanted(workspace, date.fromisoformat(first) if first else None, None)
    outcome = run_workspace(workspace, wanted)
    assert outcome.success, outcome.failures
"""
# Reads everything until its input ends, and counts the rounds.
READER = """
import sys, threading
from pathlib import Path
from backstory import Library
from backstory.storage.tables.schemas import TABLES
from backstory.storage.tables.views import query_views
from backstory.pipeline.workspace import open_workspace

root, ended = Path(sys.argv[1]), threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
rounds, least = 0, {table: 1 for table in ("messages", "windows", "window_contexts", "documents", "hits")}
while not ended.is_set() or not rounds:
    workspace = open_workspace(root)
    for table in TABLES:
        assert len(workspace.tables.read(table)) >= least.get(table, 0), table
        [[count]] = query_views(workspace.tables, f"SELECT count(*) FROM {table}").rows()
        assert count >= least.get(table, 0), table
    answer = Library(workspace).search("a sourdough starter", top_k=3)
    assert len(answer.hits) == 3 and "damaged" not in " ".join(answer.notes), answer
    rounds += 1
print(rounds)
"""


def start(script: str, *arguments: object) -> subprocess.Popen[str]:
    return StartedPython(
        ["-c", script, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.long
def test_rival_runs_end_in_the_tables_of_one_run_and_a_reader_sees_no_error(
    root: Path, tmp_path: Path
) -> None:
    reader = start(READER, root)
    runners = [
        start(RUNNER, root, "chats/garden.txt", CHAT, ""),
        start(RUNNER, root, "posts/frost.md", LATER_POST, "2025-03-15"),
    ]
    try:
        for runner in runners:
            _, errors = runner.communicate(timeout=600)
            assert runner.returncode == 0, errors
        read, errors = reader.communicate(timeout=600)
        assert reader.returncode == 0, errors
        assert int(read) > 0
    finally:
        for process in [reader, *runners]:
            process.kill()
            process.communicate()
    assert run(root).success
    alone = tmp_path / "alone"
    inputs = {
        str(path.relative_to(root)): path.read_text(encoding="utf-8")
        for path in [root / "backstory.yaml", *(root / "chats").iterdir(), *(root / "posts").iterdir()]
    }
    inputs["backstory.yaml"] = inputs["backstory.yaml"].partition(f"\n{SHARED}")[0] + "\n"
    write_inputs(alone, inputs)
    assert run(alone).success
    assert describe(root) == describe(alone)
    shutil.rmtree(alone)
