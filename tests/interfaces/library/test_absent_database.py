"""Readers go on while the database of a shared workspace is away, and say what their answers lack."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from backstory import Library, run_pipeline
from backstory.base.errors import BackstoryError
from backstory.operations.inspection.doctor import examine
from backstory.pipeline import sharing
from backstory.pipeline.workspace import open_workspace
from backstory.storage import state_postgres
from backstory.storage.state import close_idle
from tests.interfaces.cli.invocation import run
from tests.postgres import PostgresServer
from tests.workspaces import DIGEST, write_workspace

CODE = "unreachable_database"
QUESTION = "a sluggish starter"


@pytest.fixture
def root(postgres_server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A workspace that ran, and whose state is on a server."""
    monkeypatch.setattr(state_postgres, "RESTART_SECONDS", 0.05)
    monkeypatch.setattr(sharing, "AWAY_SECONDS", 0.0)
    address = postgres_server.make_address()
    workspace = write_workspace(tmp_path / "workspace", f"{DIGEST}storage: {{database: '{address}'}}\n")
    run_pipeline(workspace)
    yield workspace.root
    close_idle(address)


@contextmanager
def stopped(server: PostgresServer) -> Iterator[None]:
    server.stop()
    try:
        yield
    finally:
        server.start()


def test_searches_and_answers_go_on_and_say_so(root: Path, postgres_server: PostgresServer) -> None:
    with Library.open(root) as library:
        before = library.search(QUESTION)
        assert before.notes == ()
        with stopped(postgres_server):
            again = library.search(QUESTION)
            told = [
                again.notes,
                library.search("a question that was never asked").notes,
                library.answer(f"what is {QUESTION}?").notes,
                library.context(f"the sourdough has {QUESTION}").notes,
                library.grep("starter").notes,
            ]
            assert library.status().state == "ready"
        assert again.hits == before.hits
        assert all(CODE in " ".join(notes) for notes in told)
        assert library.search(QUESTION) == before


def test_every_answer_says_so_until_the_database_is_asked_again(
    root: Path, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharing, "AWAY_SECONDS", 60.0)
    with Library.open(root) as library:
        library.search(QUESTION)
        with stopped(postgres_server):
            told = [
                library.search(QUESTION).notes,
                library.grep("starter").notes,
                library.search(QUESTION).notes,
            ]
    assert all(CODE in " ".join(notes) for notes in told)


def test_a_process_that_begins_without_the_database_reads_and_does_not_run(
    root: Path,
    postgres_server: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(sharing, "AWAY_SECONDS", 60.0)
    with stopped(postgres_server):
        for call in (["search", QUESTION], ["ask", f"what is {QUESTION}?"]):
            caplog.clear()
            shown = run(*call, "-w", str(root))
            assert shown.exit_code == 0, shown.output
            assert [CODE in record.getMessage() for record in caplog.records].count(True) == 1
            assert shown.output.count(CODE) <= 1  # by the log, where a command has set it up
        told = run("status", "-w", str(root)).exception
        assert isinstance(told, BackstoryError)
        assert told.code == CODE
        workspace = open_workspace(root)
        with pytest.raises(BackstoryError) as error:
            run_pipeline(workspace)
        assert error.value.code == CODE
        assert [found.name for found in examine(root) if not found.passed] == ["database"]
