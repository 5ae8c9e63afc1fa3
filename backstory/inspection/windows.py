"""The context of one window, with the reasons for every choice."""

from __future__ import annotations

from typing import Any

import polars as pl

from backstory.errors import InputError
from backstory.tables import read_table, scan_table
from backstory.workspace import Workspace


def find_window(workspace: Workspace, window_id: str) -> dict[str, Any]:
    """Find a window by its id or a unique beginning of it.

    Raises:
        InputError: No window, or more than one, is meant.
    """
    windows = (
        scan_table(workspace.tables, "windows")
        .filter(pl.col("window_id").str.starts_with(window_id))
        .collect()
    )
    exact = windows.filter(pl.col("window_id") == window_id)
    found = exact if len(exact) else windows
    if len(found) != 1:
        what = "no window" if found.is_empty() else f"{len(found)} windows"
        raise InputError(f"{what} with an id that begins with {window_id!r}; `backstory windows` lists them")
    return found.row(0, named=True)


def read_window_context(workspace: Workspace, window_id: str) -> dict[str, Any]:
    """Read what was materialized for a window.

    Args:
        workspace: The workspace.
        window_id: Id of the window, or a unique beginning of it.

    Returns:
        The row of ``window_contexts``, with ``documents``: its rows of ``contexts``, each with ``asked_by``
        (texts of the query chunks that found it), and ``dropped``: how many hits each cause dropped.

    Raises:
        InputError: There is no such window, or its context was not materialized.
    """
    window = find_window(workspace, window_id)
    partition = [window["partition"]]
    mine = pl.col("window_id") == window["window_id"]
    summary, contexts, chunks, decisions = (
        read_table(workspace.tables, table, partition).filter(mine)
        for table in ("window_contexts", "contexts", "window_chunks", "decisions")
    )
    if summary.is_empty():
        raise InputError(f"window {window['window_id']} has no context yet; run `backstory run`")
    texts = dict(chunks.select("chunk_id", "text").iter_rows())
    documents = [
        {**row, "asked_by": [texts[key] for key in row["matched_query_chunks"] if key in texts]}
        for row in contexts.sort("rank").to_dicts()
    ]
    causes = decisions.filter(~pl.col("kept"))["cause"].value_counts().sort("cause")
    return {**summary.row(0, named=True), "documents": documents, "dropped": dict(causes.iter_rows())}
