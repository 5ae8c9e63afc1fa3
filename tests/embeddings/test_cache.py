import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from backstory.embeddings.cache import EmbeddingCache, embedding_key
from backstory.errors import CacheFileError

ID = "hashing:words:4"
KEYS = [embedding_key(ID, "document", text) for text in ("one", "two", "three")]


def rows(count: int, seed: int = 0) -> NDArray[np.float32]:
    values = np.random.default_rng(seed).normal(size=(count, 4))
    unit: NDArray[np.float32] = (values / np.linalg.norm(values, axis=1, keepdims=True)).astype(np.float32)
    return unit


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "embeddings.sqlite"


def test_gives_back_exactly_what_was_stored(path: Path) -> None:
    EmbeddingCache(path).put(ID, KEYS, rows(3))

    known, vectors = EmbeddingCache(path).get(KEYS[::-1], 4)

    assert known.tolist() == [True, True, True]
    assert vectors.tobytes() == rows(3)[::-1].tobytes()


def test_says_which_keys_are_unknown(path: Path) -> None:
    cache = EmbeddingCache(path)
    assert cache.get(KEYS, 4)[0].tolist() == [False, False, False]
    assert not path.exists()

    cache.put(ID, KEYS[1:2], rows(1))

    known, vectors = cache.get(KEYS, 4)
    assert known.tolist() == [False, True, False]
    assert vectors[1].tobytes() == rows(1)[0].tobytes()


def test_the_first_vector_of_a_key_stays(path: Path) -> None:
    cache = EmbeddingCache(path)
    cache.put(ID, KEYS, rows(3, seed=1))
    cache.put(ID, KEYS, rows(3, seed=2))

    assert cache.get(KEYS, 4)[1].tobytes() == rows(3, seed=1).tobytes()
    assert cache.count() == {ID: 3}


def test_vectors_are_little_endian_float32_on_disk(path: Path) -> None:
    EmbeddingCache(path).put(ID, KEYS[:1], rows(1))

    with closing(sqlite3.connect(path)) as connection:
        ((blob,),) = connection.execute("SELECT vector FROM vectors").fetchall()
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert blob == rows(1).astype("<f4").tobytes()


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a:b", "a", "b"]), st.sampled_from(["query", "document"]), st.text(max_size=5)
        ),
        unique=True,
    )
)
def test_keys_are_different_for_every_embedder_task_and_text(parts: list[tuple[str, str, str]]) -> None:
    keys = [embedding_key(*part) for part in parts]  # type: ignore[arg-type]

    assert len(set(keys)) == len(parts)
    assert all(len(key) == 16 for key in keys)


def test_many_keys_are_looked_up_at_once(path: Path) -> None:
    cache = EmbeddingCache(path)
    keys = [embedding_key(ID, "query", str(number)) for number in range(20_000)]
    stored = rows(10_000)
    cache.put(ID, keys[::2], stored)

    known, vectors = cache.get(keys, 4)

    assert known.tolist() == [True, False] * 10_000
    assert vectors[::2].tobytes() == stored.tobytes()


def test_pruning_deletes_the_vectors_of_other_embedders(path: Path) -> None:
    cache = EmbeddingCache(path)
    assert cache.prune([ID]) == 0
    cache.put(
        "local:old:4",
        [embedding_key("local:old:4", "query", str(number)) for number in range(500)],
        rows(500),
    )
    cache.put(ID, KEYS, rows(3))
    before = path.stat().st_size

    assert cache.prune([ID]) == 500

    assert cache.count() == {ID: 3}
    assert cache.get(KEYS, 4)[0].all()
    assert path.stat().st_size < before
    assert cache.prune([ID]) == 0


def test_a_foreign_database_is_moved_aside_unchanged(path: Path) -> None:
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("CREATE TABLE notes (text TEXT); INSERT INTO notes VALUES ('mine')")
    before = path.read_bytes()
    EmbeddingCache(path).put(ID, KEYS, rows(3))
    assert path.with_name(f"{path.name}.damaged").read_bytes() == before
    assert EmbeddingCache(path).count() == {ID: 3}


def test_a_later_format_is_left_alone(path: Path) -> None:
    cache = EmbeddingCache(path)
    cache.put(ID, KEYS, rows(3))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 3")

    with pytest.raises(CacheFileError, match="has format 3, and this release reads 2"):
        cache.get(KEYS, 4)


def test_vectors_of_the_format_without_checksums_are_kept(path: Path) -> None:
    EmbeddingCache(path).put(ID, KEYS, rows(3))
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("ALTER TABLE vectors DROP COLUMN checksum; PRAGMA user_version = 1")

    assert EmbeddingCache(path).get(KEYS, 4)[1].tobytes() == rows(3).tobytes()
    assert EmbeddingCache(path).find_damage() is None


def test_a_file_that_is_no_database_is_moved_aside(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.parent.mkdir()
    path.write_bytes(b"<html>not found</html>" * 500)
    cache = EmbeddingCache(path)

    assert "is damaged: file is not a database" in str(cache.find_damage())
    assert cache.get(KEYS, 4)[0].tolist() == [False, False, False]
    assert "embeddings.sqlite.damaged, and its vectors are computed again" in caplog.text
    cache.put(ID, KEYS, rows(3))
    assert cache.get(KEYS, 4)[1].tobytes() == rows(3).tobytes()


def test_a_cut_file_is_moved_aside(path: Path) -> None:
    cache = EmbeddingCache(path)
    keys = [embedding_key(ID, "query", str(number)) for number in range(2000)]
    cache.put(ID, keys, rows(2000))
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])

    assert cache.find_damage() is not None
    assert not cache.get(keys, 4)[0].any()
    assert path.with_name(f"{path.name}.damaged").read_bytes() == content[: len(content) // 2]


def test_a_vector_with_one_changed_bit_is_computed_again(path: Path) -> None:
    cache = EmbeddingCache(path)
    cache.put(ID, KEYS, rows(3))
    vector = rows(3)[1].tobytes()
    content = path.read_bytes()
    assert content.count(vector) == 1
    at = content.index(vector)
    path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])

    assert "1 vectors differ from their checksums" in str(cache.find_damage())
    assert cache.get(KEYS, 4)[0].tolist() == [True, False, True]
    cache.put(ID, KEYS, rows(3))
    assert cache.get(KEYS, 4)[1].tobytes() == rows(3).tobytes()
    assert cache.find_damage() is None


def test_a_vector_of_another_width_is_not_served(path: Path) -> None:
    cache = EmbeddingCache(path)
    cache.put(ID, KEYS, rows(3))

    assert not cache.get(KEYS, 8)[0].any()


def test_a_folder_in_the_place_of_the_file_is_named(path: Path) -> None:
    path.mkdir(parents=True)

    with pytest.raises(CacheFileError, match=r"embeddings\.sqlite cannot be used"):
        EmbeddingCache(path).get(KEYS, 4)


_STORE = """
import sys
from pathlib import Path
import numpy as np
from backstory.embeddings.cache import EmbeddingCache, embedding_key

cache, name = EmbeddingCache(Path(sys.argv[1])), sys.argv[2]
print("ready", flush=True)
sys.stdin.readline()
row = np.array([[1, 0, 0, 0]], np.float32)
for number in range(50):
    cache.put("hashing:words:4", [embedding_key("hashing:words:4", "query", f"{name} {number}")], row)
    cache.put("hashing:words:4", [embedding_key("hashing:words:4", "query", f"both {number}")], row)
"""


def test_processes_that_create_the_file_at_once_lose_nothing(path: Path) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _STORE, str(path), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("first", "second", "third")
    ]
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

    assert EmbeddingCache(path).count() == {ID: 200}
