"""Names that earlier runs wrote, and that a later run replaces: what is deleted, and what is said until it is gone."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from backstory.interfaces.pages.report.window_page import write_window_page
from backstory.pipeline.run.runner import run_pipeline
from backstory.pipeline.workspace import Workspace, open_workspace
from tests.interfaces.cli.invocation import run
from tests.workspaces import SETTINGS

OFF = f"{SETTINGS}privacy: {{pseudonyms: false}}\n"


def say(*arguments: str) -> str:
    return " ".join(run(*arguments).output.split())


def switch_on(workspace: Workspace) -> None:
    (workspace.root / "backstory.yaml").write_text(SETTINGS, encoding="utf-8")


@pytest.fixture
def named(make_workspace: Callable[..., Workspace]) -> Workspace:
    """Give a workspace whose tables, report and history were made without pseudonyms."""
    workspace = make_workspace(OFF)
    run_pipeline(workspace)
    write_window_page(workspace, "latest")
    workspace.dagster_home.mkdir()
    (workspace.tables_dir / "ledger.sqlite.damaged").write_text("moved aside", encoding="utf-8")
    return workspace


def test_pseudonyms_that_are_switched_on_later_clear_what_can_be_cleared(named: Workspace) -> None:
    [report] = (named.root / "reports").glob("*.html")
    assert "Ada Lind" in report.read_text(encoding="utf-8")
    switch_on(named)
    root = str(named.root)

    told = say("run", "-w", root)

    assert "earlier runs wrote real names that are replaced now" in told
    assert f"reports/{report.name}" in told
    assert "check names_in_history: 1 found" in told
    assert not report.exists()
    made = [path for path in named.root.rglob("*") if path.is_file() and path.parent != named.chats_dir]
    assert not [path for path in made if b"Ada Lind" in path.read_bytes()]
    assert "Nothing has changed" in say("run", "-w", root)


def test_doctor_names_the_history_until_it_is_deleted(named: Workspace) -> None:
    switch_on(named)
    root = str(named.root)
    assert "or contact data; run `backstory run`" in say("doctor", "-w", root)
    run("run", "-w", root)
    assert f"{named.dagster_home} was written before real names were replaced" in say("doctor", "-w", root)
    shutil.rmtree(named.dagster_home)
    result = run("doctor", "-w", root)
    assert result.exit_code == 0, result.output


def test_nothing_is_deleted_while_no_name_becomes_known(made_workspace: Workspace) -> None:
    page = write_window_page(made_workspace, "latest")
    with (made_workspace.chats_dir / "garden.txt").open("a", encoding="utf-8") as chat:
        chat.write("15/03/2025, 18:06 - Ada Lind: One more thing\n")
    assert "earlier runs" not in say("run", "-w", str(made_workspace.root))
    assert Path(page).exists()


def test_a_member_who_writes_for_the_first_time_was_named_before(workspace: Workspace) -> None:
    chat = workspace.chats_dir / "garden.txt"
    first = "13/03/2025, 09:30 - Ada Lind: Ask dora quill about the moths\n"
    chat.write_text(chat.read_text(encoding="utf-8") + first, encoding="utf-8")
    root = str(workspace.root)
    run("run", "-w", root)
    assert "dora quill" in str(workspace.tables.read("messages")["text"].to_list())
    page = write_window_page(open_workspace(workspace.root), "latest")
    with chat.open("a", encoding="utf-8") as export:
        export.write("15/03/2025, 19:00 - Dora Quill: I like moths\n")

    told = say("run", "-w", root, "--from", "2025-03-15")

    assert "1 partitions outside this run, such as 2025-03-13, still hold some" in told
    assert not Path(page).exists()
    assert "hold a real name" in say("doctor", "-w", root)
    assert "earlier runs wrote real names" in say("run", "-w", root)
    assert "quill" not in str(workspace.tables.read("messages").to_dicts())
    assert run("doctor", "-w", root).exit_code == 0
