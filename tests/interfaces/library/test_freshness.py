"""What answers say of files that have changed."""

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from backstory.base.errors import NoIndexError
from backstory.base.progress import listening
from backstory.ingest.walk import ListedFile
from backstory.interfaces.library.freshness import FileChanges
from backstory.interfaces.library.library import Library
from tests.errors import raises
from tests.started_python import run_python


class Edits:
    """Random edits of a folder, each of which gives the folders another time, whatever the clock of the disk."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder = folder
        self._random = random.Random(seed)
        self._count = 0

    def make(self) -> None:
        self._count += 1
        text = f"Text {self._count}. " * self._count
        places = [self._folder, *sorted(path for path in self._folder.rglob("*") if path.is_dir())]
        files = sorted(path for path in self._folder.rglob("*.md"))
        place, file = self._random.choice(places), self._random.choice(files)
        match self._random.choice(["new", "edit", "remove", "folder", "ignore", "unignore", "move"]):
            case "new":
                (place / f"n{self._count}.md").write_text(text, encoding="utf-8")
            case "edit":
                file.write_text(text, encoding="utf-8")
            case "remove" if len(files) > 2:
                file.unlink()
            case "folder":
                (place / f"f{self._count}").mkdir()
            case "ignore":
                (place / ".backstoryignore").write_text(f"{file.name}\n# {text}", encoding="utf-8")
            case "unignore":
                (place / ".backstoryignore").unlink(missing_ok=True)
            case "move":
                file.rename(file.with_name(f"m{self._count}.md"))
        for number, each in enumerate([self._folder, *self._folder.rglob("*")]):
            if each.is_dir():
                os.utime(each, ns=(self._count, self._count * 1000 + number))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_any_edit_is_told_as_by_one_who_lists_all_files(
    library: Library, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr("backstory.interfaces.library.freshness._RESTS", 0)
    workspace = library.workspace
    rows = library.documents().documents
    revisions = {row.uri: row.revision for row in rows}
    kept = FileChanges(workspace, seconds=0)
    edits = Edits(workspace.documents_dir, seed)
    told = set()
    for _ in range(25):
        assert kept.describe("v", revisions) == FileChanges(workspace).describe("v", revisions)
        told.add(kept.describe("v", revisions))
        edits.make()
    assert len(told) > 5


def test_answers_tell_that_a_run_was_killed_before_its_end(library: Library) -> None:
    workspace = library.workspace
    (workspace.documents_dir / "fresh.md").write_text("Fresh quinces.", encoding="utf-8")
    code = (
        "import os, signal, sys; from pathlib import Path; from backstory.pipeline.workspace import open_workspace;"
        "history = open_workspace(Path(sys.argv[1])).runs;"
        "run = history.record('backstory run', []); run.__enter__(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    run_python(["-c", code, str(workspace.root)])
    for notes in (
        library.search("quinces").notes,
        library.grep("quinces").notes,
        library.context("quinces").notes,
    ):
        [note] = notes
        assert note.startswith("the last indexing was killed; ")
        assert "fresh.md" in note
    library.index()
    assert library.search("quinces").notes == ()


def test_an_answer_while_indexing_says_how_far_it_is(
    make_library: Callable[..., Library], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backstory.pipeline.history.history._BEAT_SECONDS", -1.0)
    library = make_library()
    told: list[str] = []

    def ask(label: str, done: int, total: int) -> None:
        if label == "reading documents" and done == 4:
            with raises(NoIndexError, "indexing") as raised:
                library.search("train")
            told.append(f"{total} {raised.value}")

    with listening(ask):
        assert library.index().success
    [message] = told
    assert message.startswith("6 indexing is under way: ")
    assert "3 of 6 files read" in message


def test_files_that_were_not_read_are_told_when_they_change_and_not_when_they_are_copied(
    library: Library, tmp_path: Path
) -> None:
    folder = library.workspace.documents_dir
    (folder / "empty.md").write_text("", encoding="utf-8")
    (folder / "bad.md").write_text("---\ntitle: [\n---\n", encoding="utf-8")
    library.index()
    root = shutil.copytree(library.workspace.root, tmp_path / "copy")
    with Library.open(root) as copy:
        assert not copy.search("bread").notes
        assert copy.status().pending == ()
        (copy.workspace.documents_dir / "bad.md").write_text("# Good now", encoding="utf-8")
    with Library.open(root) as copy:
        assert any("bad.md" in note for note in copy.search("bread").notes)
        assert copy.status().pending == ("posts/bad.md",)


def test_a_status_reads_no_file_that_a_run_has_read(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backstory.ingest.documents.files.SETTLED_SECONDS", -3600.0)
    library.index()
    monkeypatch.setattr(ListedFile, "read", lambda self: pytest.fail(f"{self.uri} is read"))
    assert library.status().pending == ()
