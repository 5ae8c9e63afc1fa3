"""Reranking, the optional last step of selection: the requests to a reranker, and the order that it returns."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

import polars as pl

from backstory.ids import WHOLE_WINDOW
from backstory.prompt_text import cut_snippet, join_query_chunks
from backstory.rerankers import Candidate, Reranker, RerankRequest, RerankResult
from backstory.settings import RerankSettings

logger = logging.getLogger(__name__)

Describe = Callable[[Sequence[str]], pl.DataFrame]


class Reranking:
    """Orders the selected chunks of a batch of windows.

    Attributes:
        candidates: Number of chunks to select for the reranker.
        counts: Numbers of reranked windows, of windows among them whose order the reranker left unchanged, and of
            requests sent to a service.
    """

    def __init__(
        self,
        reranker: Reranker,
        settings: RerankSettings,
        *,
        hits: pl.DataFrame,
        window_chunks: pl.DataFrame,
        describe: Describe,
    ) -> None:
        """Set the reranker and the tables that its requests are made from.

        Args:
            reranker: Orders the candidates.
            settings: How many candidates and characters the reranker is shown.
            hits: Table ``hits`` of the windows.
            window_chunks: Table ``window_chunks`` of the same windows.
            describe: Gives ``chunk_id``, ``title`` and ``text`` of stored chunks, such as
                :meth:`backstory.index.SearchIndex.describe`.
        """
        self.candidates = settings.candidates
        self.counts = {"reranked_windows": 0, "rerank_kept_order": 0, "rerank_api_calls": 0}
        self._reranker = reranker
        self._settings = settings
        self._hits = hits
        self._window_chunks = window_chunks
        self._describe = describe

    def reorder(self, selected: Mapping[str, Sequence[str]]) -> dict[str, RerankResult]:
        """Ask for a new order of each window's chunks.

        Args:
            selected: Chunks of each window, in the order of the selection.

        Returns:
            The new order by window. A window with fewer than two chunks is not reranked.

        Raises:
            ModelError: The model could not be used, or gave no usable answer.
        """
        asked = {window_id: chunk_ids for window_id, chunk_ids in selected.items() if len(chunk_ids) > 1}
        calls_before = self._reranker.api_calls
        results = dict(zip(asked, self._reranker.rerank(self._make_requests(asked)), strict=True))
        self.counts["rerank_api_calls"] += self._reranker.api_calls - calls_before
        self.counts["reranked_windows"] += len(results)
        for window_id, result in results.items():
            if result.note is not None:
                self.counts["rerank_kept_order"] += 1
                logger.warning(
                    "reranker left the order unchanged window=%s answer=%s", window_id, result.note
                )
        return {
            window_id: results.get(window_id, RerankResult(tuple(chunk_ids)))
            for window_id, chunk_ids in selected.items()
        }

    def _make_requests(self, selected: Mapping[str, Sequence[str]]) -> list[RerankRequest]:
        queries = join_query_chunks(self._window_chunks, self._settings.query_characters)
        best_queries = self._find_best_queries(queries)
        wanted = list(dict.fromkeys(chunk_id for chunk_ids in selected.values() for chunk_id in chunk_ids))
        known = self._describe(wanted)
        texts = {
            chunk_id: (title, cut_snippet(text, self._settings.text_characters))
            for chunk_id, title, text in known.select("chunk_id", "title", "text").iter_rows()
        }
        return [
            RerankRequest(
                window_id,
                queries[window_id],
                tuple(
                    Candidate(chunk_id, *texts[chunk_id], asked_by=best_queries[window_id, chunk_id])
                    for chunk_id in chunk_ids
                ),
            )
            for window_id, chunk_ids in selected.items()
        ]

    def _find_best_queries(self, queries: Mapping[str, str]) -> dict[tuple[str, str], str]:
        """Give, for each window and stored chunk, the text of the query that found the chunk with the best score."""
        best = self._hits.sort(
            ["score", "query_chunk_id"], descending=[True, False], maintain_order=True
        ).unique(["window_id", "chunk_id"], keep="first", maintain_order=True)
        chunk_texts = dict(self._window_chunks.select("chunk_id", "text").iter_rows())
        return {
            (window_id, chunk_id): queries[window_id]
            if query_chunk_id.endswith(f"#{WHOLE_WINDOW}")
            else chunk_texts[query_chunk_id]
            for window_id, chunk_id, query_chunk_id in best.select(
                "window_id", "chunk_id", "query_chunk_id"
            ).iter_rows()
        }
