"""The audit: damage of each kind is named, and nothing is written."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from backstory.operations.inspection.doctor import examine
from backstory.pipeline.workspace import open_workspace
from backstory.storage.tables.schemas import TABLES
from tests.forms import ONE_MACHINE, is_shared
from tests.interfaces.cli.invocation import exit_code, run
from tests.survival.conftest import flip


def failed(root: Path) -> dict[str, str]:
    return {found.name: found.detail for found in examine(root, deep=True) if not found.passed}


def snapshot_of_files(root: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(root)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(root.rglob("*"))
        if path.is_file()
        and not path.name.endswith(("-shm", "-wal"))  # SQLite's own, gone with the last reader
    }


def test_an_intact_workspace_passes_and_stays_as_it_is(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = snapshot_of_files(root)
    assert exit_code(monkeypatch, "doctor", "--files", "-w", str(root)) == 0
    assert snapshot_of_files(root) == before
    shown = run("doctor", "--files", "-w", str(root)).stdout
    assert "ok   table messages: 4 files as written" in shown
    assert "every file has its checksum" in shown


@ONE_MACHINE
def test_every_table_is_compared(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = open_workspace(root).tables.list_files()
    files = {table: next((root / "data" / name for name in listed[table].values()), None) for table in TABLES}
    for path in files.values():
        if path is not None:
            flip(path)
    told = failed(root)
    for table, path in files.items():
        assert path is None or str(path) in told[f"table {table}"]
    assert exit_code(monkeypatch, "doctor", "--files", "-w", str(root)) == 1


def lost_catalog(root: Path) -> str:
    for path in (root / "data").glob("catalog.sqlite*"):
        path.unlink()
    return "catalog"


def snapshot(root: Path) -> str:
    current = (root / "index" / "CURRENT").read_text(encoding="ascii").strip()
    flip(root / "index" / current / "vectors.npy")
    return "search index"


def views(root: Path) -> str:
    (root / "data" / "backstory.duckdb").unlink()
    return "views"


def secret(root: Path) -> str:
    (root / ".backstory" / "secret.key").write_text("ab" * 32, encoding="ascii")
    return "secret"


def settings(root: Path) -> str:
    (root / "backstory.yaml").write_text("rbg: {}\n", encoding="utf-8")
    return "settings"


def lost_index(root: Path) -> str:
    shutil.rmtree(root / "index")
    return "search index"


OF_THE_INDEX = (lost_index,)


@pytest.mark.parametrize("harm", [lost_catalog, snapshot, views, secret, settings, *OF_THE_INDEX])
def test_what_is_wrong_is_named_with_what_to_do(root: Path, harm: Callable[[Path], str]) -> None:
    name = harm(root)
    told = failed(root)
    if is_shared(root) and harm is lost_catalog:  # it is in the database
        assert told == {}
        return
    assert name in told
    remedies = ("`backstory run`", "delete that folder", "backup", "backstory.yaml", "another worker")
    assert any(remedy in told[name] for remedy in remedies)


@pytest.mark.parametrize("harm", OF_THE_INDEX)
def test_a_run_heals_what_is_wrong_with_the_index(root: Path, harm: Callable[[Path], str]) -> None:
    harm(root)
    run("run", "-w", str(root))
    assert failed(root) == {}


def test_changed_and_lost_posts_are_named_and_edited_ones_counted(root: Path) -> None:
    settings = (root / "backstory.yaml").read_text(encoding="utf-8")
    (root / "backstory.yaml").write_text(f"{settings}writers: {{provider: digest}}\n", encoding="utf-8")
    run("run", "-w", str(root))
    assert "written posts" not in failed(root)
    changed, lost, *_ = sorted((root / "written").glob("*.md"))
    changed.write_text(changed.read_text(encoding="utf-8") + "\nMine.\n", encoding="utf-8")
    lost.unlink()
    told = failed(root)["written posts"]
    assert f"{changed} was changed" in told
    assert f"{lost} is gone" in told
    run("run", "-w", str(root))
    [found] = [examination for examination in examine(root, deep=True) if examination.name == "written posts"]
    assert found.passed
    assert changed.name in found.detail
    assert lost.name not in found.detail
