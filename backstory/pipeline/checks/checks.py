"""The checks of a run: what each finds in which table, whether it fails the run, and its message.

A check is named for the cases that it looks for, so that the name fits both a passed and a failed check. The contract
of a table is no check: rows that break it are never written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import polars as pl

from backstory.index.graph import GOOD_RECALL, REMEDY
from backstory.index.snapshot import current_version, read_manifest
from backstory.pipeline.chats.leaks import SEARCHED_COLUMNS, find_leaks
from backstory.pipeline.chats.named_documents import find_shown_names
from backstory.pipeline.run.plan import PARTITIONED, STAGES
from backstory.pipeline.workspace import Workspace
from backstory.text.languages import english_name, is_known
from backstory.writing.post_files import draft_path
from backstory.writing.posts import PUBLISHED

Partitions = Sequence[str] | None
FindCases = Callable[[Workspace, Partitions], pl.DataFrame]

LANGUAGE_REMEDY: Final = "Set embedding.model to multilingual, or embedding.provider to gemini."
"""What to do if the model does not know a language."""


@dataclass(frozen=True)
class Check:
    """One kind of case to find after a table was built.

    Attributes:
        table: The table, or ``search_index``.
        name: Name of the cases, such as ``unread_lines``; unique within the table.
        find: Returns one row per case in the given partitions; None means all partitions.
        what: Description of the cases, as a noun in the plural.
        example: Format string for one case; its fields are the columns of ``find``.
        remedy: Where to look, or what to do.
        blocking: Whether a case fails the run.
        waits: Whether a run that makes one partition after another looks for cases at its end only, since the check
            compares rows with documents, which are in the tables at the end.
    """

    table: str
    name: str
    find: FindCases
    what: str
    example: str
    remedy: str
    blocking: bool = True
    waits: bool = False


def checks_after(table: str) -> list[Check]:
    """Return the checks to run after the stage of a table, including those of tables that it also writes."""
    written_by = {name: stage.table for stage in STAGES for name in (stage.table, *stage.side_outputs)}
    return [check for check in CHECKS if written_by[check.table] == table]


def _remake(table: str) -> str:
    """Return the remedy for stored rows that cannot be right."""
    return f"Delete data/{table} and run `backstory run`."


def _reference(child: str, columns: Mapping[str, str], parent: str, name: str | None = None) -> Check:
    """Check that the rows that a table names, by its columns and those of the other table, are stored."""

    def find(workspace: Workspace, partitions: Partitions) -> pl.DataFrame:
        # The other columns, such as the texts of all documents, are not read. Windows overlap into the day before.
        is_whole = parent not in PARTITIONED or parent == "messages"
        known = workspace.tables.read(parent, None if is_whole else partitions, columns=[*columns.values()])
        place = [] if child not in PARTITIONED or "window_id" in columns else ["window_id"]
        named = workspace.tables.read(child, partitions, columns=[*place, *columns]).rename(dict(columns))
        for column in columns.values():
            if isinstance(named.schema[column], pl.List):
                named = named.explode(column).drop_nulls(column)
        orphans = named.join(known, on=[*columns.values()], how="anti")
        return orphans.unique([*columns.values()], keep="first", maintain_order=True)

    return Check(
        table=child,
        name=name or f"unknown_{parent}",
        find=find,
        what=f"rows of {child} that name a row of {parent} that is not stored",
        example=", ".join(f"{column} {{{column}}}" for column in columns.values()),
        remedy=_remake(child),
        waits=parent in ("document_chunks", "documents"),
    )


def _real_names(table: str) -> Check:
    return Check(
        table=table,
        name="real_names",
        find=lambda workspace, partitions: find_leaks(workspace, table, partitions),
        what="cells that hold an author's real name",
        example="column {column} of window {window_id}" if table in PARTITIONED else "column {column}",
        remedy="Look for the name in the documents of its context and in the prompt of the writer."
        if table == "posts"
        else _remake(table),
    )


def _find_later_documents(workspace: Workspace, partitions: Partitions) -> pl.DataFrame:
    contexts = workspace.tables.read("contexts", partitions)
    starts = workspace.tables.read("windows", partitions).select("window_id", "started_at")
    late = contexts.join(starts, on="window_id").filter(
        pl.lit(workspace.settings.rag.as_of) & (pl.col("published_at") > pl.col("started_at"))
    )
    return late.select("window_id", "document_id", "published_at", "started_at")


def _find_index_deviations(workspace: Workspace, _: Partitions) -> pl.DataFrame:
    """Compare the counts of the published index with those of the tables that it was built from."""
    manifest = read_manifest(workspace.index / current_version(workspace.index))
    searched = workspace.tables.read("documents").filter(pl.col("status") == "ok")
    chunks = workspace.tables.read("document_chunks")
    indexed = chunks.join(searched, on=["document_id", "revision"], how="semi")
    counts = pl.DataFrame(
        {
            "what": ["documents", "document_chunks"],
            "indexed": [manifest.documents, manifest.rows],
            "stored": [len(searched), len(indexed)],
        }
    )
    return counts.filter(pl.col("indexed") != pl.col("stored"))


def _find_low_recall(workspace: Workspace, _: Partitions) -> pl.DataFrame:
    recall = read_manifest(workspace.index / current_version(workspace.index)).recall_at_5
    found = pl.DataFrame({"recall_at_5": [recall]}, schema={"recall_at_5": pl.Float64})
    return found.filter(pl.col("recall_at_5") < GOOD_RECALL).with_columns(remedy=pl.lit(REMEDY))


def _find_unread_files(workspace: Workspace, _: Partitions) -> pl.DataFrame:
    sources = workspace.tables.read("sources").filter(pl.col("status").is_in(["set_aside", "failed"]))
    return sources.select("source", "folder", "status", "reason")


def _find_unserved_windows(workspace: Workspace, partitions: Partitions) -> pl.DataFrame:
    contexts = workspace.tables.read("window_contexts", partitions).filter(status="no_hits")
    return contexts.select("window_id", "query_chunk_count", "hit_count")


def _find_insufficient_windows(workspace: Workspace, partitions: Partitions) -> pl.DataFrame:
    """Find windows whose context does not cover them, the worst first, with a recommendation for each."""
    contexts = workspace.tables.read("window_contexts", partitions).filter(verdict="insufficient")
    worst = contexts.filter(pl.col("status") != "disabled").sort("confidence", "window_id")
    return worst.select("window_id", "confidence", "kept_count", "recommendation")


def _find_unjudged_windows(workspace: Workspace, partitions: Partitions) -> pl.DataFrame:
    contexts = workspace.tables.read("window_contexts", partitions).filter(verdict="not_known")
    known = workspace.embedder.languages
    foreign = [language for language in contexts["language"].unique() if not is_known(language, known)]
    unjudged = contexts.filter(pl.col("language").is_in(foreign)).sort("language", "window_id")
    return unjudged.select(
        "window_id", "embedder_id", "recommendation", language=english_name(pl.col("language"))
    )


def _find_refused_drafts(workspace: Workspace, partitions: Partitions) -> pl.DataFrame:
    posts = workspace.tables.read("posts", partitions).select("window_id", "status", "reason")
    return posts.filter(pl.col("status").is_in(["failed", "rejected"]))


def _find_posts(
    workspace: Workspace, partitions: Partitions, is_found: Callable[[str], bool]
) -> pl.DataFrame:
    """Find published posts by the paths of their files."""
    posts = workspace.tables.read("posts", partitions).filter(pl.col("status").is_in(PUBLISHED))
    found = pl.Series([is_found(path) for path in posts["path"]], dtype=pl.Boolean)
    return posts.filter(found).select("window_id", "path")


def _find_absent_files(workspace: Workspace, partitions: Partitions) -> pl.DataFrame:
    return _find_posts(workspace, partitions, lambda path: not (workspace.root / path).is_file())


def _find_drafts_to_merge(workspace: Workspace, partitions: Partitions) -> pl.DataFrame:
    return _find_posts(workspace, partitions, lambda path: draft_path(workspace.root / path).is_file())


_warn = partial(Check, blocking=False)
_DRAWN: Final = "`backstory report WINDOW_ID` draws what each part of a window found."

CHECKS: Final = (
    _reference("window_chunks", {"window_id": "window_id"}, "windows"),
    _reference("document_chunks", {"document_id": "document_id", "revision": "revision"}, "documents"),
    _reference("hits", {"chunk_id": "chunk_id"}, "document_chunks"),
    _reference("decisions", {"query_chunk_id": "query_chunk_id", "chunk_id": "chunk_id"}, "hits"),
    _reference("contexts", {"window_id": "window_id", "chunk_id": "chunk_id"}, "decisions"),
    _reference("window_contexts", {"window_id": "window_id"}, "windows"),
    _reference("posts", {"window_id": "window_id"}, "windows"),
    _reference("windows", {"message_ids": "message_id"}, "messages"),
    _reference("posts", {"cited_documents": "document_id"}, "documents", "unknown_citations"),
    Check(
        table="messages",
        name="real_names",
        find=lambda workspace, partitions: find_leaks(workspace, "messages", partitions),
        what="cells that hold what must not be there (a real name, a message of someone who opted out, contact data)",
        example="column {column} of message {message_id}",
        remedy="Run `backstory run` without --from and --to to rebuild every day.",
    ),
    *map(_real_names, SEARCHED_COLUMNS),
    Check(
        table="contexts",
        name="later_documents",
        find=_find_later_documents,
        what="rows that show a document published after their window began",
        example="document {document_id} of {published_at} in window {window_id} of {started_at}",
        remedy="Delete data/hits and run `backstory run`; `rag: {as_of: false}` allows later documents.",
    ),
    _warn(
        table="contexts",
        name="shown_names",
        find=lambda workspace, _: find_shown_names(workspace),
        what="documents of which readers see names of members, in the path or the text",
        example="{uri} ({names} names in its text)",
        remedy="Rename the file; `privacy: {documents: replace}` replaces names in texts.",
    ),
    _warn(
        table="quarantine",
        name="unread_lines",
        find=lambda workspace, _: workspace.tables.read("quarantine"),
        what="lines or records of chat exports that could not be read",
        example="{source} line {line}: {reason}",
        remedy="The table quarantine lists all of them.",
    ),
    _warn(
        table="sources",
        name="unread_files",
        find=_find_unread_files,
        what="files that were set aside or could not be read",
        example="{source}",
        remedy="The table sources says why, and what to do.",
    ),
    _warn(
        table="window_contexts",
        name="windows_without_context",
        find=_find_unserved_windows,
        what="windows that were searched and got no context",
        example="window {window_id} asked with {query_chunk_count} query chunks and got {hit_count} hits",
        remedy=_DRAWN,
    ),
    _warn(
        table="window_contexts",
        name="insufficient_contexts",
        find=_find_insufficient_windows,
        what="windows of which the context serves at most one tenth",
        example="window {window_id}: {recommendation}",
        remedy=_DRAWN,
    ),
    _warn(
        table="window_contexts",
        name="windows_in_unknown_languages",
        find=_find_unjudged_windows,
        what="windows without a verdict, since the model does not know their language",
        example="window {window_id} is in {language}",
        remedy=LANGUAGE_REMEDY,
    ),
    Check(
        table="search_index",
        name="chunks_beside_the_index",
        find=_find_index_deviations,
        what="counts in which the published index and the tables differ",
        example="{indexed} {what} are indexed and {stored} are stored",
        remedy="Delete index/CURRENT and run `backstory run`.",
        waits=True,
    ),
    _warn(
        table="search_index",
        name="low_recall",
        find=_find_low_recall,
        what="approximate indexes that miss too many of the best hits",
        example="recall@5 {recall_at_5:.3f}; {remedy}",
        remedy="`backstory doctor` measures it, too.",
    ),
    Check(
        table="posts",
        name="absent_files",
        find=_find_absent_files,
        what="posts whose file is not there",
        example="{path} of window {window_id}",
        remedy="`backstory run` writes it again.",
    ),
    _warn(
        table="posts",
        name="refused_drafts",
        find=_find_refused_drafts,
        what="windows without a post, since the writer failed or its draft was rejected",
        example="window {window_id} is {status}: {reason}",
        remedy="The next run asks again where the writer failed; a rejected draft stays until the window, its "
        "context, the prompt, the model or a setting changes.",
    ),
    _warn(
        table="posts",
        name="drafts_to_merge",
        find=_find_drafts_to_merge,
        what="posts that a person has edited and that have a later draft",
        example="{path} of window {window_id}",
        remedy="Copy what you want from the file that ends in .draft.md, and delete that file.",
    ),
)
"""All checks."""
