"""What it costs to recognise text in images of a Google Drive, as `backstory check` says before they are fetched."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backstory.base.environment import DRIVE_VARIABLE
from backstory.ingest.sources import drive_calls
from backstory.ingest.sources.fetching import fetch_sources
from backstory.operations.inspection.preview import preview_run
from backstory.operations.inspection.recognition_cost import BYTES_OF_PAGE, RecognitionCost
from backstory.pipeline.workspace import Workspace
from tests.ingest.documents.pdf_files import make_png, make_scan, put_program
from tests.ingest.sources.drive_server import GOOGLE, Drive, make_user, serve_drive
from tests.workspaces import SETTINGS

SOURCE = "documents: {sources: [{drive: {folder: root}, name: team, exclude: [old/]}]}"
WORKING = (
    'case "$1" in --version) echo "tesseract 5.0"; exit;; --list-langs) echo "List"; echo eng; exit;; esac\n'
    "n=0; while [ $n -lt 20000 ]; do n=$((n+1)); done\n/bin/cat >/dev/null\nprintf 'level\\n'"
)


@pytest.fixture
def drive(monkeypatch: pytest.MonkeyPatch) -> Iterator[Drive]:
    with serve_drive() as drive:
        monkeypatch.setattr(drive_calls, "ADDRESS", drive.address)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.setenv(DRIVE_VARIABLE, make_user(drive, "ada"))
        drive.put("a", "plan.md", content=b"# Plan\n")
        drive.put("b", "scan.pdf", "application/pdf", make_scan([None], "The oven is hot"))
        drive.put("c", "photo.PNG", "image/png", make_png("The oven"))
        drive.put("d", "book.pdf", "application/pdf", b"%PDF-1.7" + bytes(3 * BYTES_OF_PAGE))
        drive.put("e", "Talk", f"{GOOGLE}.presentation", b"slides")
        yield drive


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.fixture
def workspace(make_workspace: Any) -> Workspace:
    made: Workspace = make_workspace(f"{SETTINGS}{SOURCE}\n")
    return made


def ask(workspace: Workspace) -> list[RecognitionCost]:
    return list(preview_run(workspace=workspace.root).recognition)


def test_the_cost_is_known_before_anything_is_fetched(
    drive: Drive, workspace: Workspace, programs: Path
) -> None:
    put_program(programs, WORKING)
    [cost] = ask(workspace)
    assert (cost.source, cost.images, cost.pdfs, cost.pages) == ("team", 1, 2, 1 + 1 + 4)
    assert cost.seconds_of_page is not None
    assert cost.seconds_of_page > 0
    assert (cost.seconds, cost.obstacle, cost.failure) == (cost.pages * cost.seconds_of_page, None, None)
    assert not (workspace.mirrors / "team").exists()
    assert not any("media" in call for call in drive.count())


def test_what_was_fetched_costs_nothing_again(drive: Drive, workspace: Workspace, programs: Path) -> None:
    fetch_sources(workspace)
    memory = (workspace.mirrors / "team" / "drive.json").read_bytes()
    drive.count()
    assert ask(workspace) == []
    assert drive.count() == {"files/root": 1, "changes": 1}
    drive.put("c", "photo.PNG", "image/png", make_png("The bread"), day=2)
    [cost] = ask(workspace)
    assert (cost.images, cost.pdfs, cost.pages, cost.seconds) == (1, 0, 1, None)
    assert cost.obstacle is not None
    assert (workspace.mirrors / "team" / "drive.json").read_bytes() == memory
    assert not any(programs.iterdir())


def test_a_drive_that_does_not_answer_is_named(drive: Drive, workspace: Workspace) -> None:
    drive.refused = {"ada"}
    [cost] = ask(workspace)
    assert (cost.source, cost.pages, cost.failure is None) == ("team", 0, False)
