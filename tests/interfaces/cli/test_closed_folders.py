"""Every command in a workspace with a folder that may not be written: it does its work, or says which place and why."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from backstory import Library, run_pipeline
from backstory.base.errors import StateError, naming_faults_of_system
from backstory.storage.state import close_idle
from tests.errors import raises
from tests.interfaces.cli.invocation import exit_code
from tests.workspaces import DIGEST, write_workspace

LONG = pytest.mark.long
PLACES = ["data", ".", *(pytest.param(place, marks=LONG) for place in ("index", "written", ".backstory"))]
READING = (
    "status", "windows", "documents", "prompt", "check", "context latest", "explain latest", "search water",
    "grep water", "ask water", "show unrelated.md", "report latest --output {out}/report.html",
    "dump unrelated.md --output {out}/dump", "export --format hugo --output {out}/export", "backup {out}/b.tar.gz",
)  # fmt: skip
WRITING = (
    "run", "add {notes}", "remove {notes}", "summarize unrelated.md", "site", "learn", "doctor",
    "forget --document unrelated.md",
)  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with posts after its first run, and a folder of notes beside it."""
    root = tmp_path_factory.mktemp("made") / "workspace"
    run_pipeline(write_workspace(root, DIGEST))
    close_idle()
    return root


@contextmanager
def closed(folder: Path) -> Iterator[None]:
    """Let nobody write into a folder: root may write wherever the disk is not mounted read-only."""
    if os.geteuid():
        below = [path for path in (folder, *folder.rglob("*")) if path.is_dir()]
        for path in below:
            path.chmod(0o555)
        yield
        for path in below:
            path.chmod(0o755)
        return
    mounted = subprocess.run(["mount", "--bind", folder, folder], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("this system lets nobody mount a folder")
    subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
    try:
        yield
    finally:
        close_idle()
        subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.parametrize("place", PLACES)
def test_a_command_does_its_work_or_names_the_place(
    made: Path,
    place: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    root, notes, out = tmp_path / "workspace", tmp_path / "notes", tmp_path / "out"
    notes.mkdir()
    (notes / "a.md").write_text("# Water\n\nMore water.", encoding="utf-8")
    shutil.copytree(made, root)
    (root / "posts" / "another.md").write_text("---\ndate: 2025-03-01\n---\nWater for the moths.", "utf-8")
    out.mkdir()
    for command in (*READING, *WRITING):
        words = command.format(notes=notes, out=out).split()
        with closed(root / place):
            code = exit_code(monkeypatch, *words, "--workspace", str(root))
        told = capsys.readouterr()
        text = " ".join((told.out + told.err).split())
        assert "Usage:" not in text, (command, text)
        assert code == 0 or command in WRITING or place in ("data", "."), (command, text)
        assert code in (0, 3) or str(tmp_path) in text or "Read-only" in text or "denied" in text, (
            command,
            text,
        )


def test_a_library_names_the_place_too(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made, tmp_path / "workspace")
    with (
        closed(tmp_path / "workspace"),
        Library.open(tmp_path / "workspace") as library,
        raises(StateError, "unwritable", tmp_path / "workspace"),
    ):
        library.add(["Moths like lamps."])


@pytest.mark.parametrize(
    ("most", "command"), [(14, "run"), (16, "run"), (20, "run"), (18, "search water"), (10, "status")]
)
def test_too_many_open_files_are_an_error_that_says_so(
    made: Path, tmp_path: Path, most: int, command: str
) -> None:
    shutil.copytree(made, tmp_path / "workspace")
    (tmp_path / "workspace" / "posts" / "another.md").write_text("Water for the moths.", encoding="utf-8")
    called = [sys.executable, "-m", "backstory", *command.split(), "--workspace", str(tmp_path / "workspace")]
    # A shell sets the limit: what runs in a fork of this process may meet the threads of a library.
    limited = ["/bin/sh", "-c", f'ulimit -n {most}; exec "$@"', "sh", *called]
    done = subprocess.run(limited, capture_output=True, text=True, check=False)
    told = done.stdout + done.stderr
    assert done.returncode == 1
    assert "Traceback" not in told
    assert "ulimit -n" in told


@pytest.mark.parametrize(
    ("number", "code"),
    [(errno.EMFILE, "too_many_files"), (errno.EROFS, "unwritable"), (errno.ENOSPC, "disk_full")],
)
def test_errors_of_the_system_have_codes(number: int, code: str) -> None:
    with raises(StateError, code), naming_faults_of_system():
        raise OSError(number, os.strerror(number), "some.file")
    for other in (OSError(errno.ENOENT, "no such file", "some.file"), KeyError("a")):
        with pytest.raises(type(other)), naming_faults_of_system():
            raise other
