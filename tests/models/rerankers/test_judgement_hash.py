from dataclasses import replace

from backstory.models.reranker import QueryChunk, hash_request
from tests.models.rerankers.rerank_requests import request_of


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
