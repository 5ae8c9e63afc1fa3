"""The windows of a workspace, and the context of a window with the reasons for its documents."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any, Final

import polars as pl

from backstory.base.errors import InputError
from backstory.base.local_times import localize_window, read_clocks, write_span
from backstory.base.wording import count, name_some
from backstory.pipeline.workspace import Workspace

LATEST: Final = "latest"
"""The reference to the window that began last."""

CAUSES: Final[Mapping[str, str]] = {
    "below_threshold": "too improbable",
    "duplicate_document": "another chunk of the same document was preferred",
    "near_duplicate": "almost the same text as another chunk",
    "below_rating": "rated by the reranker as serving no topic",
    "not_selected": "other documents add more",
    "over_budget": "no room left in the token budget",
}
"""The reason for a dropped hit in words, by the cause in the table ``decisions``."""

_SHORTEST_ID = 8
_MOST_NAMED = 10


def list_windows(
    workspace: Workspace, *, first: date | None = None, last: date | None = None, limit: int | None = None
) -> list[dict[str, Any]]:
    """List windows with the state of their contexts, oldest first.

    Those that began before the first or after the last day of their conversation are left out; ``limit`` keeps the
    latest ones. Each has the columns of ``windows`` but its messages, ``short_id`` (the shortest beginning that is
    unique in this workspace) and ``status`` and counts of its context; the status is ``not made`` before it exists.
    It raises ``InputError`` if the workspace has windows, and none of them began in this range.
    """
    of_context = ("window_id", "status", "kept_count", "part_count", "served_count", "coverage")
    states = workspace.tables.read("window_contexts", columns=of_context)
    windows = _choose_days(_read_windows(workspace).drop("token_count", "message_ids"), first, last)
    listed = (windows if limit is None else windows.tail(limit)).join(states, on="window_id", how="left")
    listed = listed.with_columns(pl.col("status").fill_null("not made")).sort("started_at", "window_id")
    return [localize_window(row) for row in listed.iter_rows(named=True)]


def find_window(workspace: Workspace, reference: str) -> dict[str, Any]:
    """Find the window that a reference names, as a row of ``windows`` with its times in its time zone.

    The reference is ``latest`` for the window that began last, a day on which one window began by the clock of its
    conversation, as YYYY-MM-DD, or the id of a window or its first characters. It raises ``InputError`` if it matches
    no window, or several, which the message lists.
    """
    windows = _read_windows(workspace)
    if windows.is_empty():
        raise InputError("there are no windows yet; run `backstory run`", code="no_windows")
    if reference == LATEST:
        found = windows.tail(1)
    elif day := _read_day(reference):
        found = _choose_days(windows, day, day)
    else:
        exact = windows.filter(window_id=reference)
        found = windows.filter(pl.col("window_id").str.starts_with(reference)) if exact.is_empty() else exact
        if found.is_empty() or not reference:
            raise InputError(
                f"no window has an id that begins with {reference!r}; `backstory windows` lists them; a date "
                f"(YYYY-MM-DD) and '{LATEST}' name one, too",
                code="unknown_window",
            )
    if len(found) > 1:
        named = [
            f"{row['short_id']} ({write_span(row['started_at'], row['ended_at'])}, "
            f"{count(row['message_count'], 'message')} of {row['conversation_id']})"
            for row in map(localize_window, found.to_dicts())
        ]
        # What follows the last semicolon is the remedy.
        what = f"{len(found)} windows match {reference!r}; name one of them by its id: {name_some(named, _MOST_NAMED)}"
        raise InputError(what, code="ambiguous_reference")
    return localize_window(found.drop("short_id").row(0, named=True))


def _read_windows(workspace: Workspace) -> pl.DataFrame:
    windows = workspace.tables.read("windows").sort("started_at", "window_id")
    return windows.insert_column(1, shorten_ids(windows["window_id"]))


def _read_day(reference: str) -> date | None:
    try:
        return date.fromisoformat(reference) if "-" in reference else None
    except ValueError:
        return None


def _choose_days(windows: pl.DataFrame, first: date | None, last: date | None) -> pl.DataFrame:
    """Choose the windows that began on some days, at least one if there are any."""
    began = read_clocks(windows, "started_at").dt.date()
    chosen = windows.filter((began >= (first or date.min)) & (began <= (last or date.max)))
    if chosen.is_empty() and not windows.is_empty():
        raise InputError(
            f"no window began in this range; the first began on {began[0]} and the last on {began[-1]}",
            code="no_window",
        )
    return chosen


def shorten_ids(window_ids: pl.Series) -> pl.Series:
    """Shorten all ids of a workspace to the shortest length, at least eight, at which they are still distinct."""
    length = _SHORTEST_ID
    while window_ids.str.head(length).n_unique() < window_ids.n_unique():
        length += 1
    return window_ids.str.head(length).alias("short_id")


def read_window_context(workspace: Workspace, reference: str) -> dict[str, Any]:
    """Read the context of the window that a reference names: its row of ``window_contexts``, and further keys.

    ``documents`` are its rows of ``contexts``, each with ``asked_by`` (texts of the query chunks that it serves, or
    that found it) and ``probability`` (the highest of its document's hits); ``dropped`` says how many hits each cause
    dropped. It raises ``InputError`` if there is no such window, or it has no context yet.
    """
    window = find_window(workspace, reference)
    partition = [window["partition"]]
    mine = pl.col("window_id") == window["window_id"]
    summary, contexts, chunks, decisions = (
        workspace.tables.read(table, partition).filter(mine)
        for table in ("window_contexts", "contexts", "window_chunks", "decisions")
    )
    if summary.is_empty():
        raise InputError(
            f"window {window['window_id']} has no context yet; run `backstory run`", code="no_context"
        )
    texts = dict(chunks.select("chunk_id", "text").iter_rows())
    probabilities = dict(decisions.group_by("document_id").agg(pl.col("probability").max()).iter_rows())
    documents = [
        {
            **row,
            "asked_by": [texts[key] for key in row["matched_query_chunks"] if key in texts],
            "probability": probabilities.get(row["document_id"], 0.0),
        }
        for row in workspace.date_locally(contexts).sort("rank").to_dicts()
    ]
    causes = decisions.filter(~pl.col("kept"))["cause"].value_counts().sort("cause")
    return {**summary.row(0, named=True), "documents": documents, "dropped": dict(causes.iter_rows())}
