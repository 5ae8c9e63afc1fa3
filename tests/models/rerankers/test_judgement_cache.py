from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from backstory.models.rerankers.judgement_cache import JudgementCache, hash_request
from backstory.models.rerankers.protocol import RATING, QueryChunk, Topic
from tests.models.rerankers.rerank_requests import RATED, request_of

pytestmark = pytest.mark.usefixtures("either_storage")


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
