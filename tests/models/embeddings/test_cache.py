import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from backstory.models.embeddings.cache import EmbeddingCache, embedding_key
from tests.postgres import ON_FILES

pytestmark = pytest.mark.usefixtures("either_storage")
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
    assert cache.count_by_embedder() == {ID: 3}


@ON_FILES
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


def test_a_vector_of_another_width_is_not_served(path: Path) -> None:
    cache = EmbeddingCache(path)
    cache.put(ID, KEYS, rows(3))

    assert not cache.get(KEYS, 8)[0].any()


def test_vectors_are_counted_by_embedder(path: Path) -> None:
    cache = EmbeddingCache(path)
    cache.put(
        "local:old:4", [embedding_key("local:old:4", "query", str(number)) for number in range(5)], rows(5)
    )
    cache.put(ID, KEYS, rows(3))
    assert cache.count_by_embedder() == {ID: 3, "local:old:4": 5}
    assert cache.keep_only(KEYS) == 5
    assert cache.count_by_embedder() == {ID: 3}
    assert cache.get(KEYS, 4)[0].all()
