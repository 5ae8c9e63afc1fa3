"""One window's context beside what a single query of the whole window would have given."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from backstory.embeddings import embed_texts
from backstory.errors import InputError
from backstory.hits import FoundHits, find_hits, plan_queries
from backstory.index import open_index
from backstory.retrieval import Retrieval
from backstory.tables import read_table
from backstory.workspace import Workspace

_ANY_SIZE = 2**62
_BASELINE_HITS = 100


@dataclass(frozen=True)
class WindowComparison:
    """What two ways of asking give for one window.

    Attributes:
        window: The row of ``windows``.
        chosen: Rows of ``contexts`` by the workspace's settings, as materialized.
        whole_window: Rows of ``contexts`` by one query of the whole window and the top by similarity.
        engine: The engine that the settings lead to, and the reason.
        agreement: Share of the hits nearest by exact search that this engine found, over all query chunks.
    """

    window: dict[str, object]
    chosen: pl.DataFrame
    whole_window: pl.DataFrame
    engine: str
    reason: str
    agreement: float


def compare_with_whole_window(workspace: Workspace, window_id: str) -> WindowComparison:
    """Ask for one window in both ways.

    Args:
        workspace: A materialized workspace.
        window_id: The window.

    Returns:
        Both answers, and how far the engine agrees with an exact search.

    Raises:
        InputError: There is no such window.
    """
    windows = read_table(workspace.tables, "windows").filter(pl.col("window_id") == window_id)
    if windows.is_empty():
        raise InputError(f"no window {window_id!r}; `backstory windows` lists them")
    partition = windows["partition"].to_list()
    chunks, contexts = (
        read_table(workspace.tables, table, partition).filter(pl.col("window_id") == window_id)
        for table in ("window_chunks", "contexts")
    )
    with open_index(workspace.index, embedder_id=workspace.embedder.id) as index:
        embedded = embed_texts(
            workspace.embedder, chunks["text"].to_list(), task="query", cache=workspace.embeddings
        )
        settings = workspace.settings.rag
        whole = settings.model_copy(
            update={
                "plan": "adaptive",
                "adaptive_max_messages": _ANY_SIZE,
                "strategy": "similarity",
                "chunks_per_query": _BASELINE_HITS,
            }
        )
        by_whole_window = Retrieval(
            index=index,
            rag=whole,
            context=workspace.settings.context,
            min_similarity=workspace.min_similarity,
        )
        asked = plan_queries(windows, chunks, embedded.vectors, settings)
        found = find_hits(asked, index, settings)
        # Both rankings together look at a hundred candidates; the vectors alone show what the engine misses.
        dense = settings.model_copy(update={"ranking": "dense"})
        approximate = find_hits(asked, index, dense)
        exact = find_hits(asked, index, dense.model_copy(update={"mode": "exact"}))
        return WindowComparison(
            window=windows.row(0, named=True),
            chosen=contexts,
            whole_window=by_whole_window.run(windows, chunks, embedded.vectors).contexts,
            engine=found.engine,
            reason=found.reason,
            agreement=_agreement(approximate, exact),
        )


def _agreement(found: FoundHits, exact: FoundHits) -> float:
    shared = exact.frame.join(found.frame, on=["query_chunk_id", "chunk_id"], how="semi")
    return len(shared) / len(exact.frame) if len(exact.frame) else 1.0
