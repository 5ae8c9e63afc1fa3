"""Reads the rows of one window from a workspace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from typing import Any, Final

import polars as pl

from backstory.base.errors import InputError
from backstory.base.ids import digest_json
from backstory.interfaces.pages.report.window_report import WindowReport
from backstory.interfaces.pages.report.window_tables import WindowTables, make_window_report
from backstory.operations.inspection.windows import find_window
from backstory.pipeline.chats.named_documents import list_unlinked, make_contact_scrub, make_page_view
from backstory.pipeline.chats.people import read_people
from backstory.pipeline.incremental.inputs import values_read_by
from backstory.pipeline.workspace import Workspace
from backstory.retrieval.evidence.learned import read_learned
from backstory.storage.tables.contracts import empty
from backstory.storage.tables.schemas import Messages
from backstory.text.people import ShowText, name_people

DOCUMENT_COLUMNS = ("document_id", "revision", "uri", "title", "published_at", "status")
_KEPT: Final = 16
"""Partitions of tables that are kept while windows follow each other: those of a day, and some before."""


class ReportTables:
    """The tables that the reports of windows are read from: each file once for windows that follow each other.

    Args:
        workspace: A workspace with tables.
    """

    def __init__(self, workspace: Workspace) -> None:
        self.read = lru_cache(maxsize=_KEPT)(self._read)
        self.scrub = make_contact_scrub(workspace)
        self._workspace = workspace
        self._tables = workspace.tables

    @cached_property
    def document_chunks(self) -> pl.DataFrame:
        """Table ``document_chunks``."""
        return self._tables.read("document_chunks")

    @cached_property
    def documents(self) -> pl.DataFrame:
        """The columns :data:`DOCUMENT_COLUMNS` of table ``documents``; no uri where it names members."""
        is_linked = ~pl.col("document_id").is_in(list_unlinked(self._workspace))
        rows = self._tables.read("documents", columns=DOCUMENT_COLUMNS)
        return rows.with_columns(uri=pl.when(is_linked).then("uri"))

    @cached_property
    def days(self) -> list[str]:
        """The partitions of table ``messages``."""
        return self._tables.keys("messages")

    @cached_property
    def show(self) -> ShowText:
        """Shows a text of a document as pages do."""
        windows = self._tables.read("windows", columns=("window_id", "conversation_id"))
        return make_page_view(self._workspace, dict(windows.iter_rows()))

    def _read(self, table: str, partition: str) -> pl.DataFrame:
        return self._tables.read(table, [partition])


def read_window_report(workspace: Workspace, window_id: str) -> WindowReport:
    """Read the report of a window.

    Args:
        workspace: A workspace with tables.
        window_id: Id of the window, or a unique beginning of it.

    Raises:
        InputError: There is no such window, it has no context yet, or its messages are no longer stored.
    """
    return read_report(workspace, find_window(workspace, window_id), ReportTables(workspace))


def read_report(workspace: Workspace, window: Mapping[str, Any], tables: ReportTables) -> WindowReport:
    """Read the report of a window whose row is at hand.

    Args:
        workspace: A workspace with tables.
        window: From :func:`backstory.operations.inspection.windows.find_window`.
        tables: The tables of the workspace.

    Raises:
        InputError: It has no context yet, or its messages are no longer stored.
    """
    mine = pl.col("window_id") == window["window_id"]
    summary, chunks, hits, decisions, contexts = (
        tables.read(table, window["partition"]).filter(mine)
        for table in ("window_contexts", "window_chunks", "hits", "decisions", "contexts")
    )
    if summary.is_empty():
        raise InputError(f"window {window['window_id']} has no context yet; run `backstory run`")
    found = pl.col("chunk_id").is_in(decisions["chunk_id"].unique().to_list())
    named = pl.col("document_id").is_in(decisions["document_id"].unique().to_list())
    names = read_people(workspace).names_in(window["conversation_id"])

    def show_message(_: str, text: str) -> str:
        return tables.scrub(name_people(text, names))

    show_document = partial(tables.show, window["window_id"])
    report = make_window_report(
        WindowTables(
            window=window,
            summary=summary.row(0, named=True),
            messages=_show(_read_messages(tables, window), "message_id", show_message, "author", "text"),
            window_chunks=_show(chunks, "chunk_id", show_message, "text"),
            hits=hits,
            decisions=decisions,
            contexts=_show(
                workspace.date_locally(contexts), "document_id", show_document, "title", "content"
            ),
            document_chunks=_show(
                tables.document_chunks.filter(found), "document_id", show_document, "heading", "text"
            ),
            documents=_show(
                workspace.date_locally(tables.documents.filter(named)), "document_id", show_document, "title"
            ),
        )
    )
    return replace(report, learned=_describe_learned(workspace, report.summary))


def _show(rows: pl.DataFrame, key: str, show: Callable[[str, str], str], *columns: str) -> pl.DataFrame:
    """Write the texts of columns as readers see them, by the id of what holds them."""
    return rows.with_columns(
        pl.Series(
            column,
            [text and show(id_, text) for id_, text in rows.select(key, column).iter_rows()],
            dtype=pl.String,
        )
        for column in columns
    )


def _describe_learned(workspace: Workspace, summary: Mapping[str, Any]) -> str:
    """Describe what was learned, if the context was made by the settings and by what is learned today."""
    read = values_read_by(workspace, "window_contexts")
    if digest_json(read, length=16) != summary["settings_hash"]:
        return ""
    learned = read_learned(workspace.learned)
    return learned.describe() if learned is not None and "rag.document_fit" in read else ""


def _read_messages(tables: ReportTables, window: Mapping[str, Any]) -> pl.DataFrame:
    wanted = pl.DataFrame({"message_id": window["message_ids"]}, schema={"message_id": pl.String})
    found = empty(Messages)
    earlier = [key for key in tables.days if key <= window["partition"]]
    for key in reversed(earlier):  # with an overlap, a window holds messages of earlier partitions
        rows = tables.read("messages", key)
        found = pl.concat([found, rows.join(wanted, on="message_id", how="semi")])
        if len(found) == len(wanted):
            return wanted.join(found, on="message_id", maintain_order="left")
    raise InputError(
        f"{len(wanted) - len(found)} messages of window {window['window_id']} are not in the table messages; "
        "run `backstory run`"
    )
