"""Files that are damaged after a run: each is named with what to do, and made again by the next run."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from backstory.base.errors import BackstoryError, ContractError, WorkspaceError
from backstory.operations.inspection.doctor import examine
from backstory.pipeline.incremental import inputs
from backstory.pipeline.incremental.inputs import CODE_VERSIONS
from backstory.pipeline.run.plan import is_fresh
from backstory.pipeline.stages.messages import find_partitions
from backstory.pipeline.workspace import open_workspace
from backstory.storage.tables.schemas import TABLES
from backstory.storage.tables.views import VIEWS_FILE
from tests.errors import raises
from tests.forms import ONE_MACHINE, is_shared
from tests.interfaces.cli.invocation import exit_code
from tests.interfaces.cli.invocation import run as invoke
from tests.long_tests import each_of
from tests.workspaces import build_table, find_file, replace_recorded
from tests.world import cut, describe, find_differences, flip, run

Damage = Callable[[Path], object]
Expected = dict[str, Any]
NAMES = {VIEWS_FILE: "views", "backstory.yaml": "settings", "catalog.sqlite": "catalog"}
"""What the doctor calls files that are not of the index."""
REMEDIES = ("`backstory run`", "delete that folder", "backup", "backstory.yaml", "another worker")


def exchange(path: Path) -> None:
    """Put another file in the place of a file."""
    beside = [other for other in sorted(path.parent.iterdir()) if other.is_file() and other != path]
    # A file without content is as if it were not there.
    others = [other for other in beside if other.stat().st_size]
    path.write_bytes(others[0].read_bytes() if others else b"of another workspace")


DAMAGES: dict[str, Damage] = {
    "cut": cut,
    "one bit flipped": flip,
    "deleted": Path.unlink,
    "exchanged": exchange,
}
QUICK = ("one bit flipped", "deleted")
"""The smallest damage and the largest one; `make test-long` tries the others, too."""
SOME_DAMAGES = [
    pytest.param(damage, id=name, marks=() if name in QUICK else pytest.mark.long)
    for name, damage in DAMAGES.items()
]


def attempt(root: Path) -> str:
    """Run, and give the sentence by which it failed: in a stage, or before the first one where workers share files."""
    try:
        return " ".join(run(root).failures)
    except BackstoryError as error:
        return str(error)


def failed(root: Path, *, deep: bool = True) -> dict[str, str]:
    """Give what the doctor found wrong, by name."""
    return {found.name: found.detail for found in examine(root, deep=deep) if not found.passed}


def find_one(root: Path, kind: str) -> Path:
    """Give a file of a kind: of a table one of its partitions, of a snapshot one by name."""
    if kind in TABLES:
        return root / "data" / min(open_workspace(root).tables.list_files()[kind].values())
    places = (root / "data" / kind, *root.glob(f"index/*/{kind}"), root / kind)
    [found] = [path for path in places if path.exists()]
    return found


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
    shown = invoke("doctor", "--files", "-w", str(root)).stdout
    assert "ok   table messages: 4 files as written" in shown
    assert "every file has its checksum" in shown


@ONE_MACHINE
@pytest.mark.parametrize("damage", SOME_DAMAGES)
def test_damaged_tables_are_named_and_made_again(root: Path, expected: Expected, damage: Damage) -> None:
    """One partition of every table at once; the documents' own history is the one thing that is lost."""
    files = {table: find_one(root, table) for table in TABLES}
    for path in files.values():
        damage(path)
    for deep in (True, False):
        told = failed(root, deep=deep)
        assert [path for table, path in files.items() if str(path) not in told[f"table {table}"]] == []
    for table in TABLES:
        with raises(ContractError, "damaged_table"):
            open_workspace(root).tables.read(table)
    assert run(root).success
    assert describe(root) == expected
    assert run(root).fresh
    assert failed(root) == {}


@ONE_MACHINE
def test_one_flipped_bit_is_seen_in_each_table_alone(root: Path, expected: Expected) -> None:
    for table in each_of(list(TABLES), 2):
        flip(find_one(root, table))
        assert [*failed(root, deep=False)] == [f"table {table}"]
        workspace = open_workspace(root)
        assert not is_fresh(workspace, find_partitions(workspace)), table
        assert run(root).success, table
        assert describe(root) == expected, table


SINGLE_FILES = (
    VIEWS_FILE,
    "manifest.json",
    "vectors.npy",
    "chunks.arrow",
    "index/CURRENT",
)
SOME_DAMAGED_FILES = [
    pytest.param(
        kind,
        damage,
        id=f"{kind}-{name}",
        marks=() if name == QUICK[number % len(QUICK)] else pytest.mark.long,
    )
    for number, kind in enumerate(SINGLE_FILES)
    for name, damage in DAMAGES.items()
]
"""Each file with one damage; `make test-long` tries every file with every damage."""


@pytest.mark.parametrize(("kind", "damage"), SOME_DAMAGED_FILES)
def test_other_damaged_files_are_named_and_made_again(
    root: Path, expected: Expected, kind: str, damage: Damage
) -> None:
    if is_shared(root) and kind == VIEWS_FILE:
        pytest.skip("views are written beside the tables of one machine")
    path = find_one(root, kind)
    damage(path)
    name = NAMES.get(kind, "search index")
    told = failed(root)[name]
    assert any(remedy in told for remedy in REMEDIES)
    if name == "search index" and damage is not flip:
        answer = invoke("search", "a sourdough starter", "-w", str(root), "--json")
        # A machine fetches the snapshot that others share.
        assert (answer.exit_code == 0) == (is_shared(root) and kind == "index/CURRENT")
        assert isinstance(answer.exception, BackstoryError) == (answer.exit_code != 0)
    if damage is flip and path.parent.parent == root / "index":
        shutil.rmtree(path.parent)  # as the message says, since a run compares the sizes of files alone
    assert run(root).success
    assert find_differences(describe(root), expected) == {}
    assert run(root).fresh
    assert failed(root) == {}


@ONE_MACHINE
@pytest.mark.parametrize("kind", ["catalog.sqlite", "backstory.yaml"])
def test_what_no_run_makes_again_by_itself_is_named_with_what_to_do(root: Path, kind: str) -> None:
    if kind == "backstory.yaml":
        (root / kind).write_text("rbg: {}\n", encoding="utf-8")
    else:
        for path in (root / "data").glob(f"{kind}*"):
            path.unlink()
    assert any(remedy in failed(root)[NAMES[kind]] for remedy in REMEDIES)


@ONE_MACHINE
@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(damage, id=name, marks=() if damage in (cut, flip) else pytest.mark.long)
        for name, damage in DAMAGES.items()
    ],
)
def test_a_damaged_cache_is_named_or_computed_again(root: Path, expected: Expected, damage: Damage) -> None:
    damage(find_one(root, "cache.sqlite"))
    shutil.rmtree(root / "index")
    shutil.rmtree(root / "data" / "hits")
    if told := attempt(root):
        path = find_one(root, "cache.sqlite")
        assert str(path) in told
        assert str(path) in str(failed(root))
        path.unlink()
        assert run(root).success
    assert describe(root) == expected


@ONE_MACHINE
def test_a_stage_does_not_take_an_absent_input_for_an_empty_one(root: Path) -> None:
    """As when one asset alone is materialized in the UI."""
    before = {path: path.read_bytes() for path in (root / "data" / "hits").glob("*.parquet")}
    find_file(root, "window_chunks", "2025-03-15").unlink()
    settings = root / "backstory.yaml"
    changed = settings.read_text(encoding="utf-8").replace("top_k: 3", "top_k: 3, chunks_per_query: 2")
    settings.write_text(changed, encoding="utf-8")
    workspace = open_workspace(root)
    days = find_partitions(workspace)
    with raises(ContractError, "damaged_table"):
        build_table(workspace, "hits", days)
    workspace.catalog.forget("window_chunks", ["2025-03-15"])
    with raises(WorkspaceError, "unmade_partition"):
        build_table(workspace, "hits", days)
    assert {path: path.read_bytes() for path in before} == before


@ONE_MACHINE
def test_views_follow_a_workspace_that_was_copied(root: Path, tmp_path: Path, expected: Expected) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    assert run(copy).fresh
    assert str(copy).encode() in (copy / "data" / VIEWS_FILE).read_bytes()
    assert describe(copy) == expected


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(cut, marks=pytest.mark.long),
        pytest.param(flip, marks=pytest.mark.long),
        Path.unlink,
        lambda path: path.write_text(f"{'ab' * 32}\n"),
    ],
)
def test_a_secret_that_is_not_the_one_that_was_used_is_named_and_never_replaced(
    root: Path, damage: Damage, expected: Expected
) -> None:
    secret = root / ".backstory" / "secret.key"
    written = secret.read_bytes()
    damage(secret)
    left = secret.read_bytes() if secret.exists() else None
    assert str(secret) in str(failed(root))
    assert str(secret) in attempt(root)
    assert (secret.read_bytes() if secret.exists() else None) == left
    secret.write_bytes(written)
    secret.chmod(0o600)
    assert run(root).success
    assert describe(root) == expected


@ONE_MACHINE
def test_everyone_gets_another_pseudonym_if_the_tables_go_with_the_secret(root: Path) -> None:
    before = set(open_workspace(root).tables.read("messages")["author"].drop_nulls())
    (root / ".backstory" / "secret.key").unlink()
    with raises(WorkspaceError, "lost_secret", root / ".backstory" / "secret.key"):
        build_table(open_workspace(root), "messages", ["2025-03-13"])
    for path in (root / "data").iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != "cache.sqlite":
            path.unlink()
    assert run(root).success
    after = set(open_workspace(root).tables.read("messages")["author"].drop_nulls())
    assert len(after) == len(before)
    assert not after & before


def test_tables_of_another_version_are_made_again(
    root: Path, expected: Expected, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = {
        table: version if table == "search_index" else version + 1 for table, version in CODE_VERSIONS.items()
    }
    with monkeypatch.context() as patch:  # the tables of the copy state the versions of another release
        patch.setattr(inputs, "CODE_VERSIONS", older)
        assert run(root).success
    workspace = open_workspace(root)
    for table in TABLES:
        for key in workspace.tables.keys(table):
            frame = workspace.tables.read(table, [key])
            if not frame.is_empty():
                replace_recorded(workspace, table, key, frame.drop(frame.columns[-1]))
    with raises(ContractError, "other_columns"):
        workspace.tables.read("windows")
    result = run(root)
    assert result.success
    assert set(result.differences.unknown) >= {"documents", "messages", "windows"}
    assert describe(root) == expected


def test_changed_and_lost_posts_are_named_and_edited_ones_counted(root: Path) -> None:
    changed, lost, *_ = sorted((root / "written").glob("*.md"))
    changed.write_text(changed.read_text(encoding="utf-8") + "\nMine.\n", encoding="utf-8")
    lost.unlink()
    told = failed(root)["written posts"]
    assert f"{changed} was changed" in told
    assert f"{lost} is gone" in told
    assert run(root).success
    [found] = [examination for examination in examine(root, deep=True) if examination.name == "written posts"]
    assert found.passed
    assert changed.name in found.detail
    assert lost.name not in found.detail
