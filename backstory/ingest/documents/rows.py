"""The rows of a document: its revisions in the table ``documents``, and the status of its file in ``sources``."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import polars as pl

from backstory.base.ids import WRITTEN_PREFIX
from backstory.ingest.documents.files import name_source
from backstory.ingest.documents.parsed_document import DocumentFormat
from backstory.storage.tables.schemas import Sources
from backstory.text.encoding import describe_encoding

Row: TypeAlias = dict[str, Any]
"""One row of the table ``documents``; see :class:`backstory.storage.tables.schemas.Documents`."""
_STATUS_ORDER: Final = ("ok", "error", "deleted", "superseded")


@dataclass(frozen=True)
class Outcome:
    """What became of a file, and why it is not fully read; ``row`` is its current revision if it is a document."""

    uri: str
    status: str
    reason: str | None
    reader: DocumentFormat | None = None
    row: Row | None = None


def update_revisions(known: pl.DataFrame, current: pl.DataFrame, kept: Collection[str]) -> pl.DataFrame:
    """Update the statuses of revisions after all files were read.

    A readable content is ``ok`` and supersedes all others of its file. An unreadable content is ``error``, and the
    ``ok`` revision stays. When a file is gone, its last ``ok`` revision becomes ``deleted``, or the ``error`` revision
    if there was none, and the texts of all revisions are dropped. So each status except ``superseded`` has at most one
    revision. ``known`` and ``current`` are tables ``documents``: all earlier revisions, and one for each file that was
    read. ``kept``: uris of documents whose earlier revisions stay as they are.

    It returns all revisions by uri, ``superseded`` ones last.
    """
    rank = pl.col("status").replace_strict(_STATUS_ORDER, range(len(_STATUS_ORDER)))
    is_kept, outcome = pl.col("uri").is_in(kept), pl.col("outcome")
    is_gone = outcome.is_null() & ~is_kept
    is_last = rank == rank.min().over("uri")
    status = (
        pl.when(is_kept | ((outcome == "error") & (pl.col("status") == "ok")))
        .then("status")
        .when(is_gone & is_last)
        .then(pl.lit("deleted"))
        .otherwise(pl.lit("superseded"))
    )
    updated = (
        known.join(current.select("uri", outcome="status"), on="uri", how="left")
        .with_columns(status=status, text=pl.when(is_gone).then(pl.lit("")).otherwise("text"))
        .drop("outcome")
        .join(current, on=["uri", "revision"], how="anti")
    )
    return pl.concat([updated, current]).sort("uri", rank, "revision")


def drop_former_posts(documents: pl.DataFrame) -> pl.DataFrame:
    """Drop earlier revisions and tombstones of written posts: what Backstory wrote before is no history to keep."""
    is_former = pl.col("status").is_in(["superseded", "deleted"])
    return documents.filter(~(is_former & pl.col("uri").str.starts_with(WRITTEN_PREFIX)))


UNDATED = "it states no date; `rag: {undated: hide}` keeps such documents from all windows"
DRAFT = "draft; `documents: {drafts: true}` serves drafts, too"


def list_sources(found: Iterable[Outcome], folder: str, *, mentions_undated: bool = True) -> pl.DataFrame:
    """Build the rows of the documents in the table ``sources``.

    It returns table :class:`~backstory.storage.tables.schemas.Sources`, by ``source``. A folder's ends with ``/``.
    """
    rows = []
    for entry in found:
        read: Row = entry.row if entry.row is not None and entry.status == "read" else {}
        date = read.get("published_at")
        reasons = [entry.reason, read.get("unread"), describe_encoding(read.get("encoding"))]
        reasons += [UNDATED] if read and mentions_undated and date is None else []
        rows.append(
            {
                "source": name_source(folder, entry.uri),
                "folder": "documents",
                "status": entry.status,
                "format": entry.reader.name if entry.reader else None,
                "reason": "; ".join(filter(None, reasons)) or None,
                "rows": int(entry.status == "read"),
                "unread": 0,
                "first": date,
                "last": date,
                "encoding": read.get("encoding"),
                "language": read.get("language"),
            }
        )
    return pl.DataFrame(rows, schema=Sources.schema).sort("source")


def list_foreign(documents: pl.DataFrame, tenant: str | None) -> frozenset[str]:
    """List the uris of documents that state another tenant than that of ``rag.tenant``; None serves all of them."""
    if tenant is None:
        return frozenset()
    own = documents.filter(pl.col("tenant") == tenant)["uri"]
    return frozenset(documents.filter(pl.col("tenant") != "")["uri"]) - frozenset(own)
