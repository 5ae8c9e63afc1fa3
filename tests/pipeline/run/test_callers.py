"""Whoever asks for a run gets the same one: with the lock, the history, the views, and ids in the log."""

from collections.abc import Callable

import pytest

from backstory import Library, run_pipeline
from backstory.base import telemetry
from backstory.index.snapshot import current_version
from backstory.operations.forgetting import forget
from backstory.pipeline.history.history import BY_COMMAND, BY_DAGSTER, BY_LIBRARY, BY_LIBRARY_FACE
from backstory.pipeline.run.runner import Builder
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.tables.schemas import TABLES
from backstory.storage.tables.views import VIEWS_FILE
from backstory.storage.turns import is_running
from tests.workspaces import copy_made, run_job, run_workspace

DAYS = ["2025-03-13", "2025-03-14", "2025-03-15"]

Caller = Callable[[Workspace], object]


def add(workspace: Workspace) -> None:
    with Library(workspace) as library:
        library.index()


CALLERS: dict[str, tuple[str, Caller]] = {
    "the command": (BY_COMMAND, lambda workspace: run_workspace(workspace, DAYS)),
    "a script": (BY_LIBRARY, run_pipeline),
    "Dagster": (BY_DAGSTER, lambda workspace: run_job(workspace, DAYS)),
    "the library": (BY_LIBRARY_FACE, add),
    "forgetting": (BY_LIBRARY, lambda workspace: forget(workspace, "document", "unrelated")),
}


@pytest.mark.parametrize(("by", "call"), CALLERS.values(), ids=CALLERS.keys())
def test_every_caller_holds_the_lock_and_leaves_history_and_views(
    by: str, call: Caller, made_workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    (made_workspace.documents_dir / "added.md").write_text("# Added\n\nA late frost.\n", encoding="utf-8")
    (made_workspace.tables_dir / VIEWS_FILE).unlink()
    for file in (made_workspace.tables_dir / "runs").glob("*.parquet"):
        file.unlink()
    seen: list[tuple[bool, str | None]] = []

    build = Builder.build

    def observe(builder: Builder) -> None:
        seen.append((is_running(made_workspace.catalog.state), telemetry.current_run()))
        build(builder)

    monkeypatch.setattr(Builder, "build", observe)
    before = current_version(made_workspace.index)
    call(open_workspace(made_workspace.root))

    [(was_locked, run_id)] = seen
    assert was_locked
    latest = open_workspace(made_workspace.root).runs.read(1)[0]
    assert (latest.run_id, latest.by) == (run_id, by)
    assert (made_workspace.tables_dir / VIEWS_FILE).is_file()
    assert latest.run_id in set(made_workspace.tables.read("runs")["run_id"])
    assert current_version(made_workspace.index) != before
    assert not is_running(made_workspace.catalog.state)


def test_every_caller_of_all_tables_leaves_the_same_tables(
    made_workspace: Workspace, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (made_workspace.documents_dir / "added.md").write_text("# Added\n\nA late frost.\n", encoding="utf-8")
    tables = []
    for name in ("the command", "a script", "Dagster"):
        workspace = copy_made(made_workspace.root, tmp_path_factory.mktemp("caller") / "workspace")
        CALLERS[name][1](workspace)
        tables.append({table: workspace.tables.hash_files(table) for table in TABLES if table != "runs"})
    assert tables[0] == tables[1] == tables[2]
