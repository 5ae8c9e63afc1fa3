"""Kills, full disks and small limits at many moments: what was there stays whole, and the same command ends it.

Written posts are documents of later windows, and a day is gone in the later run, so that its posts leave them.
"""

import os
import random
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from backstory.base.errors import StateError
from backstory.index.search import open_index
from backstory.operations.backup import restore_backup
from backstory.pipeline.stages.posts import PostsStage
from backstory.pipeline.workspace import open_workspace
from backstory.storage.state import close_idle
from backstory.storage.tables.schemas import TABLES
from backstory.storage.tables.tables import Made, Tables
from tests.forms import Share, is_shared
from tests.interfaces.cli.invocation import run as invoke
from tests.long_tests import LONG_TESTS
from tests.world import (
    ROOT,
    describe,
    feedback_inputs,
    find_differences,
    find_leftovers,
    run,
    run_and_kill,
    write_inputs,
)

KILLS, FILLS = (30, 10) if LONG_TESTS else (4, 3)
"""Kills and full disks of each form."""
TOUCHES = {"first": 1000, "later": 900, "copy": 300, "backup": 90}
"""About how often each work touches a file. A moment after its end kills nothing, and is as good a case.

A backup is killed before its end, since a second one replaces no file; in the shared form, it touches the fewest.
"""
PLENTY = 50_000
MAIN = "from backstory.interfaces.cli.app import main; main()"

Expected = dict[str, dict[str, Any]]
Begin = Callable[[str, Path], tuple[str, ...]]


def edit(root: Path) -> None:
    chat, settings = root / "chats" / "garden.txt", root / "backstory.yaml"
    later = f"{chat.read_text(encoding='utf-8')}16/03/2025, 08:00 - Ada Lind: Moths on the train\n"
    kept = [line for line in later.splitlines(keepends=True) if not line.startswith("13/03")]
    chat.write_text("".join(kept), encoding="utf-8")
    (root / "posts" / "sourdough.md").unlink()
    text = settings.read_text(encoding="utf-8")
    settings.write_text(text.replace("top_k: 3", "top_k: 2"), encoding="utf-8")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("made") / "workspace"
    write_inputs(root, feedback_inputs())
    assert run(root).success
    return root


@pytest.fixture(scope="module")
def expected(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Expected:
    """What the works leave that nothing disturbs."""
    later = tmp_path_factory.mktemp("expected") / "workspace"
    shutil.copytree(made, later)
    edit(later)
    assert run(later).success
    return {"first": describe(made), "later": describe(later)}


@pytest.fixture
def begin(made: Path, share: Share) -> Begin:
    """Give a function that prepares a work in an absent folder, and gives the words of its command."""

    def prepare(work: str, root: Path) -> tuple[str, ...]:
        if work == "first":
            share(root)
            write_inputs(root, feedback_inputs())
            return ("run",)
        shutil.copytree(made, root)
        share(root)
        assert run(root).success
        if work == "later":
            edit(root)
            return ("run",)
        beside = root.with_name(work)
        return (
            ("backup", f"{beside}.tar.gz")
            if work == "backup"
            else ("storage", "copy", "--to", f"file://{beside}")
        )

    return prepare


def require_end(work: str, root: Path, words: tuple[str, ...], expected: Expected) -> None:
    """Repeat the command, and compare what there is then with what there is where nothing was disturbed."""
    assert find_leftovers(root) == [] or work in ("first", "later")
    assert invoke(*words, "--workspace", str(root)).exit_code == 0
    if work == "copy":
        for names in open_workspace(root).tables.list_files().values():
            for name in names.values():
                assert (root.with_name(work) / name).read_bytes() == open_workspace(root).tables.store.read(
                    name
                )
        return
    if work == "backup":
        root = restore_backup(root.with_name("backup.tar.gz"), root.with_name("restored")).root
    assert find_differences(describe(root), expected["later" if work == "later" else "first"]) == {}
    assert run(root).fresh
    if is_shared(root):
        other = root.with_name("other")
        (other / ".backstory").mkdir(parents=True)
        for name in ("backstory.yaml", ".backstory/secret.key", "chats", "posts"):
            (shutil.copytree if (root / name).is_dir() else shutil.copy)(root / name, other / name)
        assert run(other).success
        assert describe(other)["index"] == describe(root)["index"]
        assert open_workspace(other).tables.list_files() == open_workspace(root).tables.list_files()


@pytest.mark.parametrize("number", range(KILLS))
def test_what_was_killed_is_ended_by_the_same_command(
    number: int, begin: Begin, expected: Expected, tmp_path: Path
) -> None:
    work = [*TOUCHES][number % len(TOUCHES)]
    words = begin(work, tmp_path / "workspace")
    moment = random.Random(number).randrange(TOUCHES[work])
    run_and_kill(tmp_path / "workspace", moment, *words)
    require_end(work, tmp_path / "workspace", words, expected)


class Killed(BaseException):
    """Ends a run as a kill does."""


@pytest.mark.parametrize("feedback", ["on", "off"])
@pytest.mark.parametrize("place", ["before the posts are asked for", "before their rows are committed"])
def test_inputs_that_are_put_back_after_a_kill_give_what_they_gave(
    place: str, feedback: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "workspace"
    inputs = feedback_inputs()
    inputs["backstory.yaml"] = inputs["backstory.yaml"].replace("feedback: 'on'", f"feedback: '{feedback}'")
    write_inputs(root, inputs)
    assert run(root).success
    expected = describe(root)
    edit(root)
    compute, commit = PostsStage.compute, Tables.commit

    def compute_or_die(stage: PostsStage, partitions: list[str], *tables: pl.DataFrame) -> pl.DataFrame:
        if place == "before the posts are asked for":
            raise Killed
        return compute(stage, partitions, *tables)

    def commit_or_die(tables: Tables, made: Mapping[tuple[str, str], Made], **options: Any) -> None:
        if any(table == "posts" for table, _ in made):
            raise Killed
        commit(tables, made, **options)

    with monkeypatch.context() as patch:
        patch.setattr(PostsStage, "compute", compute_or_die)
        patch.setattr(Tables, "commit", commit_or_die)
        with pytest.raises(Killed):
            run(root)
    write_inputs(root, inputs)
    assert run(root).success
    assert describe(root) == expected
    assert run(root).fresh


class Disk:
    """A disk in memory whose size can be changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def resize(self, kilobytes: int) -> None:
        subprocess.run(["mount", "-o", f"remount,size={kilobytes}k", self.folder], check=True)

    @property
    def used(self) -> int:
        return shutil.disk_usage(self.folder).used // 1024


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={PLENTY}k,mode=700", "none", str(folder)]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no disk can be mounted here, which needs root: {error}")
    yield Disk(folder)
    close_idle()
    subprocess.run(["umount", folder], check=True)


@pytest.mark.parametrize("number", range(FILLS))
def test_a_full_disk_is_told_and_leaves_what_was_there_readable(
    number: int, disk: Disk, begin: Begin, expected: Expected
) -> None:
    root = disk.folder / "workspace"
    work, part = ("first", "later")[number % 2], number // 2 / (FILLS // 2)
    words = begin(work, root)
    # A shared workspace has only its snapshot and what was written on the disk.
    most = {"first": 1300, "later": 250}[work] * (0.2 if is_shared(root) else 1)
    disk.resize(disk.used + int(most * part))
    try:
        outcome = run(root)
    except StateError as error:
        told = str(error)
    else:
        told = " ".join(outcome.failures)
    assert "is full" in told or (told == "" and part)  # the space may be just enough
    assert find_leftovers(root) == []
    if work == "later":
        for table in TABLES:
            open_workspace(root).tables.read(table)  # each file has the hash that its name holds
        open_index(root / "index").close()
    disk.resize(PLENTY)
    require_end(work, root, words, expected)


LIMITS = {
    "size of files": (resource.RLIMIT_FSIZE, 20_000, 1, "is full"),
    "open files": (resource.RLIMIT_NOFILE, 24, 1, "ulimit -n"),
    "memory": (resource.RLIMIT_AS, 1_600_000 * 1024, 0, ""),
}
"""Limits of a process, with the code that a run under them exits with, and a part of what it says."""


@pytest.mark.parametrize(("limit", "value", "code", "told"), LIMITS.values(), ids=LIMITS.keys())
def test_a_run_under_a_limit_ends_well_or_with_one_sentence(
    limit: int, value: int, code: int, told: str, tmp_path: Path, share: Share
) -> None:
    root = tmp_path / "workspace"
    share(root)
    notes = {f"posts/note-{number}.md": f"# Note {number}\n\nAbout moths.\n" for number in range(20)}
    write_inputs(root, {**feedback_inputs(), **notes})
    ended = subprocess.run(
        [sys.executable, "-c", MAIN, "run", "--workspace", str(root)],
        cwd=ROOT,
        # Python 3.11 leaves half of a compiled file where the limit is reached, and cannot import it afterwards. The C
        # library reserves 64 MB of addresses for each further arena, and makes more of them on a busy machine.
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "MALLOC_ARENA_MAX": "2"},
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(limit, (value, value)),
    )
    assert (ended.returncode, "Traceback" in ended.stderr) == (code, False), ended.stderr
    assert told in ended.stdout + ended.stderr
    assert find_leftovers(root) == [] or limit == resource.RLIMIT_NOFILE  # nothing can be looked at
    assert run(root).success
    assert find_leftovers(root) == []
