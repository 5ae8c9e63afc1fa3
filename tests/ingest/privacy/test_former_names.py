"""Names that earlier runs wrote, and that a later run replaces: what is deleted, and what is said."""

from collections.abc import Callable
from pathlib import Path

import pytest

from backstory.interfaces.pages.report.window_page import write_window_page
from backstory.pipeline.run.runner import run_pipeline
from backstory.pipeline.workspace import Workspace, open_workspace
from tests.interfaces.cli.invocation import run
from tests.workspaces import SETTINGS, run_workspace

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
    return workspace


def test_pseudonyms_that_are_switched_on_later_clear_what_can_be_cleared(named: Workspace) -> None:
    [report] = (named.root / "reports").glob("*.html")
    assert "Ada Lind" in report.read_text(encoding="utf-8")
    switch_on(named)
    root = str(named.root)
    assert run("doctor", "-w", root).exit_code == 1

    told = say("run", "-w", root)

    assert f"reports/{report.name}" in told
    assert str(named.dagster_home) in told
    assert not report.exists()
    made = [path for path in named.root.rglob("*") if path.is_file() and path.parent != named.chats_dir]
    assert not [path for path in made if b"Ada Lind" in path.read_bytes()]
    assert "Nothing has changed" in say("run", "-w", root)
    assert run("doctor", "-w", root).exit_code == 0


def test_nothing_is_deleted_while_no_name_becomes_known(made_workspace: Workspace) -> None:
    page = write_window_page(made_workspace, "latest")
    with (made_workspace.chats_dir / "garden.txt").open("a", encoding="utf-8") as chat:
        chat.write("15/03/2025, 18:06 - Ada Lind: One more thing\n")
    assert "deleted" not in say("run", "-w", str(made_workspace.root))
    assert Path(page).exists()


@pytest.mark.parametrize("feedback", ["off", "on"])
def test_a_run_over_one_day_replaces_the_names_of_who_joined_in_every_day(
    make_workspace: Callable[..., Workspace], feedback: str
) -> None:
    workspace = make_workspace(f"{SETTINGS}writers: {{provider: digest, feedback: '{feedback}'}}\n")
    chat = workspace.chats_dir / "garden.txt"
    # With feedback, the post about the first message is shown to the window of the second one.
    met = (
        "14/03/2025, 10:00 - Ada Lind: Rosalind Thorne lent me a ladder for the pear tree\n"
        "15/03/2025, 20:00 - Ben Okri: The sourdough is sluggish, and the ladder for the pear tree was lent\n"
    )
    chat.write_text(chat.read_text(encoding="utf-8") + met, encoding="utf-8")
    run_pipeline(workspace)
    assert "Rosalind" in str(workspace.tables.read("window_chunks")["text"].to_list())
    shown = workspace.tables.read("contexts")["content"].to_list()
    assert ("Rosalind" in str(shown)) == (feedback == "on")
    page = write_window_page(workspace, "latest")
    joined = "16/03/2025, 10:00 - Rosalind Thorne: I want it back, the plums are ripe\n"
    chat.write_text(chat.read_text(encoding="utf-8") + joined, encoding="utf-8")
    assert run_workspace(open_workspace(workspace.root), ["2025-03-16"]).success
    assert not Path(page).exists()
    assert run("doctor", "-w", str(workspace.root)).exit_code == 0
    files = [path for folder in (workspace.tables_dir, workspace.posts_dir) for path in folder.rglob("*")]
    assert not [path for path in files if path.is_file() and b"Rosalind" in path.read_bytes()]
    for table in ("messages", "window_chunks", "contexts", "window_contexts", "posts"):
        assert "Rosalind" not in str(workspace.tables.read(table).to_dicts())


def test_a_run_over_one_day_replaces_the_names_of_who_joined_in_documents_that_other_days_are_shown(
    make_workspace: Callable[..., Workspace],
) -> None:
    workspace = make_workspace(SETTINGS)
    text = "# Pear trees\n\nRosalind Thorne lends a ladder for the pear tree to whoever asks.\n"
    (workspace.documents_dir / "ladders.md").write_text(text, encoding="utf-8")
    chat = workspace.chats_dir / "garden.txt"
    asked = "14/03/2025, 10:00 - Ada Lind: Who lends me a ladder for the pear tree?\n"
    chat.write_text(chat.read_text(encoding="utf-8") + asked, encoding="utf-8")
    run_pipeline(workspace)
    assert "Rosalind" in str(workspace.tables.read("contexts", ["2025-03-14"]).to_dicts())
    joined = "16/03/2025, 10:00 - Rosalind Thorne: I want it back, the plums are ripe\n"
    chat.write_text(chat.read_text(encoding="utf-8") + joined, encoding="utf-8")
    assert run_workspace(open_workspace(workspace.root), ["2025-03-16"]).success
    for table in ("contexts", "window_contexts"):
        assert "Rosalind" not in str(workspace.tables.read(table).to_dicts())
