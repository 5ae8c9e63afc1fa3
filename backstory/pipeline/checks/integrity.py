"""Invariants of the stored tables, and of the files of posts; every function returns the rows that break one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from backstory.base.errors import ContractError
from backstory.index.graph import GOOD_RECALL, REMEDY
from backstory.index.snapshot import current_version, read_manifest
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.contracts import validate
from backstory.storage.tables.schemas import TABLES
from backstory.text.languages import english_name, is_known
from backstory.writing.post_files import draft_path
from backstory.writing.posts import PUBLISHED

Partitions = Sequence[str] | None

REFERENCES: Final = (
    ("window_chunks", "windows", ("window_id",)),
    ("document_chunks", "documents", ("document_id", "revision")),
    ("hits", "document_chunks", ("chunk_id",)),
    ("decisions", "hits", ("query_chunk_id", "chunk_id")),
    ("contexts", "decisions", ("window_id", "chunk_id")),
    ("window_contexts", "windows", ("window_id",)),
    ("posts", "windows", ("window_id",)),
)
"""References between tables: child, parent and the columns."""


def find_contract_breaches(workspace: Workspace, table: str, partitions: Partitions = None) -> pl.DataFrame:
    """Check stored rows against the table's contract: columns, types, value ranges, uniqueness."""
    try:
        validate(workspace.tables.read(table, partitions), TABLES[table])
    except ContractError as error:
        return pl.DataFrame({"table": [table], "breach": [str(error)]})
    return pl.DataFrame(schema={"table": pl.String, "breach": pl.String})


def find_orphans(
    workspace: Workspace,
    child: str,
    parent: str,
    on: Sequence[str],
    *,
    partitions: Partitions = None,
    parent_partitions: Partitions = None,
) -> pl.DataFrame:
    """Find rows that refer to a row that does not exist.

    It returns the reference columns of the orphaned rows, each once.
    """
    # The other columns, such as the texts of all documents, are not read.
    known = workspace.tables.read(parent, parent_partitions, columns=on)
    named = workspace.tables.read(child, partitions, columns=on)
    return named.join(known, on=list(on), how="anti").unique().sort(on)


def find_unknown_messages(workspace: Workspace, partitions: Partitions = None) -> pl.DataFrame:
    """Find messages that a window names but that are not stored."""
    named = (
        workspace.tables.read("windows", partitions)
        .select("window_id", message_id="message_ids")
        .explode("message_id")
    )
    known = workspace.tables.read("messages").select("message_id")
    return named.join(known, on="message_id", how="anti")


def find_inexact_chunks(workspace: Workspace) -> pl.DataFrame:
    """Find stored chunks that differ from the slice of their document's text at their offsets."""
    documents = workspace.tables.read("documents").select("document_id", "revision", source="text")
    chunks = workspace.tables.read("document_chunks").join(documents, on=["document_id", "revision"])
    length = pl.col("char_end") - pl.col("char_start")
    exact = pl.col("source").str.slice(pl.col("char_start"), length) == pl.col("text")
    return chunks.filter(~exact).select("chunk_id", "char_start", "char_end")


def find_late_documents(workspace: Workspace, partitions: Partitions = None) -> pl.DataFrame:
    """Find context rows whose document was published after their window began; none unless ``rag.as_of`` is set."""
    contexts = workspace.tables.read("contexts", partitions)
    if not workspace.settings.rag.as_of:
        contexts = contexts.clear()
    starts = workspace.tables.read("windows", partitions).select("window_id", "started_at")
    late = contexts.join(starts, on="window_id").filter(pl.col("published_at") > pl.col("started_at"))
    return late.select("window_id", "document_id", "published_at", "started_at")


def find_unserved_windows(workspace: Workspace, partitions: Partitions = None) -> pl.DataFrame:
    """Find windows that were searched and got no context."""
    contexts = workspace.tables.read("window_contexts", partitions)
    return contexts.filter(pl.col("status") == "no_hits").select(
        "window_id", "query_chunk_count", "hit_count"
    )


def find_insufficient_windows(workspace: Workspace, partitions: Partitions = None) -> pl.DataFrame:
    """Find windows whose context does not cover them, the worst first, with a recommendation for each."""
    contexts = workspace.tables.read("window_contexts", partitions)
    return (
        contexts.filter((pl.col("verdict") == "insufficient") & (pl.col("status") != "disabled"))
        .sort("confidence", "window_id")
        .select("window_id", "confidence", "kept_count", "recommendation")
    )


def find_unjudged_windows(workspace: Workspace, partitions: Partitions = None) -> pl.DataFrame:
    """Find windows without a verdict because the embedder does not know their language."""
    contexts = workspace.tables.read("window_contexts", partitions)
    known = workspace.embedder.languages
    foreign = [language for language in contexts["language"].unique() if not is_known(language, known)]
    return (
        contexts.filter((pl.col("verdict") == "not_known") & pl.col("language").is_in(foreign))
        .sort("language", "window_id")
        .select("window_id", "embedder_id", "recommendation", language=english_name(pl.col("language")))
    )


def find_index_deviations(workspace: Workspace) -> pl.DataFrame:
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


def find_low_recall(workspace: Workspace) -> pl.DataFrame:
    """Check the recall that the HNSW index of the published snapshot had when it was built."""
    recall = read_manifest(workspace.index / current_version(workspace.index)).recall_at_5
    found = pl.DataFrame(
        {"recall_at_5": [recall], "remedy": [REMEDY]},
        schema={"recall_at_5": pl.Float64, "remedy": pl.String},
    )
    return found.filter(pl.col("recall_at_5") < GOOD_RECALL)


def find_unread_lines(workspace: Workspace) -> pl.DataFrame:
    """Return the quarantined lines of all exports."""
    return workspace.tables.read("quarantine")


def find_unread_sources(workspace: Workspace) -> pl.DataFrame:
    """Return the files that wait for a person's decision, or that could not be read."""
    sources = workspace.tables.read("sources")
    unread = sources.filter(pl.col("status").is_in(["set_aside", "failed"]))
    return unread.select("source", "folder", "status", "reason")


def find_unknown_citations(workspace: Workspace, partitions: Partitions = None) -> pl.DataFrame:
    """Find documents that a post cites and that no table holds."""
    cited = (
        workspace.tables.read("posts", partitions, columns=["window_id", "cited_documents"])
        .select("window_id", document_id="cited_documents")
        .explode("document_id")
        .drop_nulls()
    )
    known = workspace.tables.read("documents", columns=["document_id"])
    return cited.join(known, on="document_id", how="anti", maintain_order="left")


def find_absent_files(workspace: Workspace, partitions: Partitions = None) -> pl.DataFrame:
    """Find posts without a file."""
    posts = _read_posts(workspace, partitions)
    there = [(workspace.root / path).is_file() for path in posts["path"]]
    return posts.filter(~pl.Series(there, dtype=pl.Boolean))


def find_drafts_to_merge(workspace: Workspace, partitions: Partitions = None) -> pl.DataFrame:
    """Find posts that a person has edited and that have a later draft."""
    posts = _read_posts(workspace, partitions)
    beside = [draft_path(workspace.root / path).is_file() for path in posts["path"]]
    return posts.filter(pl.Series(beside, dtype=pl.Boolean))


def find_refused_drafts(workspace: Workspace, partitions: Partitions = None) -> pl.DataFrame:
    """Find windows whose writer failed, or whose draft was rejected."""
    posts = workspace.tables.read("posts", partitions)
    return posts.filter(pl.col("status").is_in(["failed", "rejected"])).select(
        "window_id", "status", "reason"
    )


def _read_posts(workspace: Workspace, partitions: Partitions) -> pl.DataFrame:
    posts = workspace.tables.read("posts", partitions)
    return posts.filter(pl.col("status").is_in(PUBLISHED)).select("window_id", "path")


LANGUAGE_REMEDY = "Set embedding.model to multilingual, or embedding.provider to gemini."
"""What to do if the model does not know a language."""

_UNCLEAR = "an unclear language"


def count_languages(workspace: Workspace) -> pl.DataFrame:
    """Count the files and windows of each language.

    ``conversations`` and ``documents`` count files, and ``windows`` windows. ``known`` says whether the embedder knows
    the language. The most frequent language of each comes first.
    """
    files = workspace.tables.read("sources").filter(status="read").select("language", what="folder")
    windows = workspace.tables.read("window_contexts").select("language", what=pl.lit("windows"))
    counts = pl.concat([files, windows]).group_by("what", "language").agg(count=pl.len())
    known = [is_known(language, workspace.embedder.languages) for language in counts["language"]]
    return (
        counts.with_columns(
            english_name(pl.col("language")).fill_null(_UNCLEAR), known=pl.Series(known, dtype=pl.Boolean)
        )
        .select("what", "language", "count", "known")
        .sort("what", "count", "language", descending=[False, True, False])
    )


def describe_languages(counts: pl.DataFrame) -> str:
    """Write counts of languages as one line.

    It gives such as "conversations: 1 in English; windows: 12 in English, 1 in German".
    """
    groups = counts.group_by("what", maintain_order=True).agg(
        pl.format("{} in {}", "count", "language").str.join(", ")
    )
    return "; ".join(f"{what}: {listed}" for what, listed in groups.rows())
