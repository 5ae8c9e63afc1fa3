import logging
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from backstory.rerankers import Judgements, QueryChunk
from backstory.rerankers.judgement_cache import JudgementCache, hash_request
from backstory.rerankers.protocol import RATING, Topic
from tests.rerankers.rerank_requests import request_of

RATED = Judgements(
    (Topic("the frost", ("q1", "q2")), Topic("soup", ())),
    np.array([[5.0, np.nan], [0.0, 3.0]]),
    RATING,
    separate=True,
)


@pytest.fixture
def cache(tmp_path: Path) -> JudgementCache:
    made = JudgementCache(tmp_path / "judgements.sqlite")
    made.put({"w": ("asked", RATED), "v": ("asked", RATED)})
    return made


def test_judgements_are_given_back_for_the_same_request_only(cache: JudgementCache) -> None:
    found = cache.get({"w": "asked", "v": "asked otherwise", "u": "asked"})
    assert list(found) == ["w"]
    assert found["w"].topics == RATED.topics
    assert np.array_equal(found["w"].values, RATED.values, equal_nan=True)
    assert (found["w"].scale, found["w"].separate, found["w"].note) == (RATING, True, None)


def test_the_last_judgements_of_a_window_replace_its_earlier_ones(cache: JudgementCache) -> None:
    cache.put({"w": ("asked again", RATED)})
    assert cache.get({"w": "asked"}) == {}
    assert list(cache.get({"w": "asked again"})) == ["w"]


def test_what_is_forgotten_leaves_the_disk(cache: JudgementCache) -> None:
    cache.put({"gone": ("asked", replace(RATED, topics=(Topic("the moths", ()), Topic("soup", ()))))})
    cache.keep_only({"w"})
    assert list(cache.get({"w": "asked", "v": "asked", "gone": "asked"})) == ["w"]
    assert all(b"the moths" not in path.read_bytes() for path in cache.path.parent.iterdir())


def test_a_damaged_file_is_replaced_and_that_is_said(
    cache: JudgementCache, caplog: pytest.LogCaptureFixture
) -> None:
    cache.path.write_bytes(b"no database " * 100)
    assert cache.get({"w": "asked"}) == {}
    assert "asked for again" in caplog.text
    cache.put({"w": ("asked", RATED)})
    assert list(cache.get({"w": "asked"})) == ["w"]


def test_a_damaged_row_is_not_used_and_that_is_said(
    cache: JudgementCache, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(sqlite3.connect(cache.path)) as connection, connection:
        connection.execute("UPDATE judgements SET judgements = replace(judgements, '5.0', '1.0')")
    with caplog.at_level(logging.WARNING):
        assert cache.get({"w": "asked"}) == {}
    assert "judgements that are damaged and asked for again: 1" in caplog.text


def test_everything_that_is_shown_changes_the_hash() -> None:
    request = request_of("a", "b")
    chunk = QueryChunk("q1", "other")
    others = [
        replace(request, parts=(chunk, *request.parts[1:])),
        replace(request, queries=(chunk, *request.queries[1:])),
        replace(request, candidates=request.candidates[::-1]),
        replace(request, candidates=(replace(request.candidates[0], text="x"), request.candidates[1])),
        replace(request, scores=request.scores / 2),
    ]
    hashes = {hash_request("model", other) for other in [request, *others]} | {hash_request("other", request)}
    assert len(hashes) == len(others) + 2
    assert hash_request("model", request_of("a", "b")) == hash_request("model", request)
