"""Backup, loss, restore, run: nothing has changed. A backup that is not whole replaces nothing."""

import io
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from backstory.base.errors import InputError
from backstory.operations.backup import CONTENTS_FILE, HEADER, restore_backup, write_backup
from backstory.operations.inspection.doctor import examine
from backstory.pipeline.workspace import open_workspace
from backstory.writing.draft import Draft
from tests.errors import raises
from tests.forms import BOTH_FORMS, ONE_MACHINE
from tests.interfaces.cli.invocation import exit_code
from tests.interfaces.cli.invocation import run as invoke
from tests.models.rerankers.rerank_requests import RATED
from tests.workspaces import find_file
from tests.world import describe, flip, run


@pytest.fixture(scope="module")
def written(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(write_backup(open_workspace(made), tmp_path_factory.mktemp("backups")).place)


@BOTH_FORMS
def test_a_restored_workspace_finds_nothing_to_do(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "posts" / "unrelated.md").unlink()  # its tombstone is what only the backup keeps
    assert run(root).success
    before = describe(root)
    made = open_workspace(root)
    made.drafts.put("request", "context", Draft("A title", "A text"))
    made.judgements.put({"window": ("request", RATED)})
    tables = made.tables.list_files()
    file = tmp_path / "b.tar.gz"
    assert exit_code(monkeypatch, "backup", str(file), "-w", str(root)) == 0
    assert file.stat().st_mode & 0o777 == 0o600
    shutil.rmtree(root)
    assert exit_code(monkeypatch, "restore", str(file), "--into", str(root)) == 0
    assert root.stat().st_mode & 0o777 == 0o700
    assert (root / ".backstory" / "secret.key").stat().st_mode & 0o777 == 0o600
    assert [found for found in examine(root, deep=True) if not found.passed] == []
    assert open_workspace(root).drafts.get("request") == Draft("A title", "A text")
    assert list(open_workspace(root).judgements.get({"window": "request"})) == ["window"]
    assert "Nothing has changed since the last run" in invoke("run", "-w", str(root)).stdout
    assert describe(root) == before
    assert open_workspace(root).tables.list_files() == tables


@ONE_MACHINE
def test_what_a_run_is_replacing_is_made_again_after_a_restore(root: Path, tmp_path: Path) -> None:
    before = describe(root)
    flip(find_file(root, "hits", "2025-03-13"))
    flip(root / "index" / (root / "index" / "CURRENT").read_text().strip() / "vectors.npy")
    done = write_backup(open_workspace(root), tmp_path / "b.tar.gz")
    assert any("1 partitions of hits" in reason for reason in done.left_out)
    assert any(reason.startswith("the search index") for reason in done.left_out)
    restored = restore_backup(Path(done.place), tmp_path / "again")
    outcome = run(restored.root)
    computed = {report.table for report in outcome.made.values() if report.computed}
    assert computed == {"search_index", "hits"}
    assert describe(restored.root) == before


def test_inputs_can_be_left_out(root: Path, tmp_path: Path) -> None:
    done = write_backup(open_workspace(root), tmp_path / "b.tar.gz", inputs=False)
    restored = restore_backup(Path(done.place), tmp_path / "again")
    assert not (restored.root / "chats").exists()
    assert any("chats and posts" in reason for reason in restored.left_out)
    for folder in ("chats", "posts", "written"):
        shutil.copytree(root / folder, restored.root / folder)
    assert run(restored.root).fresh


def test_links_are_not_followed_out_of_the_inputs(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.md"
    outside.write_text("not of this workspace", encoding="utf-8")
    (root / "posts" / "away.md").symlink_to(outside)
    (root / "posts" / "near.md").symlink_to(root / "posts" / "sourdough.md")
    done = write_backup(open_workspace(root), tmp_path / "b.tar.gz")
    assert "posts/away.md is a link" in " ".join(done.left_out)
    restored = restore_backup(Path(done.place), tmp_path / "again").root
    assert not (restored / "posts" / "away.md").is_symlink()
    assert (restored / "posts" / "near.md").readlink() == Path("sourdough.md")


def test_a_folder_with_content_is_kept_unless_told(written: Path, tmp_path: Path) -> None:
    target = tmp_path / "workspace"
    target.mkdir()
    (target / "mine.txt").write_text("keep", encoding="utf-8")
    with raises(InputError, "not_empty", target):
        restore_backup(written, target)
    damaged = tmp_path / "cut.tar.gz"
    shutil.copy(written, damaged)
    cut(damaged)
    with raises(InputError, "not_empty", target):  # before anything is unpacked
        restore_backup(damaged, target)
    done = restore_backup(written, target, replace=True)
    assert done.aside is not None
    assert (done.aside / "mine.txt").read_text(encoding="utf-8") == "keep"
    assert not (target / "mine.txt").exists()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2000])


def garble(path: Path) -> None:
    path.write_bytes(b"not a backup")


def rewrite(
    path: Path, change: Callable[[tarfile.TarInfo, bytes], tuple[tarfile.TarInfo, bytes] | None]
) -> None:
    with tarfile.open(path) as tar:
        members = [(member, stream.read() if (stream := tar.extractfile(member)) else b"") for member in tar]
        headers = tar.pax_headers
    with tarfile.open(path, "w:gz", pax_headers=headers) as tar:
        for member, content in members:
            changed = change(member, content)
            if changed is not None:
                changed[0].size = len(changed[1])
                tar.addfile(changed[0], io.BytesIO(changed[1]))


def other_rows(path: Path) -> None:
    rewrite(
        path,
        lambda member, content: (member, content + b"x" if member.name.endswith("garden.txt") else content),
    )


def without_a_file(path: Path) -> None:
    rewrite(path, lambda member, content: None if member.name.endswith("garden.txt") else (member, content))


def without_contents(path: Path) -> None:
    rewrite(path, lambda member, content: None if member.name == CONTENTS_FILE else (member, content))


def of_a_later_format(path: Path) -> None:
    with tarfile.open(path, "w:gz", pax_headers={HEADER: '{"format": 9, "version": "9", "workspace": "w"}'}):
        pass


def climbing(path: Path) -> None:
    def change(member: tarfile.TarInfo, content: bytes) -> tuple[tarfile.TarInfo, bytes]:
        if member.name == "backstory.yaml":
            member.name = "../outside.yaml"
        return member, content

    rewrite(path, change)


@pytest.mark.parametrize(
    "harm",
    [
        cut,
        flip,
        garble,
        Path.unlink,
        other_rows,
        without_a_file,
        without_contents,
        of_a_later_format,
        climbing,
    ],
)
def test_a_damaged_backup_restores_nothing(
    written: Path, tmp_path: Path, harm: Callable[[Path], object]
) -> None:
    file = tmp_path / "b.tar.gz"
    shutil.copy(written, file)
    harm(file)
    target = tmp_path / "deep" / "workspace"
    target.mkdir(parents=True)
    (target / "mine.txt").touch()
    with pytest.raises(InputError) as raised:
        restore_backup(file, target, replace=True)
    assert str(file) in str(raised.value)
    assert [path.name for path in target.iterdir()] == ["mine.txt"]
    assert [path.name for path in target.parent.iterdir()] == ["workspace"]
    assert not (tmp_path / "outside.yaml").exists()


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("b.tar", "unfit_place"),
        ("absent/b.tar.gz", "unfit_place"),
        ("workspace/b.tar.gz", "inside_workspace"),
    ],
)
def test_a_place_that_does_not_do_is_refused(root: Path, tmp_path: Path, name: str, code: str) -> None:
    with raises(InputError, code):
        write_backup(open_workspace(root), tmp_path / name)


def test_a_backup_never_replaces_a_file(root: Path, tmp_path: Path) -> None:
    (tmp_path / "b.tar.gz").touch()
    with raises(InputError, "already_there", tmp_path / "b.tar.gz"):
        write_backup(open_workspace(root), tmp_path / "b.tar.gz")
