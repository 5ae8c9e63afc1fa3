"""Reads the rows of one window from a workspace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from backstory.base.errors import InputError
from backstory.base.ids import digest_json
from backstory.interfaces.pages.report.window_report import WindowReport
from backstory.interfaces.pages.report.window_tables import WindowTables, make_window_report
from backstory.operations.inspection.windows import find_window
from backstory.pipeline.chats.people import read_people
from backstory.pipeline.incremental.fingerprints import read_by_serving
from backstory.pipeline.workspace import Workspace
from backstory.retrieval.evidence.learned import read_learned
from backstory.storage.tables.parquet import list_partitions, read_table, scan_table
from backstory.text.people import name_people

DOCUMENT_COLUMNS = ("document_id", "revision", "uri", "title", "slug", "published_at", "tags", "status")


def read_window_report(workspace: Workspace, window_id: str) -> WindowReport:
    """Read the report of a window.

    Args:
        workspace: A workspace with tables.
        window_id: Id of the window, or a unique beginning of it.

    Raises:
        InputError: There is no such window, it has no context yet, or its messages are no longer stored.
    """
    return read_report(workspace, find_window(workspace, window_id))


def read_report(workspace: Workspace, window: Mapping[str, Any]) -> WindowReport:
    """Read the report of a window whose row is at hand.

    Args:
        workspace: A workspace with tables.
        window: From :func:`backstory.operations.inspection.windows.find_window`.

    Raises:
        InputError: It has no context yet, or its messages are no longer stored.
    """
    mine = pl.col("window_id") == window["window_id"]
    summary, chunks, hits, decisions, contexts = (
        read_table(workspace.tables, table, [window["partition"]]).filter(mine)
        for table in ("window_contexts", "window_chunks", "hits", "decisions", "contexts")
    )
    if summary.is_empty():
        raise InputError(f"window {window['window_id']} has no context yet; run `backstory run`")
    found = pl.col("chunk_id").is_in(decisions["chunk_id"].unique().to_list())
    named = pl.col("document_id").is_in(decisions["document_id"].unique().to_list())
    names = read_people(workspace).names_in(window["conversation_id"])
    report = make_window_report(
        WindowTables(
            window=window,
            summary=summary.row(0, named=True),
            messages=_name_people(_read_messages(workspace, window), names),
            window_chunks=_name_people(chunks, names),
            hits=hits,
            decisions=decisions,
            contexts=workspace.date_locally(contexts),
            document_chunks=scan_table(workspace.tables, "document_chunks").filter(found).collect(),
            documents=workspace.date_locally(
                scan_table(workspace.tables, "documents").filter(named).select(DOCUMENT_COLUMNS).collect()
            ),
        )
    )
    return replace(report, learned=_describe_learned(workspace, report.summary))


def _name_people(rows: pl.DataFrame, names: Mapping[str, str]) -> pl.DataFrame:
    """Write the people in authors and texts as readers see them."""
    columns = [column for column in ("author", "text") if column in rows.columns]
    return rows.with_columns(
        pl.Series(column, [text and name_people(text, names) for text in rows[column]], dtype=pl.String)
        for column in columns
    )


def _describe_learned(workspace: Workspace, summary: Mapping[str, Any]) -> str:
    """Describe what was learned, if the context was made by the settings and by what is learned today."""
    read = read_by_serving(workspace)
    if digest_json(read, length=16) != summary["settings_hash"]:
        return ""
    learned = read_learned(workspace.learned).of_embedder(workspace.embedder.id)
    return (learned if "rag.document_fit" in read else replace(learned, documents=None)).describe()


def _read_messages(workspace: Workspace, window: Mapping[str, Any]) -> pl.DataFrame:
    wanted = pl.DataFrame({"message_id": window["message_ids"]}, schema={"message_id": pl.String})
    found = read_table(workspace.tables, "messages", [])
    earlier = [key for key in list_partitions(workspace.tables, "messages") if key <= window["partition"]]
    for key in reversed(earlier):  # with an overlap, a window holds messages of earlier partitions
        rows = read_table(workspace.tables, "messages", [key])
        found = pl.concat([found, rows.join(wanted, on="message_id", how="semi")])
        if len(found) == len(wanted):
            return wanted.join(found, on="message_id", maintain_order="left")
    raise InputError(
        f"{len(wanted) - len(found)} messages of window {window['window_id']} are not in the table messages; "
        "run `backstory run`"
    )
