"""What the three caches have in common: damage, formats, deleting, and several processes."""

import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from backstory.base.errors import CacheFileError
from backstory.base.mounts import find_mount
from backstory.models.embeddings.cache import VECTORS, EmbeddingCache, embedding_key
from backstory.models.rerankers.judgement_cache import JUDGEMENTS, JudgementCache
from backstory.models.rerankers.protocol import RATING, Judgements, Topic
from backstory.storage.cache import CacheFile
from backstory.writing.draft import Draft
from backstory.writing.draft_cache import DRAFTS, DraftCache
from tests.errors import raises
from tests.started_python import StartedPython

SPACE = "hashing:words:4"
HELD = b"0123456789abcdef"
"""Bytes that are in the row of every cache as they are."""


def put_vectors(path: Path, names: list[str]) -> None:
    keys = [embedding_key(SPACE, "query", name) for name in names]
    EmbeddingCache(path).put(SPACE, keys, np.frombuffer(HELD * len(names), "<f4").reshape(len(names), 4))


def get_vectors(path: Path, names: list[str]) -> list[str]:
    known, vectors = EmbeddingCache(path).get([embedding_key(SPACE, "query", name) for name in names], 4)
    assert all(bytes(vector) == HELD for vector in vectors[known])
    return [name for name, is_known in zip(names, known, strict=True) if is_known]


def put_drafts(path: Path, names: list[str]) -> None:
    for name in names:
        DraftCache(path).put(name, name, Draft("title", HELD.decode()))


def get_drafts(path: Path, names: list[str]) -> list[str]:
    found = {name: DraftCache(path).get(name) for name in names}
    assert all(draft.text == HELD.decode() for draft in found.values() if draft is not None)
    return [name for name, draft in found.items() if draft is not None]


def put_judgements(path: Path, names: list[str]) -> None:
    judged = Judgements((Topic(HELD.decode(), ()),), np.array([[5.0]]), RATING, separate=True)
    JudgementCache(path).put(dict.fromkeys(names, ("asked", judged)))


def get_judgements(path: Path, names: list[str]) -> list[str]:
    found = JudgementCache(path).get(dict.fromkeys(names, "asked"))
    assert all(judged.topics[0].label == HELD.decode() for judged in found.values())
    return list(found)


CACHES = {
    "vectors": (VECTORS, put_vectors, get_vectors),
    "drafts": (DRAFTS, put_drafts, get_drafts),
    "judgements": (JUDGEMENTS, put_judgements, get_judgements),
}

Put = Callable[[list[str]], None]
Get = Callable[[list[str]], list[str]]


class Cache:
    """One of the caches, filled and asked by names."""

    def __init__(self, name: str, path: Path) -> None:
        kind, put, get = CACHES[name]
        self.name = name
        self.path = path
        self.file = CacheFile(path, kind)
        self.put: Put = lambda names: put(path, names)
        self.get: Get = lambda names: get(path, names)


@pytest.fixture(params=CACHES)
def cache(request: pytest.FixtureRequest, tmp_path: Path) -> Cache:
    return Cache(request.param, tmp_path / "data" / "cache.sqlite")


@pytest.fixture
def kept(cache: Cache, either_storage: str | None) -> Cache:
    """The cache in a file, and once more on a server."""
    return cache if either_storage is None else Cache(cache.name, cache.path)


def change_one(cache: Cache) -> None:
    """Change one bit of the first row that the file holds, or one character of that of the server."""
    if find_mount(cache.path) is None:
        content = cache.path.read_bytes()
        at = content.index(HELD)
        cache.path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        return
    table, column, key = cache.file.kind.table, cache.file.kind.hashed[-1], cache.file.kind.key
    with cache.file.database.writing() as session:
        name, value = session.execute(f"SELECT {key}, {column} FROM {table} LIMIT 1").fetchone()
        changed = value.replace(HELD[:1], b"?") if isinstance(value, bytes) else value.replace("0", "?")
        session.execute(f"UPDATE {table} SET {column} = ? WHERE {key} = ?", (changed, name))


def test_without_a_file_nothing_is_held_and_none_is_made(kept: Cache) -> None:
    assert (kept.get(["a"]), kept.file.count(), kept.file.find_damage()) == ([], 0, None)
    assert kept.file.keep_only([]) == 0
    assert not kept.path.exists()


def test_what_was_put_is_given_back(kept: Cache) -> None:
    kept.put(["a", "b"])
    assert kept.get(["b", "c", "a"]) == ["b", "a"]
    assert (kept.file.count(), kept.file.find_damage()) == (2, None)


def test_what_is_deleted_leaves_nothing_on_the_disk(cache: Cache) -> None:
    cache.put([str(number) for number in range(200)])
    before = cache.path.stat().st_size
    cache.path.with_name("cache.sqlite.damaged").write_bytes(HELD)
    assert cache.file.keep_only([]) == 200
    assert cache.path.stat().st_size < before
    assert not any(HELD in path.read_bytes() for path in cache.path.parent.iterdir())


def test_a_row_with_one_changed_bit_is_deleted_and_that_is_said(
    kept: Cache, caplog: pytest.LogCaptureFixture
) -> None:
    kept.put(["a", "b"])
    change_one(kept)
    assert f": 1 {kept.name} differ from their checksums" in (kept.file.find_damage() or "")
    [left] = kept.get(["a", "b"])
    assert f"{kept.name} that differ from their checksums and are {kept.file.kind.again}: 1" in caplog.text
    assert (kept.file.count(), kept.file.find_damage()) == (1, None)
    kept.put([({"a", "b"} - {left}).pop()])
    assert kept.get(["a", "b"]) == ["a", "b"]


def test_a_file_that_is_no_database_is_moved_aside(cache: Cache, caplog: pytest.LogCaptureFixture) -> None:
    cache.path.parent.mkdir()
    cache.path.write_bytes(b"<html>not found</html>" * 500)
    assert str(cache.path) in (cache.file.find_damage() or "")
    with raises(CacheFileError, "damaged_file", path=cache.path) as raised:
        cache.file.count()
    assert cache.file.kind.name in str(raised.value)
    assert cache.path.exists()
    assert cache.get(["a"]) == []
    assert f"its {cache.name} are {cache.file.kind.again}" in caplog.text
    assert "cache.sqlite.damaged" in caplog.text
    cache.put(["a"])
    assert cache.get(["a"]) == ["a"]


def test_a_cut_file_is_moved_aside(cache: Cache) -> None:
    names = [str(number) for number in range(200)]
    cache.put(names)
    content = cache.path.read_bytes()[: cache.path.stat().st_size // 2]
    cache.path.write_bytes(content)
    assert cache.file.find_damage() is not None
    assert cache.get(names) == []
    assert cache.path.with_name("cache.sqlite.damaged").read_bytes() == content


@pytest.mark.parametrize("table", ["notes", "own"])
def test_a_foreign_database_is_moved_aside_unchanged(cache: Cache, table: str) -> None:
    cache.path.parent.mkdir()
    with closing(sqlite3.connect(cache.path)) as connection, connection:
        connection.execute(f"CREATE TABLE {cache.name if table == 'own' else table} (text TEXT)")
        connection.execute("PRAGMA application_id = 7")
    before = cache.path.read_bytes()
    cache.put(["a"])
    assert cache.path.with_name("cache.sqlite.damaged").read_bytes() == before
    assert cache.get(["a"]) == ["a"]


def test_the_file_of_a_later_release_is_left_alone(cache: Cache) -> None:
    cache.put(["a"])
    with closing(sqlite3.connect(cache.path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    for act in (lambda: cache.get(["a"]), lambda: cache.put(["b"]), cache.file.find_damage, cache.file.count):
        with raises(CacheFileError, "later_format", path=cache.path):
            act()
    assert not cache.path.with_name("cache.sqlite.damaged").exists()


def test_a_folder_in_the_place_of_the_file_is_named(cache: Cache) -> None:
    cache.path.mkdir(parents=True)
    with raises(CacheFileError, "unusable_file", path=cache.path):
        cache.get(["a"])


def test_a_file_of_an_earlier_format_is_moved_aside_by_a_run_alone(
    cache: Cache, caplog: pytest.LogCaptureFixture
) -> None:
    cache.put(["a", "b"])
    make_earlier(cache.path)
    before = cache.path.read_bytes()
    assert "another format" in (cache.file.find_damage() or "")
    assert cache.path.read_bytes() == before
    assert cache.get(["a", "b"]) == []
    assert cache.path.with_name("cache.sqlite.damaged").read_bytes() == before
    assert str(cache.path) in caplog.text


def make_earlier(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 0")


_FILL = """
import sys
from pathlib import Path
from tests.storage.test_cache import Cache

name, mine, *paths = sys.argv[1:]
for path in paths:
    cache = Cache(name, Path(path))
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(20):
        cache.put([f"{mine} {number}"])
        cache.get([f"{mine} {number}", f"first {number}"])
"""


def test_processes_that_begin_at_once_lose_nothing(tmp_path: Path) -> None:
    """The same processes begin with one cache after another, since starting them takes longest."""
    absent, damaged, earlier = caches = [
        Cache("judgements", tmp_path / f"{start}.sqlite") for start in ("absent", "damaged", "earlier")
    ]
    assert not absent.path.exists()
    damaged.path.write_bytes(b"no database " * 500)
    earlier.put(["a"])
    make_earlier(earlier.path)
    writers = ("first", "second", "third")
    processes = [
        StartedPython(
            ["-c", _FILL, absent.name, writer, *(str(cache.path) for cache in caches)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for writer in writers
    ]
    for _ in caches:
        for process in processes:
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin
            process.stdin.write("go\n")
            process.stdin.flush()
    for process in processes:
        process.communicate()
        assert process.returncode == 0
    names = [f"{writer} {number}" for writer in writers for number in range(20)]
    assert [cache.get(names) for cache in caches] == [names] * len(caches)
