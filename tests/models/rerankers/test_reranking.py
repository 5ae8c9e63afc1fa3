"""The last step of selection: what the reranker is shown, and what becomes of its answer."""

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from backstory.base.errors import ModelError
from backstory.ingest.privacy.pseudonyms import find_naming_texts
from backstory.models.embeddings.protocol import Vectors
from backstory.models.reranker import RATING, JudgementCache, Judgements, RerankRequest, Topic
from backstory.models.reranking import Reranking
from backstory.retrieval.selection.decisions import select_hits
from backstory.retrieval.selection.strategies import VectorSources
from backstory.settings.models import RAGSettings, RerankSettings
from backstory.storage.tables.contracts import validate
from backstory.storage.tables.schemas import Decisions
from backstory.text.people import SendText
from tests.builders.hits import make_hits, ten_tokens, weigh_hits
from tests.builders.windows import make_window_chunks
from tests.caches import open_cache

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


Ratings = Mapping[str, Mapping[str, float]]
"""Rating of each chunk by topic; 0 for a chunk that is not named."""


class FixedRater:
    """Gives ratings that a test has set, or withholds them with a note. Every topic consists of the first two parts."""

    id = "fixed"
    api_calls = 0

    def __init__(self, ratings: Ratings, note: str | None = None) -> None:
        self.requests: list[RerankRequest] = []
        self._ratings = ratings
        self._note = note

    def judge(self, requests: Sequence[RerankRequest]) -> list[Judgements]:
        self.requests.extend(requests)
        return [self._judge(request) for request in requests]

    def _judge(self, request: RerankRequest) -> Judgements:
        if self._note is not None:
            return Judgements.withheld(len(request.candidates), RATING, self._note)
        parts = tuple(part.query_chunk_id for part in request.parts[:2])
        values = [
            [rated.get(candidate.chunk_id, 0.0) for candidate in request.candidates]
            for rated in self._ratings.values()
        ]
        topics = tuple(Topic(label, parts) for label in self._ratings)
        return Judgements(topics, np.array(values, np.float64), RATING)


class FailingRater(FixedRater):
    """Fails when it is asked again."""

    def judge(self, requests: Sequence[RerankRequest]) -> list[Judgements]:
        if self.requests:
            raise ModelError("no answer")
        return super().judge(requests)


SOUP_BEST: Ratings = {"soup": {"c": 5}, "trains": {"b": 5, "a": 3}}


def hits_of(rows: Sequence[Hit]) -> pl.DataFrame:
    names = ("window_id", "query_chunk_id", "chunk_id", "similarity")
    named = (dict(zip(names, row, strict=True)) for row in rows)
    return make_hits({**row, "document_id": str(row["chunk_id"]).upper()} for row in named)


def window_chunks_of(
    texts: dict[str, str], granularity: str = "messages:1", window: str = "w"
) -> pl.DataFrame:
    rows = [{"chunk_id": key, "text": texts[key], "chunk_index": place} for place, key in enumerate(texts)]
    return make_window_chunks(rows, window_id=window, granularity=granularity)


CHUNKS = pl.concat([window_chunks_of(QUERY_TEXTS), window_chunks_of({"q4": "alone"}, window="v")])


def describe(chunk_ids: Sequence[str]) -> pl.DataFrame:
    return pl.DataFrame({"chunk_id": list(chunk_ids)}).with_columns(
        document_id="chunk_id",
        title=pl.format("Title of {}", "chunk_id"),
        text=pl.format("Text of {}", "chunk_id"),
    )


def same_direction(chunk_ids: Sequence[str]) -> Vectors:
    return np.eye(len(chunk_ids), 8, dtype=np.float32)


def judge(
    reranker: FixedRater | None,
    rag: RAGSettings,
    *,
    rows: Sequence[Hit] = HITS,
    max_tokens: int = 1000,
    names: Sequence[str] | None = None,
    cache: JudgementCache | None = None,
    send: SendText = lambda _, text: text,
    **settings: int,
) -> pl.DataFrame:
    reranking = None
    if reranker is not None:
        shown = RerankSettings.model_validate(settings)
        reranking = Reranking(
            reranker,
            shown,
            window_chunks=CHUNKS,
            describe=describe,
            find_leaks=partial(find_naming_texts, names=names or []),
            cache=cache,
            send=send,
        )
    decisions = select_hits(
        weigh_hits(hits_of(rows)),
        rag,
        temperature=0.04,
        vectors=VectorSources(same_direction, same_direction),
        texts={chunk_id: chunk_id for _, _, chunk_id, _ in rows},
        entry_tokens=ten_tokens,
        max_tokens=max_tokens,
        reranking=reranking,
    )
    return validate(decisions, Decisions)


def kept(decisions: pl.DataFrame, window: str = "w") -> list[str]:
    chosen = decisions.filter("kept", pl.col("window_id") == window).sort("rank")
    return chosen["chunk_id"].unique(maintain_order=True).to_list()


BEST_TWO = RAGSettings(top_k=2, strategy="similarity")


def test_the_judgements_select_and_say_what_serves_nothing() -> None:
    decisions = judge(FixedRater(SOUP_BEST), BEST_TWO, candidates=4)
    assert kept(decisions) == ["b", "c"]
    causes = dict(decisions.filter(pl.col("window_id") == "w").select("chunk_id", "cause").iter_rows())
    assert causes == {"a": "not_selected", "b": "kept", "c": "kept", "d": "below_rating"}
    assert decisions["rerank_note"].null_count() == len(decisions)
    short = judge(FixedRater(SOUP_BEST), BEST_TWO, candidates=3, max_tokens=15)
    assert (kept(short), set(short.filter(chunk_id="c")["cause"])) == (["b"], {"over_budget"})


def test_a_document_that_is_withheld_is_not_shown_and_keeps_its_place() -> None:
    def send(document_id: str | None, text: str) -> str | None:
        return None if document_id == "b" else f"{text}!"

    rater = FixedRater({"soup": {"d": 5, "c": 4}})
    decisions = judge(rater, RAGSettings(top_k=3, strategy="similarity"), candidates=4, send=send)
    [request] = rater.requests
    assert [candidate.chunk_id for candidate in request.candidates] == ["a", "c", "d"]
    texts = [part.text for part in (*request.parts, *request.queries)]
    assert all(text.endswith("!") for text in [*texts, *(one.title for one in request.candidates)])
    assert kept(decisions) == ["d", "b", "c"]
    assert set(decisions.filter(chunk_id="a", window_id="w")["cause"]) == {"below_rating"}
    nothing = judge(FixedRater({"soup": {}}), RAGSettings(top_k=3), candidates=4, send=send)
    assert kept(nothing) == ["b"]


def test_a_window_whose_words_are_withheld_is_not_judged() -> None:
    rater = FixedRater(SOUP_BEST)
    decisions = judge(rater, BEST_TWO, candidates=4, send=lambda key, text: text if key else None)
    assert not rater.requests
    assert kept(decisions) == kept(judge(None, BEST_TWO))


@pytest.mark.parametrize("strategy", ["coverage", "similarity", "mmr"])
def test_an_answer_that_is_withheld_gives_what_no_reranker_gives_and_a_note(
    strategy: str, caplog: pytest.LogCaptureFixture
) -> None:
    rag = RAGSettings.model_validate({"top_k": 2, "strategy": strategy})
    with caplog.at_level(logging.WARNING):
        degraded = judge(FixedRater({}, "blocked (SAFETY)"), rag, candidates=4)
    plain = judge(None, rag)
    assert degraded.drop("rerank_note").equals(plain.drop("rerank_note"))
    notes = dict(degraded.select("window_id", "rerank_note").iter_rows())
    assert notes == {"w": "blocked (SAFETY)", "v": None}
    assert "window=w answer=blocked (SAFETY)" in caplog.text


def test_a_window_with_one_candidate_is_not_asked_about() -> None:
    rater = FixedRater(SOUP_BEST)
    decisions = judge(rater, BEST_TWO, candidates=4)
    assert [request.window_id for request in rater.requests] == ["w"]
    assert kept(decisions, "v") == ["a"]
    assert decisions.filter(window_id="v")["uncovered_topics"].to_list() == [None]


def test_the_reranker_sees_the_window_and_what_found_each_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backstory.models.reranking.TEXT_CHARACTERS", 4)
    monkeypatch.setattr("backstory.models.reranking.QUERY_CHARACTERS", 100)
    rater = FixedRater(SOUP_BEST)
    judge(rater, BEST_TWO, candidates=4)
    rows: list[Hit] = [("w", "w#window", "a", 0.9), ("w", "q2", "b", 0.8)]
    judge(rater, BEST_TWO, candidates=1, rows=rows)
    request, whole = rater.requests
    assert [query.text for query in whole.queries] == ["\n\n".join(QUERY_TEXTS.values()), "the bean soup"]
    assert [len(one.candidates) for one in rater.requests] == [4, 2]
    assert [(part.query_chunk_id, part.text) for part in request.parts] == list(QUERY_TEXTS.items())
    assert [query.query_chunk_id for query in request.queries] == ["q1", "q2", "q3"]
    found = np.where(np.isfinite(request.scores), request.scores, 0)
    assert np.allclose(found, [[0.9, 0.8, 0, 0], [0.5, 0, 0.7, 0], [0, 0, 0, 0.6]])
    assert (request.candidates[0].title, request.candidates[0].text) == ("Title of a", "Text…")


def test_topics_that_no_candidate_reaches_are_told_with_their_messages() -> None:
    decisions = judge(FixedRater({**SOUP_BEST, "the frost": {"a": 2.0}}), BEST_TWO, candidates=4)
    assert decisions.filter(window_id="w")["uncovered_topics"].unique().to_list() == [
        ["the frost (message 1)"]
    ]
    assert judge(FixedRater(SOUP_BEST), BEST_TWO)["uncovered_topics"][0].to_list() == []


def test_a_label_with_a_real_name_is_not_kept() -> None:
    rater = FixedRater({**SOUP_BEST, "the frost of Brunhilde Meyer": {}, "the garden": {}})
    told = judge(rater, BEST_TWO, names=["Brunhilde Meyer"], candidates=4)["uncovered_topics"][0].to_list()
    assert told == ["a topic (message 1)", "the garden (message 1)"]


def test_a_failure_loses_no_answer_that_was_given(tmp_path: Path) -> None:
    cache = JudgementCache(open_cache(tmp_path))
    rows = [*HITS, ("v", "q4", "b", 0.8)]
    with pytest.raises(ModelError):
        judge(FailingRater(SOUP_BEST), BEST_TWO, rows=rows, cache=cache, threads=1)
    again = FixedRater(SOUP_BEST)
    judge(again, BEST_TWO, rows=rows, cache=cache, threads=1)
    assert len(again.requests) == 1


def test_a_name_that_is_known_later_is_hidden_in_kept_judgements(tmp_path: Path) -> None:
    cache = JudgementCache(open_cache(tmp_path))
    rater = FixedRater({**SOUP_BEST, "the frost of Brunhilde Meyer": {}})
    before = judge(rater, BEST_TWO, names=["Ada"], cache=cache)["uncovered_topics"][0].to_list()
    assert before == ["the frost of Brunhilde Meyer (message 1)"]
    after = judge(rater, BEST_TWO, names=["Brunhilde Meyer"], cache=cache)["uncovered_topics"][0].to_list()
    assert (after, len(rater.requests)) == (["a topic (message 1)"], 1)
