"""Two machines that share a database: their tables are those of one machine, and their state lies on the server."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from backstory import run_pipeline
from backstory.operations.inspection.doctor import examine
from backstory.operations.inspection.inventory import read_status
from backstory.pipeline.history.history import SUCCEEDED
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.state import close_idle
from tests.interfaces.cli.invocation import run
from tests.models.services import chat_server
from tests.models.services.chat_server import run_chat_server
from tests.postgres import PostgresServer
from tests.started_python import run_python
from tests.workspaces import DIGEST, SETTINGS, write_workspace

TABLES = ("messages", "windows", "documents", "hits", "window_contexts", "posts")


def make(folder: Path, address: str | None) -> Workspace:
    storage = "" if address is None else f"storage: {{database: '{address}'}}\n"
    workspace = write_workspace(folder, DIGEST + storage)
    secret = workspace.root / ".backstory" / "secret.key"
    secret.parent.mkdir(exist_ok=True)
    secret.write_text("0" * 64, encoding="utf-8")
    secret.chmod(0o600)
    return open_workspace(workspace.root)


@pytest.fixture
def address(postgres_server: PostgresServer) -> Iterator[str]:
    """A database, to which no connection is left open."""
    address = postgres_server.make_address()
    yield address
    close_idle(address)


def hash_tables(workspace: Workspace) -> dict[str, object]:
    return {table: workspace.tables.hash_files(table) for table in TABLES}


def test_the_tables_are_those_of_one_machine_and_nothing_is_embedded_again(
    tmp_path: Path, address: str
) -> None:
    alone, first, second = make(tmp_path / "alone", None), make(tmp_path / "first", address), None
    for workspace in (alone, first):
        run_pipeline(workspace)
    assert hash_tables(first) == hash_tables(alone)
    assert {path.stem for path in alone.root.rglob("*.sqlite")} >= {"cache", "state", "catalog"}
    assert {path.stem for path in first.root.rglob("*") if path.suffix in (".sqlite", ".db")} == set()

    stored = first.embeddings.count_by_owner()
    assert stored == alone.embeddings.count_by_owner()
    second = make(tmp_path / "second", address)
    run_pipeline(second)
    assert hash_tables(second) == hash_tables(alone)
    assert second.embeddings.count_by_owner() == stored
    assert [run.status for run in first.runs.read()] == [SUCCEEDED, SUCCEEDED]


def test_doctor_measures_the_database(tmp_path: Path, address: str) -> None:
    workspace = make(tmp_path / "first", address)
    run_pipeline(workspace)
    found = {one.name: one for one in examine(workspace.root)}
    assert found["database"].passed
    assert " ms" in found["database"].detail
    assert [one for one in found.values() if not one.passed] == []
    assert read_status(workspace).storage == {"files": None, "database": address}
    assert f"Shared database: {address}" in run("status", "-w", str(workspace.root)).stdout


OPENED = """\
import json, sys
from typer.testing import CliRunner
from backstory.interfaces.cli.app import app
from tests.survival.commands import fill_in
from pathlib import Path
opened = []
sys.addaudithook(lambda event, given: event == "sqlite3.connect" and opened.append(str(given[0])))
root = Path(sys.argv[1])
calls = ["run", "ask sourdough", "search sourdough", "summarize sourdough.md", "learn", "status", "doctor"]
for number, call in enumerate([*calls, "forget --document sourdough.md"]):
    CliRunner().invoke(app, fill_in(tuple(call.split()), root, root.parent, number))
print(json.dumps(sorted(set(opened))))
"""


def test_no_command_opens_a_file_of_state(tmp_path: Path, address: str) -> None:
    with run_chat_server() as chat:
        chat.always = chat_server.post()
        written = (
            f"{SETTINGS}services: {{openai: {{base_url: '{chat.url}', max_attempts: 1, requests_per_minute: 10000}}}}\n"
            "writers: {provider: openai, model: tiny}\ncosts: {day: {calls: 1000}}\n"
            f"storage: {{database: '{address}'}}\n"
        )
        root = write_workspace(tmp_path / "first", written).root
        homes = {"HOME": str(tmp_path / "home"), "BACKSTORY_CACHE_DIR": str(tmp_path / "cache")}
        done = run_python(
            ["-c", OPENED, str(root)], env={**os.environ, **homes, "NO_PROXY": "127.0.0.1"}, check=True
        )
        assert chat.requests
    opened = [name for name in json.loads(done.stdout.splitlines()[-1]) if name != ":memory:"]
    assert opened == []
    assert {path.name for path in tmp_path.rglob("*") if path.suffix in (".sqlite", ".db")} == set()
