"""Requests as the tests of this folder use them."""

from backstory.rerankers import Candidate, RerankRequest


def request_of(*chunk_ids: str, window_id: str = "w", asked_by: str = "talks about soup") -> RerankRequest:
    candidates = tuple(
        Candidate(chunk_id, f"Title of {chunk_id}", f"Text of {chunk_id}.", asked_by=asked_by)
        for chunk_id in chunk_ids
    )
    return RerankRequest(window_id, "A chat about trains.\n\nAnd soup.", candidates)
