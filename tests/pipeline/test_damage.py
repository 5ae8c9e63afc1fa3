"""Files that were damaged after a run: each is named by the doctor, and made again by the next run."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from backstory.base.errors import ContractError, SettingsError, WorkspaceError
from backstory.operations.inspection.doctor import examine
from backstory.pipeline.incremental import fingerprints
from backstory.pipeline.incremental.fingerprints import CODE_VERSIONS
from backstory.pipeline.run.pending import is_fresh
from backstory.pipeline.stages.messages import find_partitions
from backstory.pipeline.workspace import open_workspace
from backstory.storage.state import close_idle
from backstory.storage.tables.schemas import TABLES
from tests.errors import raises
from tests.forms import ONE_MACHINE, Share, is_shared
from tests.long_tests import each_of
from tests.workspaces import build_table, copy_made, find_file, replace_recorded
from tests.world import describe, first_inputs, run, write_inputs

Damage = Callable[[Path], object]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    place = len(content) // 2
    content[place] ^= 1
    path.write_bytes(content)


def exchange(path: Path) -> None:
    beside = sorted(other for other in path.parent.iterdir() if other.is_file() and other.name != path.name)
    others = [
        other for other in beside if other.stat().st_size
    ]  # a file without content is as if it were not there
    path.write_bytes(others[0].read_bytes() if others else b"of another workspace")


DAMAGES: dict[str, Damage] = {
    "cut": cut,
    "one bit flipped": flip,
    "deleted": Path.unlink,
    "exchanged": exchange,
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("damage") / "workspace"
    inputs = first_inputs()
    inputs["chats/garden.txt"] += "31/02/2025, 10:00 - Ada Lind: no such day\n"
    inputs["backstory.yaml"] += "writers: {provider: digest}\n"
    write_inputs(root, inputs)
    assert run(root).success
    close_idle()
    return root


@pytest.fixture(scope="module")
def expected(made: Path) -> dict[str, Any]:
    return describe(made)


@pytest.fixture
def root(made: Path, tmp_path: Path, share: Share) -> Iterator[Path]:
    """A copy, in which the views were written again for the place where it is, of either form."""
    copy = copy_made(made, tmp_path / "workspace").root
    share(copy)
    if is_shared(copy):
        assert run(copy).success
    yield copy
    shutil.rmtree(copy)


def attempt(root: Path) -> str:
    """Run, and give the sentence by which it failed: in a stage, or before the first one where workers share files."""
    try:
        return " ".join(run(root).failures)
    except WorkspaceError as error:
        return str(error)


def failed(root: Path) -> str:
    return "\n".join(found.detail for found in examine(root) if not found.passed)


def find_one(root: Path, kind: str) -> Path:
    """Give a file of a kind: of a table one of its partitions, of a snapshot one by name."""
    if kind in TABLES:
        return root / "data" / min(open_workspace(root).tables.list_files()[kind].values())
    [found] = [
        path for path in (root / "data" / kind, *root.glob(f"index/*/{kind}"), root / kind) if path.exists()
    ]
    return found


QUICK = ("one bit flipped", "deleted")
"""The smallest damage and the largest one; `make test-long` tries the others, too."""
SOME_DAMAGES = [
    pytest.param(damage, id=name, marks=() if name in QUICK else pytest.mark.long)
    for name, damage in DAMAGES.items()
]


@ONE_MACHINE
@pytest.mark.parametrize("damage", SOME_DAMAGES)
def test_damaged_tables_are_named_and_made_again(
    root: Path, expected: dict[str, Any], damage: Damage
) -> None:
    """One partition of every table at once; the documents' own history is the one thing that is lost."""
    files = [find_one(root, table) for table in TABLES]
    for path in files:
        damage(path)
    told = failed(root)
    assert [path for path in files if str(path) not in told] == []
    for table in TABLES:
        with raises(ContractError, "damaged_table"):
            open_workspace(root).tables.read(table)
    assert run(root).success
    assert describe(root) == expected
    assert run(root).fresh
    assert failed(root) == ""


@pytest.mark.parametrize("table", ["windows", "documents", "decisions"])
def test_a_damaged_table_is_one_failure_whatever_reads_it(root: Path, table: str) -> None:
    flip(find_one(root, table))
    assert [found.name for found in examine(root) if not found.passed] == [f"table {table}"]


def test_one_flipped_bit_is_seen_in_each_table_alone(root: Path, expected: dict[str, Any]) -> None:
    for table in each_of(list(TABLES), 2):
        flip(find_one(root, table))
        workspace = open_workspace(root)
        assert not is_fresh(workspace, find_partitions(workspace)), table
        assert run(root).success, table
        assert describe(root) == expected, table


SINGLE_FILES = (
    "backstory.duckdb",
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
    root: Path, expected: dict[str, Any], kind: str, damage: Damage
) -> None:
    path = find_one(root, kind)
    damage(path)
    # Without a pointer nothing is published yet.
    if not (damage is Path.unlink and kind == "index/CURRENT"):
        assert str(root / "index" if root / "index" in path.parents else path) in failed(root)
    if damage is flip and path.parent.parent == root / "index":
        shutil.rmtree(path.parent)  # as the message says, since a run compares the sizes of files alone
    assert run(root).success
    assert describe(root) == expected
    assert run(root).fresh


@ONE_MACHINE
@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(damage, id=name, marks=() if damage in (cut, flip) else pytest.mark.long)
        for name, damage in DAMAGES.items()
    ],
)
def test_a_damaged_cache_is_named_or_computed_again(
    root: Path, expected: dict[str, Any], damage: Damage
) -> None:
    damage(find_one(root, "cache.sqlite"))
    shutil.rmtree(root / "index")
    shutil.rmtree(root / "data" / "hits")
    if told := attempt(root):
        path = find_one(root, "cache.sqlite")
        assert str(path) in told
        assert str(path) in failed(root)
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
def test_views_follow_a_workspace_that_was_copied(
    root: Path, tmp_path: Path, expected: dict[str, Any]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    assert run(copy).fresh
    assert str(copy).encode() in (copy / "data" / "backstory.duckdb").read_bytes()
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
    root: Path, damage: Damage, expected: dict[str, Any]
) -> None:
    secret = root / ".backstory" / "secret.key"
    written = secret.read_bytes()
    damage(secret)
    left = secret.read_bytes() if secret.exists() else None
    assert str(secret) in failed(root)
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


def test_damaged_settings_are_named(root: Path) -> None:
    flipped = (root / "backstory.yaml").read_text(encoding="utf-8").replace("rag", "rbg")
    (root / "backstory.yaml").write_text(flipped, encoding="utf-8")
    with raises(SettingsError, "unknown_setting", "rbg"):
        run(root)


def test_tables_of_another_version_are_made_again(
    root: Path, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    older = {
        table: version if table == "search_index" else version + 1 for table, version in CODE_VERSIONS.items()
    }
    with monkeypatch.context() as patch:  # the tables of the copy state the versions of another release
        patch.setattr(fingerprints, "CODE_VERSIONS", older)
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
    assert set(result.differences.unknown) >= {"documents", "messages", "windows", "posts"}
    assert describe(root) == expected
