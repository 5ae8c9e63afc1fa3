"""Vectors, drafts and judgements in the cache, over SQLite and Postgres."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from backstory.base.errors import StateError
from backstory.models.embeddings.embed import EmbeddingCache, embedding_key
from backstory.models.reranker import RATING, JudgementCache, Topic
from backstory.storage.schema import CACHE
from backstory.storage.state import State
from backstory.storage.state_places import open_state
from backstory.writing.draft import Draft
from backstory.writing.draft_cache import DraftCache
from tests.caches import open_cache
from tests.models.rerankers.rerank_requests import RATED
from tests.privileges import NOBODY, run_forked

ID = "hashing:words:4"
KEYS = [embedding_key(ID, "document", text) for text in ("one", "two", "three")]
FIRST, SECOND = Draft("A", "a text", ("x",), "tiny", 1, 2), Draft("", "", withheld="refused: no")


def rows(count: int, seed: int = 0) -> NDArray[np.float32]:
    values = np.random.default_rng(seed).normal(size=(count, 4))
    unit: NDArray[np.float32] = (values / np.linalg.norm(values, axis=1, keepdims=True)).astype(np.float32)
    return unit


@pytest.fixture
def state(tmp_path: Path, storage_address: str | None) -> State:
    return open_state(tmp_path, storage_address, CACHE)


def test_vectors_are_given_back_exactly(state: State) -> None:
    cache = EmbeddingCache(state)
    assert not cache.get(KEYS, 4)[0].any()
    assert not state.exists()
    cache.put(ID, KEYS[1:], rows(2, seed=1))
    cache.put(ID, KEYS, rows(3, seed=2))  # the first vector of a key stays
    known, vectors = cache.get(KEYS[::-1], 4)
    assert known.all()
    assert vectors[:2].tobytes() == rows(2, seed=1)[::-1].tobytes()
    assert cache.get([b"other", *KEYS], 4)[0].tolist() == [False, True, True, True]
    assert not cache.get(KEYS, 8)[0].any()  # of another width


def test_many_keys_are_looked_up_at_once(state: State) -> None:
    cache = EmbeddingCache(state)
    keys = [embedding_key(ID, "query", str(number)) for number in range(2_000)]
    stored = rows(1_000)
    cache.put(ID, keys[::2], stored)
    known, vectors = cache.get(keys, 4)
    assert known.tolist() == [True, False] * 1_000
    assert vectors[::2].tobytes() == stored.tobytes()


def test_vectors_are_counted_by_embedder_and_pruned_by_key(state: State) -> None:
    cache = EmbeddingCache(state)
    cache.put("local:old:4", [bytes([number]) for number in range(5)], rows(5))
    cache.put(ID, KEYS, rows(3))
    assert cache.count_by_owner() == {ID: 3, "local:old:4": 5}
    assert cache.keep_only(KEYS, "key") == 5
    assert cache.count_by_owner() == {ID: 3}
    assert cache.measure() > 3 * 4 * 4


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


def test_the_last_draft_of_a_request_is_given(state: State) -> None:
    cache = DraftCache(state)
    assert (cache.get("r"), cache.count(), cache.keep_only([], "owner")) == (None, 0, 0)
    cache.put("r", "c", FIRST)
    cache.put("s", "d", SECOND)
    cache.put("r", "c", SECOND)
    assert (cache.get("r"), cache.get("s"), cache.count()) == (SECOND, SECOND, 2)
    assert cache.keep_only({b"d"}, "owner") == 1
    assert (cache.get("r"), cache.get("s")) == (None, SECOND)


def test_judgements_are_given_back_for_the_same_request_only(state: State) -> None:
    cache = JudgementCache(state)
    cache.put({"w": ("asked", RATED), "v": ("asked", RATED)})
    found = cache.get({"w": "asked", "v": "asked otherwise", "u": "asked"})
    assert list(found) == ["w"]
    assert found["w"].topics == RATED.topics
    assert np.array_equal(found["w"].values, RATED.values, equal_nan=True)
    assert (found["w"].scale, found["w"].note) == (RATING, None)
    cache.put({"w": ("asked again", RATED)})
    assert cache.get({"w": "asked"}) == {}
    assert list(cache.get({"w": "asked again"})) == ["w"]


def test_what_is_pruned_leaves_the_disk(tmp_path: Path) -> None:
    state = open_cache(tmp_path)
    drafts, judgements = DraftCache(state), JudgementCache(state)
    drafts.put("r", "c", FIRST)
    judgements.put({"gone": ("asked", replace(RATED, topics=(Topic("the moths", ()), Topic("soup", ()))))})
    drafts.keep_only([], "owner")
    judgements.keep_only([], "owner")
    state.compact()
    left = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"a text" not in left
    assert b"the moths" not in left


def test_a_damaged_value_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    state = open_cache(tmp_path)
    cache = EmbeddingCache(state)
    cache.put(ID, KEYS, rows(3))
    state.compact()
    state.close()
    path, value = tmp_path / "cache.sqlite", rows(3)[1].tobytes()
    assert value in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(value, value[:-1] + bytes([value[-1] ^ 1])))
    with pytest.raises(StateError, match=str(path)) as found:
        cache.get(KEYS, 4)
    assert found.value.code == "damaged_file"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
@pytest.mark.parametrize("is_made", [True, False])
def test_whoever_may_only_read_stores_nothing(tmp_path: Path, is_made: bool) -> None:
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(0o755)
    if is_made:
        EmbeddingCache(open_cache(tmp_path)).put(ID, KEYS[:1], rows(1))

    def put_and_get() -> None:
        cache = EmbeddingCache(open_cache(tmp_path))
        cache.put(ID, KEYS, rows(3))
        assert cache.get(KEYS, 4)[0].tolist() == [is_made, False, False]

    run_forked(put_and_get, NOBODY)
