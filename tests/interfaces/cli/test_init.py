"""``backstory init --from``: it checks, asks or says what it takes, makes the workspace and runs."""

import os
import pty
import shutil
from pathlib import Path

import pytest

from backstory import init_workspace
from backstory.base.errors import InputError
from backstory.interfaces.cli.failure import BAD_USAGE
from backstory.pipeline.workspace import open_workspace
from tests.errors import raises
from tests.interfaces.cli.conftest import CHAT, POSTS
from tests.interfaces.cli.invocation import exit_code
from tests.started_python import StartedPython

MAIN = "from backstory.interfaces.cli.app import main; main()"


@pytest.fixture
def export(tmp_path: Path) -> Path:
    path = tmp_path / "downloads" / "garden.txt"
    path.parent.mkdir()
    path.write_text(CHAT, encoding="utf-8")
    return path


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    for name, text in POSTS.items():
        (folder / f"{name}.md").write_text(f"# {name.title()}\n\n{text}\n", encoding="utf-8")
    return folder


def test_a_chat_and_a_folder_become_a_workspace_that_was_run(
    export: Path,
    notes: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    root = tmp_path / "new"
    given = f"--from {export} --documents {notes} --timezone Asia/Tokyo --writer digest"
    assert exit_code(monkeypatch, "init", str(root), *given.split()) == 0
    said = capsys.readouterr().out
    assert said.index("Taken for chats") < said.index("Taken for documents") < said.index(f"Made {root}")
    assert "read in UTC" not in said  # the preview knows the given zone
    workspace = open_workspace(root)
    messages = workspace.tables.read("messages")
    assert messages["timestamp"].sort().dt.strftime("%H:%M")[0] == "00:01"
    assert workspace.tables.read("documents").height == len(POSTS)
    assert len(list(workspace.posts_dir.glob("*.md"))) == 1
    assert export.read_text(encoding="utf-8") == CHAT


def test_without_a_terminal_the_defaults_are_said(
    export: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(monkeypatch, "init", str(tmp_path / "new"), "--from", str(export)) == 0
    said = capsys.readouterr().out
    assert "read in UTC" in said
    assert "--timezone" in said
    assert "--writer" in said
    settings = open_workspace(tmp_path / "new").settings
    assert (settings.conversations.timezone, settings.writers.provider) == ("UTC", "none")


def test_on_a_terminal_zone_and_writer_are_asked_for(export: Path, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    root = tmp_path / "new"
    words = ["-c", MAIN, "init", str(root), "--from", str(export)]
    with StartedPython(words, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        # The first answer is refused, so that the question is asked again.
        os.write(ours, b"Nowhere/Land\nEurope/Lisbon\ny\n")
        said = b""
        while True:
            try:
                said += os.read(ours, 65_536)
            except OSError:  # the other end is closed: the command has ended
                break
    os.close(ours)
    assert process.returncode == 0, said.decode()
    assert b"Nowhere/Land" in said
    settings = open_workspace(root).settings
    assert (settings.conversations.timezone, settings.writers.provider) == ("Europe/Lisbon", "digest")


def test_what_is_no_chat_makes_no_workspace(
    notes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (notes / "data.bin").write_bytes(bytes(range(256)))
    for path in (notes / "disk.md", notes / "data.bin", notes / "absent.zip"):
        assert exit_code(monkeypatch, "init", str(tmp_path / "new"), "--from", str(path)) == BAD_USAGE
    zone = ("--timezone", "Nowhere/Land")
    assert exit_code(monkeypatch, "init", str(tmp_path / "new"), *zone) == BAD_USAGE
    assert not (tmp_path / "new").exists()


def test_python_creates_the_same_workspace(export: Path, notes: Path, tmp_path: Path) -> None:
    with raises(InputError, "unknown_timezone"):
        init_workspace(tmp_path / "new", timezone="Nowhere/Land")
    with raises(InputError, "absent_file"):
        init_workspace(tmp_path / "new", chats=[notes / "absent.zip"])
    (tmp_path / "other").mkdir()
    shutil.copy(export, tmp_path / "other")
    with raises(InputError, "same_name"):
        init_workspace(tmp_path / "new", chats=[export, tmp_path / "other" / export.name])
    assert not (tmp_path / "new").exists()
    root = init_workspace(
        tmp_path / "new", notes, chats=[export, notes], timezone="Asia/Tokyo", writer="digest"
    )
    settings = open_workspace(root).settings
    assert (settings.conversations.timezone, settings.writers.provider) == ("Asia/Tokyo", "digest")
    [source] = settings.documents.sources
    assert source.path == str(notes)
    assert (root / "chats" / "garden.txt").read_text(encoding="utf-8") == CHAT
    assert {path.name for path in (root / "chats" / "notes").iterdir()} == {f"{name}.md" for name in POSTS}
    with raises(InputError, "already_there"):
        init_workspace(root, chats=[export])
