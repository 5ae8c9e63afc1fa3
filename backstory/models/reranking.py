"""Reranking, an optional step of selection: the requests to a reranker, and its judgements."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np
import polars as pl

from backstory.base.ids import WHOLE_WINDOW
from backstory.base.telemetry import log_event
from backstory.models.reranker import (
    QUERY_CHARACTERS,
    TEXT_CHARACTERS,
    UNNAMED,
    Candidate,
    JudgementCache,
    Judgements,
    Matrix,
    QueryChunk,
    Reranker,
    RerankRequest,
    Topic,
    hash_request,
)
from backstory.settings.models import RerankSettings
from backstory.text.people import FindLeaks, SendText
from backstory.text.prompts.entries import cut_snippet, cut_to_common_length, name_messages

logger = logging.getLogger(__name__)

Describe = Callable[[Sequence[str]], pl.DataFrame]

_COUNTS: Final = (
    "reranked_windows", "rerank_kept_order", "rerank_uncovered_topics", "rerank_recalled", "rerank_api_calls",
    "rerank_withheld_candidates",
)  # fmt: skip


@dataclass(frozen=True)
class Shortlist:
    """The candidates of one window, in the order of the selection, and the queries that found one of them.

    The scores are those of :class:`~backstory.models.reranker.RerankRequest`.
    """

    query_ids: list[str]
    chunk_ids: list[str]
    scores: Matrix


@dataclass
class Reranking:
    """Has the candidates of a batch of windows judged, at most ``settings.candidates`` of each.

    ``describe`` gives stored chunks as :meth:`backstory.index.search.SearchIndex.describe` does, ``find_leaks`` finds
    the labels of topics that hold a real name, and ``send`` gives each text as the reranker is sent it, or withholds
    it. ``counts`` has the figures of all calls by name.
    """

    reranker: Reranker
    settings: RerankSettings
    window_chunks: pl.DataFrame
    describe: Describe
    find_leaks: FindLeaks = lambda _: ()
    cache: JudgementCache | None = None
    send: SendText = lambda _, text: text
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_COUNTS, 0), init=False)

    def judge(self, shortlists: Mapping[str, Shortlist]) -> dict[str, Judgements]:
        """Have the candidates of each window judged; a ``ModelError`` means that the model could not be used.

        A window is not judged if fewer than two of its candidates may be sent, or its own words may not.
        """
        contested = {
            window_id: listed for window_id, listed in shortlists.items() if len(listed.chunk_ids) > 1
        }
        requests = {request.window_id: request for request in self._make_requests(contested)}
        results = self._recall_or_ask(requests)
        self.counts["reranked_windows"] += len(results)
        for window_id, result in results.items():
            self.counts["rerank_uncovered_topics"] += len(result.uncovered)
            if result.note is not None:
                self.counts["rerank_kept_order"] += 1
                figures = {"window": window_id, "answer": result.note}
                log_event(logger, "reranker left the order unchanged", figures, level=logging.WARNING)
        return {
            window_id: _spread(result, requests[window_id], contested[window_id])
            for window_id, result in results.items()
        }

    def _recall_or_ask(self, requests: Mapping[str, RerankRequest]) -> dict[str, Judgements]:
        """Take judgements from the cache, and ask about the other windows; answers without judgements are not kept."""
        hashes = {
            window_id: hash_request(self.reranker.id, request) for window_id, request in requests.items()
        }
        known = self.cache.get(hashes) if self.cache else {}
        self.counts["rerank_recalled"] += len(known)
        missing = [window_id for window_id in requests if window_id not in known]
        # A name may have become known after the judgements were kept.
        found = self._drop_leaks(known)
        # Each slice is stored before the next is requested, so that a failure loses no answer of an earlier one.
        for start in range(0, len(missing), self.settings.threads):
            some = missing[start : start + self.settings.threads]
            calls_before = self.reranker.api_calls
            try:
                judged = self.reranker.judge([requests[window_id] for window_id in some])
            finally:
                self.counts["rerank_api_calls"] += self.reranker.api_calls - calls_before
            answers = self._drop_leaks(dict(zip(some, judged, strict=True)))
            if self.cache:
                usable = {window_id: answer for window_id, answer in answers.items() if answer.note is None}
                self.cache.put({window_id: (hashes[window_id], usable[window_id]) for window_id in usable})
            found |= answers
        return {window_id: found[window_id] for window_id in requests}

    def list_uncovered(self, judgements: Judgements) -> list[str] | None:
        """Name the topics that no candidate serves, such as ``the frost in March (messages 3 to 9)``, counted from 1.

        It is None without judgements of topics.
        """
        if judgements.note is not None or not judgements.scale.rates_topics:
            return None
        told = []
        for topic in judgements.uncovered:
            spans = (self._messages_of[query_chunk_id] for query_chunk_id in topic.query_chunk_ids)
            places = {place for first, last in spans for place in range(first + 1, last + 2)}
            told.append(f"{topic.label} ({name_messages(places)})" if places else topic.label)
        return told

    @cached_property
    def _messages_of(self) -> dict[str, tuple[int, int]]:
        columns = self.window_chunks.select("chunk_id", "first_message", "last_message")
        return {chunk_id: (first, last) for chunk_id, first, last in columns.iter_rows()}

    def _make_requests(self, shortlists: Mapping[str, Shortlist]) -> list[RerankRequest]:
        chunks = self.window_chunks.filter(pl.col("window_id").is_in(list(shortlists)))
        sent = pl.Series([self.send(None, text) for text in chunks["text"]], dtype=pl.String)
        chunks = chunks.with_columns(text=sent)
        withheld = set(chunks.filter(pl.col("text").is_null())["window_id"])
        chunks = chunks.filter(~pl.col("window_id").is_in(list(withheld)))
        shortlists = {key: listed for key, listed in shortlists.items() if key not in withheld}
        parts = _list_parts(chunks, QUERY_CHARACTERS)
        query_texts = dict(chunks.select("chunk_id", "text").iter_rows())
        shown = self._show_candidates(shortlists)
        requests = []
        for window_id, listed in shortlists.items():
            places = [place for place, chunk_id in enumerate(listed.chunk_ids) if chunk_id in shown]
            self.counts["rerank_withheld_candidates"] += len(listed.chunk_ids) - len(places)
            if len(places) < 2:
                continue
            window = {f"{window_id}#{WHOLE_WINDOW}": "\n\n".join(part.text for part in parts[window_id])}
            queries = tuple(
                QueryChunk(query_id, window[query_id] if query_id in window else query_texts[query_id])
                for query_id in listed.query_ids
            )
            candidates = tuple(shown[listed.chunk_ids[place]] for place in places)
            requests.append(
                RerankRequest(window_id, parts[window_id], queries, candidates, listed.scores[:, places])
            )
        return requests

    def _show_candidates(self, shortlists: Mapping[str, Shortlist]) -> dict[str, Candidate]:
        """Return what the reranker is shown of each candidate; nothing of one that may not be sent."""
        wanted = list(
            dict.fromkeys(chunk_id for listed in shortlists.values() for chunk_id in listed.chunk_ids)
        )
        described = self.describe(wanted).select("chunk_id", "document_id", "title", "text")
        shown = {}
        for chunk_id, document_id, written_title, written_text in described.iter_rows():
            title, text = self.send(document_id, written_title), self.send(document_id, written_text)
            if title is not None and text is not None:
                shown[chunk_id] = Candidate(chunk_id, title, cut_snippet(text, TEXT_CHARACTERS))
        return shown

    def _drop_leaks(self, results: dict[str, Judgements]) -> dict[str, Judgements]:
        """Take the label away from topics whose label holds a real name; their messages still tell what is meant."""
        labels = {topic.label for result in results.values() for topic in result.topics if topic.label}
        leaking = self.find_leaks(sorted(labels)) if labels else ()
        if not leaking:
            return results

        def clean(topic: Topic) -> Topic:
            return replace(topic, label=UNNAMED) if topic.label in leaking else topic

        return {
            window_id: replace(result, topics=tuple(clean(topic) for topic in result.topics))
            for window_id, result in results.items()
        }


def _spread(result: Judgements, request: RerankRequest, listed: Shortlist) -> Judgements:
    """Return the judgements of all candidates of a window from those of the candidates that were sent."""
    sent = {candidate.chunk_id for candidate in request.candidates}
    unsent = tuple(place for place, chunk_id in enumerate(listed.chunk_ids) if chunk_id not in sent)
    if not unsent:
        return result
    values = np.full((len(result.topics), len(listed.chunk_ids)), np.nan)
    values[:, [place for place in range(len(listed.chunk_ids)) if place not in unsent]] = result.values
    return replace(result, values=values, unsent=unsent)


def _list_parts(window_chunks: pl.DataFrame, characters: int) -> dict[str, tuple[QueryChunk, ...]]:
    """Return the query chunks of the first granularity of each window, cut to a common length within a budget."""
    first = window_chunks.filter(pl.col("granularity") == pl.col("granularity").first().over("window_id"))
    listed = first.group_by("window_id", maintain_order=True).agg("chunk_id", "text")
    return {
        window_id: tuple(
            QueryChunk(chunk_id, text)
            for chunk_id, text in zip(chunk_ids, cut_to_common_length(texts, characters), strict=True)
        )
        for window_id, chunk_ids, texts in listed.iter_rows()
    }
