"""Invariants of the written posts and their files; every function returns the rows that break one of them."""

from __future__ import annotations

import polars as pl

from backstory.pipeline.checks.integrity import Partitions
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.parquet import read_table
from backstory.writing.post_files import draft_path
from backstory.writing.posts import PUBLISHED


def find_unknown_citations(workspace: Workspace, partitions: Partitions = None) -> pl.DataFrame:
    """Find documents that a post cites and that no table holds."""
    cited = (
        read_table(workspace.tables, "posts", partitions, columns=["window_id", "cited_documents"])
        .select("window_id", document_id="cited_documents")
        .explode("document_id")
        .drop_nulls()
    )
    known = read_table(workspace.tables, "documents", columns=["document_id"])
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
    posts = read_table(workspace.tables, "posts", partitions)
    return posts.filter(pl.col("status").is_in(["failed", "rejected"])).select(
        "window_id", "status", "reason"
    )


def _read_posts(workspace: Workspace, partitions: Partitions) -> pl.DataFrame:
    posts = read_table(workspace.tables, "posts", partitions)
    return posts.filter(pl.col("status").is_in(PUBLISHED)).select("window_id", "path")
