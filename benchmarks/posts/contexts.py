"""What a writer is shown of a labelled set: windows with Backstory's context, a whole-window context, or none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import polars as pl

from backstory.models.embeddings.protocol import Vectors
from backstory.operations.evaluation import LabelledSet
from backstory.retrieval.assembly import Retrieval
from backstory.text.languages import detect_languages
from backstory.writing.material import ContextMaterial, WindowMaterial, gather_context, gather_windows

WITH_CONTEXT: Final = "context of backstory"
WITH_WHOLE_WINDOW: Final = "context of the mean vector"
WITHOUT_CONTEXT: Final = "no context"
CONTEXTS: Final = (WITH_CONTEXT, WITH_WHOLE_WINDOW, WITHOUT_CONTEXT)

_WHOLE_WINDOW: Final = {
    "plan": "adaptive",
    "adaptive_max_messages": 1_000_000,
    "ranking": "dense",
    "strategy": "similarity",
    "chunks_per_query": 50,
}


def show_windows(labelled: LabelledSet) -> list[WindowMaterial]:
    """Collect the messages of the windows of a set."""
    languages = detect_languages(labelled.messages, by="conversation_id")
    return gather_windows(
        labelled.windows, labelled.messages, languages.rename({"conversation_id": "window_id"})
    )


def find_contexts(
    labelled: LabelledSet,
    materials: list[WindowMaterial],
    chunks: pl.DataFrame,
    vectors: Vectors,
    retrieval: Retrieval,
) -> dict[str, dict[str, ContextMaterial]]:
    """Find the contexts of windows.

    The whole-window context holds at most as many documents, found by the mean vector of the window; the same bar of
    probability drops hits as in a run. It cannot say which messages a document serves.

    Args:
        labelled: A labelled set.
        materials: Its windows, from :func:`show_windows`.
        chunks: Table ``window_chunks``.
        vectors: Unit vectors of the chunks, shape ``(len(chunks), dimension)``.
        retrieval: The index, and the settings of the search.

    Returns:
        The context of each window by its id, for each of :data:`CONTEXTS`.
    """
    whole = replace(retrieval, rag=retrieval.rag.model_copy(update=_WHOLE_WINDOW))
    found = {
        method: _gather(way.run(labelled.windows, chunks, vectors).contexts, materials, chunks)
        for method, way in ((WITH_CONTEXT, retrieval), (WITH_WHOLE_WINDOW, whole))
    }
    return {**found, WITHOUT_CONTEXT: {one.window_id: ContextMaterial("no_hits") for one in materials}}


def _gather(
    contexts: pl.DataFrame, materials: list[WindowMaterial], chunks: pl.DataFrame
) -> dict[str, ContextMaterial]:
    spans = {
        key: (first, last)
        for key, first, last in chunks.select("chunk_id", "first_message", "last_message").iter_rows()
    }
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in contexts.sort("window_id", "rank").iter_rows(named=True):
        rows[row["window_id"]].append({**row, "path": row["slug"], "link": row["slug"]})
    return {
        one.window_id: gather_context(
            "ok" if rows[one.window_id] else "no_hits",
            rows[one.window_id],
            {row["chunk_id"]: _find_served(row, spans, one) for row in rows[one.window_id]},
        )
        for one in materials
    }


def _find_served(
    row: Mapping[str, Any], spans: Mapping[str, tuple[int, int]], window: WindowMaterial
) -> tuple[int, ...]:
    """Give the messages whose query chunks found a stored chunk. Every message of a labelled set has a text."""
    found = (spans[key] for key in row["matched_query_chunks"] if key in spans)
    last = len(window.messages) - 1
    return tuple(sorted({place for first, end in found for place in range(first, min(end, last) + 1)}))
