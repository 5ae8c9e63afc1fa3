"""Documents whose texts the embedding service refuses: failed files until they, or the model, change."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import polars as pl

from backstory.base.ids import digest
from backstory.ingest.documents.folder import DocumentRead
from backstory.ingest.documents.written import name_source
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.catalog import Entry

_REFUSED: Final = "refused_documents"


def record_refusal(workspace: Workspace, uri: str, revision: str, reason: str) -> None:
    """Record that the embedder of the workspace refuses a text of a revision of a document."""
    entry = Entry(_name_refused(workspace, revision), reason, 0)
    workspace.catalog.record(_REFUSED, {uri: entry})


def hash_refusals(workspace: Workspace) -> str:
    """Hash what :func:`leave_out_refused` depends on besides the documents; empty if nothing was ever refused."""
    refused = workspace.catalog.read(_REFUSED)
    if not refused:
        return ""
    return digest(
        [workspace.embedder.id, *(f"{uri} {entry.inputs}" for uri, entry in sorted(refused.items()))]
    )


def leave_out_refused(workspace: Workspace, read: DocumentRead, folder: str) -> DocumentRead:
    """Drop documents whose text the embedder refuses; their files are ``failed`` in ``sources``, with the reason.

    Args:
        workspace: An open workspace.
        read: All documents.
        folder: The folder of documents as ``sources`` names it.
    """
    refused = workspace.catalog.read(_REFUSED)
    served = read.documents.filter(pl.col("status") == "ok", pl.col("uri").is_in(list(refused)))
    reasons = {
        name_source(folder, uri): refused[uri].content
        for uri, revision in served.select("uri", "revision").iter_rows()
        if refused[uri].inputs == _name_refused(workspace, revision)
    }
    if not reasons:
        return read
    names = pl.Series([name_source(folder, uri) for uri in read.documents["uri"]], dtype=pl.String)
    is_refused = pl.col("source").is_in(list(reasons))
    return replace(
        read,
        documents=read.documents.filter(~names.is_in(list(reasons))),
        sources=read.sources.with_columns(
            status=pl.when(is_refused).then(pl.lit("failed")).otherwise("status"),
            reason=pl.when(is_refused)
            .then(pl.col("source").replace_strict(reasons, default=None, return_dtype=pl.String))
            .otherwise("reason"),
            rows=pl.when(is_refused).then(pl.lit(0)).otherwise("rows").cast(read.sources.schema["rows"]),
        ),
    )


def _name_refused(workspace: Workspace, revision: str) -> str:
    return digest([workspace.embedder.id, revision])
