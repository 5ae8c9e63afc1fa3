"""A labelled retrieval set: documents, windows, and the relevant documents of each window."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from backstory.base.errors import InputError
from backstory.base.ids import digest
from backstory.storage.tables import schemas
from backstory.storage.tables.contracts import Table, conform, empty

_TIME = pl.Datetime("us", "UTC")
_COLUMNS: dict[str, dict[str, pl.DataType | type[pl.DataType]]] = {
    "docs": {
        "doc_id": pl.String,
        "title": pl.String,
        "text": pl.String,
        "tags": pl.List(pl.String),
        "date": _TIME,
    },
    "windows": {
        "window_id": pl.String,
        "msg_no": pl.Int64,
        "author": pl.String,
        "message": pl.String,
        "timestamp": _TIME,
    },
    "qrels": {"window_id": pl.String, "doc_id": pl.String, "rel": pl.Int64, "topic": pl.String},
    "msg_topics": {"window_id": pl.String, "msg_no": pl.Int64, "topic": pl.String},
}
_MESSAGE_ID = (pl.col("window_id") + "#" + pl.col("msg_no").cast(pl.String)).alias("message_id")


@dataclass(frozen=True)
class LabelledSet:
    """The set in the library's own tables. A conversation is one window, and ids are those of the set."""

    name: str
    documents: pl.DataFrame
    messages: pl.DataFrame
    windows: pl.DataFrame
    qrels: pl.DataFrame
    """``window_id``, ``doc_id``, ``rel`` (1 or 2), ``topic``, and ``answer``: words that must be shown, or null."""
    message_topics: pl.DataFrame | None
    """``message_id`` and ``topic``; None without ``msg_topics.parquet``."""


def read_labelled_set(folder: Path) -> LabelledSet:
    """Read a set of ``docs.parquet``, ``windows.parquet`` and ``qrels.parquet``, in the order of the ids.

    ``msg_topics.parquet`` (``window_id``, ``msg_no``, ``topic``) may give the topics of messages, and a column
    ``answer`` of ``qrels.parquet`` what a document must show.
    """
    docs, windows, qrels = (_read(folder, name) for name in ("docs", "windows", "qrels"))
    messages, starts = make_windows(windows)
    answer = pl.col("answer") if "answer" in qrels.columns else pl.lit(None, dtype=pl.String).alias("answer")
    relevant = qrels.filter(pl.col("rel") > 0).with_columns(answer)
    _check_references(folder, starts, docs, relevant)
    topics = None
    if (folder / "msg_topics.parquet").is_file():
        topics = _read(folder, "msg_topics").select(_MESSAGE_ID, pl.col("topic").fill_null(""))
    return LabelledSet(folder.name, _make_documents(docs), messages, starts, relevant, topics)


def make_windows(rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Make the tables ``messages`` and ``windows`` of rows as ``windows.parquet`` holds them."""
    messages = _fill(
        schemas.Messages,
        rows.sort("window_id", "timestamp", "msg_no").select(
            _MESSAGE_ID,
            "author",
            "timestamp",
            conversation_id="window_id",
            local_time=pl.col("timestamp").dt.replace_time_zone(None),
            timezone=pl.lit("UTC"),
            seq="msg_no",
            text="message",
            kind=pl.lit("message"),
            source=pl.lit("windows.parquet"),
            reactions=pl.lit([]),
            edited=pl.lit(value=False),
        ),
    )
    starts = messages.group_by(window_id="conversation_id", maintain_order=True).agg(
        conversation_id=pl.col("conversation_id").first(),
        started_at=pl.col("timestamp").min(),
        ended_at=pl.col("timestamp").max(),
        timezone=pl.col("timezone").first(),
        partition=pl.col("timestamp").min().dt.strftime("%Y-%m-%d"),
        message_count=pl.len(),
        message_ids=pl.col("message_id"),
        token_count=pl.lit(0),
    )
    return messages, _fill(schemas.Windows, starts)


def _make_documents(docs: pl.DataFrame) -> pl.DataFrame:
    contents = pl.struct("title", "text").map_elements(
        lambda row: digest([row["title"] or "", row["text"] or ""]), return_dtype=pl.String
    )
    table = docs.sort("doc_id").select(
        pl.col("doc_id").alias("document_id"),
        pl.col("title", "text").fill_null(""),
        pl.col("tags").fill_null([]),
        revision=pl.lit("1"),
        uri="doc_id",
        slug="doc_id",
        published_at="date",
        date_origin=pl.when(pl.col("date").is_not_null()).then(pl.lit("stated")),
        kind=pl.lit("post"),
        tenant=pl.lit(""),
        format=pl.lit("markdown"),
        page_starts=pl.lit([], dtype=pl.List(pl.Int64)),
        confidences=pl.lit([], dtype=pl.List(pl.Float64)),
        chunker=pl.lit("markdown"),
        content_hash=contents,
        status=pl.lit("ok"),
    )
    return _fill(schemas.Documents, table)


def _fill(model: type[Table], rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows as those of a table; columns that they lack are null."""
    return conform(pl.concat([empty(model), rows], how="diagonal_relaxed"), model)


def _check_references(
    folder: Path, windows: pl.DataFrame, docs: pl.DataFrame, relevant: pl.DataFrame
) -> None:
    path = folder / "qrels.parquet"
    for found, wanted, column, what in (
        (windows, relevant, "window_id", "windows have no relevant document in"),
        (relevant, docs, "doc_id", "labels name a document that docs.parquet does not hold, in"),
        (relevant, windows, "window_id", "labels name a window that windows.parquet does not hold, in"),
    ):
        absent = found.join(wanted, on=column, how="anti")[column].unique().sort()
        if len(absent):
            raise InputError(f"{len(absent)} {what} {path}: {', '.join(absent.head(5))}", code="unknown_ids")


def _read(folder: Path, name: str) -> pl.DataFrame:
    path = folder / f"{name}.parquet"
    if not path.is_file():
        what = f"{path} is absent; a labelled set holds docs.parquet, windows.parquet and qrels.parquet"
        raise InputError(what, code="absent_file")
    frame, wanted = pl.read_parquet(path), dict(_COLUMNS[name])
    if "answer" in frame.columns:
        wanted["answer"] = pl.String
    if absent := wanted.keys() - set(frame.columns):
        what = f"{path}: column {', '.join(sorted(absent))} is absent; found {', '.join(frame.columns)}"
        raise InputError(what, code="absent_column")
    return frame.select(pl.col(column).cast(dtype) for column, dtype in wanted.items())
