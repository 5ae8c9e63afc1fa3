"""The checks of a run: what each finds in which table, whether it fails the run, and its message.

A check is named for the cases that it looks for, so that the name fits both a passed and a failed check.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import polars as pl

from backstory.pipeline.chats.leaks import (
    SEARCHED_COLUMNS,
    find_names,
    find_privacy_breaches,
)
from backstory.pipeline.chats.named_documents import find_shown_names
from backstory.pipeline.checks import integrity
from backstory.pipeline.checks.integrity import LANGUAGE_REMEDY
from backstory.pipeline.run.plan import PARTITIONED, STAGES
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.schemas import TABLES

FindCases = Callable[[Workspace, Sequence[str] | None], pl.DataFrame]


@dataclass(frozen=True)
class Check:
    """One kind of case to find after a table was built.

    Attributes:
        table: The table, or ``search_index``.
        name: Name of the cases, such as ``unread_lines``; unique within the table.
        blocking: Whether a case fails the run.
        find: Returns one row per case in the given partitions; None means all partitions.
        what: Description of the cases, as a noun in the plural.
        example: Format string for one case; its fields are the columns of ``find``.
        remedy: Where to look, or what to do.
        share_of_rows: Whether the message gives the number of checked rows, too.
        waits: Whether a run that makes one partition after another looks for cases at its end only: rows pass the check
            before they are written, or it compares them with documents, which are in the tables at the end.
    """

    table: str
    name: str
    blocking: bool
    find: FindCases
    what: str
    example: str
    remedy: str
    share_of_rows: bool = False
    waits: bool = False


def checks_after(table: str) -> list[Check]:
    """Return the checks to run after the stage of a table, including those of tables that it also writes."""
    written_by = {name: stage.table for stage in STAGES for name in (stage.table, *stage.side_outputs)}
    return [check for check in CHECKS if written_by[check.table] == table]


def _remake(table: str) -> str:
    """Return the remedy for stored rows that cannot be right."""
    return f"Delete data/{table} and run `backstory run`."


def _contract(table: str) -> Check:
    return Check(
        table=table,
        name="contract_breaches",
        blocking=True,
        find=lambda workspace, partitions: integrity.find_contract_breaches(workspace, table, partitions),
        what="breaches of the table's contract: columns, types, value ranges, unique rows",
        example="{breach}",
        remedy=_remake(table),
        waits=True,
    )


def _reference(child: str, parent: str, on: Sequence[str]) -> Check:
    return Check(
        table=child,
        name=f"unknown_{parent}",
        blocking=True,
        find=lambda workspace, partitions: integrity.find_orphans(
            workspace,
            child,
            parent,
            on,
            partitions=partitions,
            parent_partitions=partitions if parent in PARTITIONED else None,
        ),
        what=f"rows of {child} that name a row of {parent} that is not stored",
        example=", ".join(f"{column} {{{column}}}" for column in on),
        remedy=_remake(child),
        waits=parent == "document_chunks",
    )


def _real_names(table: str) -> Check:
    has_windows = "window_id" in TABLES[table].schema
    return Check(
        table=table,
        name="real_names",
        blocking=True,
        find=lambda workspace, partitions: find_names(workspace, table, partitions),
        what="cells that hold an author's real name",
        example="column {column} of window {window_id}" if has_windows else "column {column}",
        remedy="Look for the name in the documents of its context and in the prompt of the writer."
        if table == "posts"
        else _remake(table),
    )


def _whole(find: Callable[[Workspace], pl.DataFrame]) -> FindCases:
    return lambda workspace, _partitions: find(workspace)


_warn_of_windows = partial(Check, table="window_contexts", blocking=False, share_of_rows=True)
_warn_of_posts = partial(Check, table="posts", blocking=False, share_of_rows=True)

CHECKS: Final = (
    *map(_contract, TABLES),
    *(_reference(child, parent, on) for child, parent, on in integrity.REFERENCES),
    Check(
        table="messages",
        name="real_names",
        blocking=True,
        find=find_privacy_breaches,
        what="cells that hold what must not be there (a real name, a message of someone who opted out, contact data)",
        example="column {column} of message {message_id}",
        remedy="Run `backstory run` without --from and --to to rebuild every day.",
    ),
    *map(_real_names, SEARCHED_COLUMNS),
    Check(
        table="windows",
        name="unknown_messages",
        blocking=True,
        find=integrity.find_unknown_messages,
        what="messages of a window that are not stored",
        example="message {message_id} of window {window_id}",
        remedy=_remake("windows"),
    ),
    Check(
        table="contexts",
        name="later_documents",
        blocking=True,
        find=integrity.find_late_documents,
        what="rows that show a document published after their window began",
        example="document {document_id} of {published_at} in window {window_id} of {started_at}",
        remedy="Delete data/hits and run `backstory run`; `rag: {as_of: false}` allows later documents.",
    ),
    Check(
        table="contexts",
        name="shown_names",
        blocking=False,
        find=_whole(find_shown_names),
        what="documents of which readers see names of members, in the path or the text",
        example="{uri} ({names} names in its text)",
        remedy="Rename the file; `privacy: {documents: replace}` replaces names in texts.",
    ),
    Check(
        table="document_chunks",
        name="inexact_slices",
        blocking=True,
        find=_whole(integrity.find_inexact_chunks),
        what="chunks that are not the slice of their document's text that they name",
        example="{chunk_id}, characters {char_start} to {char_end}",
        remedy=_remake("document_chunks"),
    ),
    Check(
        table="quarantine",
        name="unread_lines",
        blocking=False,
        find=_whole(integrity.find_unread_lines),
        what="lines or records of chat exports that could not be read",
        example="{source} line {line}: {reason}",
        remedy="The table quarantine lists all of them.",
    ),
    Check(
        table="sources",
        name="unread_files",
        blocking=False,
        find=_whole(integrity.find_unread_sources),
        what="files that were set aside or could not be read",
        example="{source}",
        remedy="The table sources says why, and what to do.",
    ),
    _warn_of_windows(
        name="windows_without_context",
        find=integrity.find_unserved_windows,
        what="windows that were searched and got no context",
        example="window {window_id} asked with {query_chunk_count} query chunks and got {hit_count} hits",
        remedy="`backstory report WINDOW_ID` draws what each part of a window found.",
    ),
    _warn_of_windows(
        name="insufficient_contexts",
        find=integrity.find_insufficient_windows,
        what="windows of which the context serves at most one tenth",
        example="window {window_id}: {recommendation}",
        remedy="`backstory report WINDOW_ID` draws what each part of a window found.",
    ),
    _warn_of_windows(
        name="windows_in_unknown_languages",
        find=integrity.find_unjudged_windows,
        what="windows without a verdict, since the model does not know their language",
        example="window {window_id} is in {language}",
        remedy=LANGUAGE_REMEDY,
    ),
    Check(
        table="search_index",
        name="chunks_beside_the_index",
        blocking=True,
        find=_whole(integrity.find_index_deviations),
        what="counts in which the published index and the tables differ",
        example="{indexed} {what} are indexed and {stored} are stored",
        remedy="Delete index/CURRENT and run `backstory run`.",
    ),
    Check(
        table="search_index",
        name="low_recall",
        blocking=False,
        find=_whole(integrity.find_low_recall),
        what="approximate indexes that miss too many of the best hits",
        example="recall@5 {recall_at_5:.3f}; {remedy}",
        remedy="`backstory doctor` measures it, too.",
    ),
    Check(
        table="posts",
        name="unknown_citations",
        blocking=True,
        find=integrity.find_unknown_citations,
        what="cited documents that are not stored",
        example="document {document_id} in the post of window {window_id}",
        remedy=_remake("posts"),
        waits=True,
    ),
    Check(
        table="posts",
        name="absent_files",
        blocking=True,
        find=integrity.find_absent_files,
        what="posts whose file is not there",
        example="{path} of window {window_id}",
        remedy="`backstory run` writes it again.",
    ),
    _warn_of_posts(
        name="refused_drafts",
        find=integrity.find_refused_drafts,
        what="windows without a post, since the writer failed or its draft was rejected",
        example="window {window_id} is {status}: {reason}",
        remedy="The next run asks again where the writer failed; a rejected draft stays until the window, its "
        "context, the prompt, the model or a setting changes.",
    ),
    _warn_of_posts(
        name="drafts_to_merge",
        find=integrity.find_drafts_to_merge,
        what="posts that a person has edited and that have a later draft",
        example="{path} of window {window_id}",
        remedy="Copy what you want from the file that ends in .draft.md, and delete that file.",
    ),
)
"""All checks."""
