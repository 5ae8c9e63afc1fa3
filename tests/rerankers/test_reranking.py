"""The last step of selection: what the reranker is shown, and what becomes of its answer."""

import logging
from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from backstory.decisions import judge_hits
from backstory.embeddings.protocol import Vectors
from backstory.rerankers import RerankRequest, RerankResult
from backstory.rerankers.reranking import Reranking
from backstory.settings import RAGSettings, RerankSettings
from backstory.strategies import VectorSources
from backstory.tables.contracts import conform, validate
from backstory.tables.schemas import Decisions, Hits, WindowChunks

QUERY_TEXTS = {"q1": "the night train", "q2": "the bean soup", "q3": "the border"}
Hit = tuple[str, str, str, float]  # window, query chunk, chunk, similarity

HITS: list[Hit] = [
    ("w", "q1", "a", 0.9),
    ("w", "q1", "b", 0.8),
    ("w", "q2", "a", 0.5),
    ("w", "q2", "c", 0.7),
    ("w", "q3", "d", 0.6),
    ("v", "q4", "a", 0.9),
]


class ReversingReranker:
    """Turns every order round, or leaves it with a note."""

    id = "reversing"
    api_calls = 0

    def __init__(self, note: str | None = None) -> None:
        self.note = note
        self.requests: list[RerankRequest] = []

    def rerank(self, requests: Sequence[RerankRequest]) -> list[RerankResult]:
        self.requests.extend(requests)
        orders = [tuple(candidate.chunk_id for candidate in request.candidates) for request in requests]
        return [RerankResult(order if self.note else order[::-1], self.note) for order in orders]


def hits_of(rows: Sequence[Hit]) -> pl.DataFrame:
    frame = pl.DataFrame(
        rows, schema=["window_id", "query_chunk_id", "chunk_id", "similarity"], orient="row"
    ).with_columns(
        document_id=pl.col("chunk_id").str.to_uppercase(),
        keyword_score=pl.lit(None, dtype=pl.Float64),
        score="similarity",
        rank=pl.int_range(1, pl.len() + 1).over("query_chunk_id"),
        engine=pl.lit("exact"),
        index_version=pl.lit("v"),
    )
    return conform(frame, Hits)


def window_chunks_of(
    texts: dict[str, str], granularity: str = "messages:1", window: str = "w"
) -> pl.DataFrame:
    frame = pl.DataFrame({"chunk_id": list(texts), "text": list(texts.values())}).with_columns(
        window_id=pl.lit(window),
        granularity=pl.lit(granularity),
        chunk_index=pl.int_range(pl.len()),
        token_count=pl.lit(1),
        first_message=pl.lit(0),
        last_message=pl.lit(0),
    )
    return conform(frame, WindowChunks)


CHUNKS = pl.concat([window_chunks_of(QUERY_TEXTS), window_chunks_of({"q4": "alone"}, window="v")])


def describe(chunk_ids: Sequence[str]) -> pl.DataFrame:
    return pl.DataFrame({"chunk_id": list(chunk_ids)}).with_columns(
        title=pl.format("Title of {}", "chunk_id"), text=pl.format("Text of {}", "chunk_id")
    )


def same_direction(chunk_ids: Sequence[str]) -> Vectors:
    return np.eye(len(chunk_ids), 8, dtype=np.float32)


def ten_tokens(chunk_ids: Sequence[str]) -> NDArray[np.int64]:
    return np.full(len(chunk_ids), 10, np.int64)


def judge(
    reranker: ReversingReranker | None,
    rag: RAGSettings,
    *,
    rows: Sequence[Hit] = HITS,
    max_tokens: int = 1000,
    chunks: pl.DataFrame = CHUNKS,
    **settings: int,
) -> pl.DataFrame:
    hits = hits_of(rows)
    reranking = None
    if reranker is not None:
        shown = RerankSettings.model_validate(settings)
        reranking = Reranking(reranker, shown, hits=hits, window_chunks=chunks, describe=describe)
    decisions = judge_hits(
        hits,
        rag,
        min_similarity=0.0,
        vectors=VectorSources(same_direction, same_direction),
        entry_tokens=ten_tokens,
        max_tokens=max_tokens,
        reranking=reranking,
    )
    return validate(decisions, Decisions)


def kept(decisions: pl.DataFrame, window: str = "w") -> list[str]:
    chosen = decisions.filter("kept", pl.col("window_id") == window).sort("rank")
    return chosen["chunk_id"].unique(maintain_order=True).to_list()


BEST_TWO = RAGSettings(top_k=2, strategy="similarity")


def test_the_first_of_the_new_order_are_kept_and_the_others_are_not_selected() -> None:
    decisions = judge(ReversingReranker(), BEST_TWO, candidates=3)
    assert kept(decisions) == ["c", "b"]
    causes = dict(decisions.filter(pl.col("window_id") == "w").select("chunk_id", "cause").iter_rows())
    assert causes == {"a": "not_selected", "b": "kept", "c": "kept", "d": "not_selected"}
    assert decisions["rerank_note"].null_count() == len(decisions)


def test_the_number_of_candidates_bounds_what_the_reranker_sees() -> None:
    reranker = ReversingReranker()
    assert kept(judge(reranker, BEST_TWO, candidates=4)) == ["d", "c"]
    assert [candidate.chunk_id for candidate in reranker.requests[0].candidates] == ["a", "b", "c", "d"]
    assert kept(judge(ReversingReranker(), BEST_TWO, candidates=1)) == ["b", "a"]


def test_the_budget_applies_to_the_new_order() -> None:
    decisions = judge(ReversingReranker(), BEST_TWO, candidates=3, max_tokens=15)
    assert kept(decisions) == ["c"]
    assert set(decisions.filter(chunk_id="b")["cause"]) == {"over_budget"}


@pytest.mark.parametrize("strategy", ["coverage", "similarity", "mmr"])
def test_an_answer_that_is_withheld_gives_what_no_reranker_gives_and_a_note(
    strategy: str, caplog: pytest.LogCaptureFixture
) -> None:
    rag = RAGSettings.model_validate({"top_k": 2, "strategy": strategy})
    with caplog.at_level(logging.WARNING):
        degraded = judge(ReversingReranker("blocked (SAFETY)"), rag, candidates=4)
    plain = judge(None, rag)
    assert degraded.drop("rerank_note").equals(plain.drop("rerank_note"))
    notes = dict(degraded.select("window_id", "rerank_note").iter_rows())
    assert notes == {"w": "blocked (SAFETY)", "v": None}
    assert "window=w answer=blocked (SAFETY)" in caplog.text


def test_a_window_with_one_candidate_is_not_asked_about() -> None:
    reranker = ReversingReranker()
    decisions = judge(reranker, BEST_TWO, candidates=4)
    assert [request.window_id for request in reranker.requests] == ["w"]
    assert kept(decisions, "v") == ["a"]


def test_the_reranker_sees_the_window_and_what_asked_best_for_each_candidate() -> None:
    reranker = ReversingReranker()
    judge(reranker, BEST_TWO, candidates=4, text_characters=4)
    [request] = reranker.requests
    assert request.query == "the night train\n\nthe bean soup\n\nthe border"
    assert [candidate.asked_by for candidate in request.candidates] == [
        "the night train",
        "the night train",
        "the bean soup",
        "the border",
    ]
    assert (request.candidates[0].title, request.candidates[0].text) == ("Title of a", "Text…")


def test_a_query_of_the_whole_window_asks_with_its_text() -> None:
    reranker = ReversingReranker()
    rows: list[Hit] = [("w", "w#window", "a", 0.9), ("w", "q2", "b", 0.8)]
    judge(reranker, BEST_TWO, rows=rows)
    first, second = reranker.requests[0].candidates
    assert first.asked_by == reranker.requests[0].query
    assert second.asked_by == "the bean soup"
