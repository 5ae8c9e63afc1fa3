"""While the database of a shared workspace is away, every command says so, and none begins anything."""

from pathlib import Path

import pytest

from backstory import Library, run_pipeline
from backstory.base.errors import StateError
from backstory.operations.inspection.doctor import examine
from backstory.pipeline.workspace import open_workspace
from backstory.storage import state_postgres
from backstory.storage.state import close_idle
from tests.errors import raises
from tests.postgres import PostgresServer
from tests.workspaces import DIGEST, write_workspace

QUESTION = "a sluggish starter"


def test_what_asks_the_database_says_that_it_is_away_and_goes_on_when_it_is_back(
    postgres_server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_postgres, "RESTART_SECONDS", 0.05)
    address = postgres_server.make_address()
    workspace = write_workspace(tmp_path / "workspace", f"{DIGEST}storage: {{database: '{address}'}}\n")
    run_pipeline(workspace)
    with Library.open(workspace.root) as library:
        before = library.search(QUESTION)
        postgres_server.stop()
        try:
            with raises(StateError, "unreachable_database"):
                library.search(QUESTION)
            with raises(StateError, "unreachable_database"):
                run_pipeline(open_workspace(workspace.root))
            assert [one.name for one in examine(workspace.root) if not one.passed] == ["database"]
        finally:
            postgres_server.start()
        assert library.search(QUESTION) == before
    close_idle(address)
