"""A labelled retrieval set: documents, windows, and the relevant documents of each window."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from backstory.base.errors import InputError
from backstory.base.ids import digest
from backstory.storage.tables import schemas
from backstory.storage.tables.contracts import conform
from backstory.storage.tables.schemas import Documents

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
    """The set in the library's own tables.

    Attributes:
        name: Name of the folder.
        documents: Table ``documents``; ``document_id`` is the set's ``doc_id``.
        messages: Table ``messages``; ``conversation_id`` is the window.
        windows: Table ``windows``; ``window_id`` is the set's own.
        qrels: ``window_id``, ``doc_id``, ``rel`` (1 or 2), ``topic``, and ``answer``, the words of the document that
            must be shown, or null. Only the scorer uses it.
        message_topics: ``message_id`` and ``topic``; None without ``msg_topics.parquet``.
    """

    name: str
    documents: pl.DataFrame
    messages: pl.DataFrame
    windows: pl.DataFrame
    qrels: pl.DataFrame
    message_topics: pl.DataFrame | None


def read_labelled_set(folder: Path) -> LabelledSet:
    """Read a set of ``docs.parquet``, ``windows.parquet`` and ``qrels.parquet``.

    ``msg_topics.parquet`` (``window_id``, ``msg_no``, ``topic``) may give the topics of messages, and a column
    ``answer`` of ``qrels.parquet`` what a document must show. Windows and documents are in the order of their ids.

    Raises:
        InputError: A file or a column is absent, a window has no relevant document, or a label names an absent window
            or document.
    """
    docs, windows, qrels = (_read(folder, name) for name in ("docs", "windows", "qrels"))
    messages, starts = make_windows(windows)
    answer = pl.col("answer") if "answer" in qrels.columns else pl.lit(None, dtype=pl.String).alias("answer")
    relevant = qrels.filter(pl.col("rel") > 0).with_columns(answer)
    _check_references(folder, starts, docs, relevant)
    topics = None
    if (folder / "msg_topics.parquet").is_file():
        topics = _read(folder, "msg_topics").select(_MESSAGE_ID, pl.col("topic").fill_null(""))
    return LabelledSet(folder.name, _as_documents(docs), messages, starts, relevant, topics)


def make_windows(rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Make the tables ``messages`` and ``windows`` of rows as ``windows.parquet`` holds them."""
    messages = _as_messages(rows)
    starts = (
        messages.group_by("conversation_id", maintain_order=True)
        .agg(
            started_at=pl.col("timestamp").min(),
            ended_at=pl.col("timestamp").max(),
            message_count=pl.len(),
            message_ids=pl.col("message_id"),
        )
        .with_columns(
            window_id="conversation_id",
            timezone=pl.lit("UTC"),
            partition=pl.col("started_at").dt.strftime("%Y-%m-%d"),
            token_count=pl.lit(0),
        )
    )
    return messages, conform(starts, schemas.Windows)


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
        raise InputError(
            f"{path} is absent; a labelled set holds docs.parquet, windows.parquet and qrels.parquet",
            code="absent_file",
        )
    frame, wanted = pl.read_parquet(path), dict(_COLUMNS[name])
    if "answer" in frame.columns:
        wanted["answer"] = pl.String
    absent = [column for column in wanted if column not in frame.columns]
    if absent:
        raise InputError(
            f"{path}: column {', '.join(absent)} is absent; found {', '.join(frame.columns)}",
            code="absent_column",
        )
    return frame.select(pl.col(column).cast(dtype) for column, dtype in wanted.items())


def _as_documents(docs: pl.DataFrame) -> pl.DataFrame:
    table = docs.sort("doc_id").with_columns(
        document_id="doc_id",
        revision=pl.lit("1"),
        uri="doc_id",
        title=pl.col("title").fill_null(""),
        slug="doc_id",
        published_at="date",
        date_origin=pl.when(pl.col("date").is_not_null()).then(pl.lit("stated")),
        tags=pl.col("tags").fill_null([]),
        kind=pl.lit("post"),
        tenant=pl.lit(""),
        conversation_id=pl.lit(None, dtype=pl.String),
        format=pl.lit("markdown"),
        size=pl.col("text").str.len_bytes(),
        encoding=pl.lit("utf-8"),
        page_starts=pl.lit([], dtype=pl.List(pl.Int64)),
        confidences=pl.lit([], dtype=pl.List(pl.Float64)),
        chunker=pl.lit("markdown"),
        text=pl.col("text").fill_null(""),
        content_hash=pl.struct("title", "text").map_elements(
            lambda row: digest([row["title"] or "", row["text"] or ""]), return_dtype=pl.String
        ),
        status=pl.lit("ok"),
        error=pl.lit(None, dtype=pl.String),
        unread=pl.lit(None, dtype=pl.String),
    )
    return conform(table, Documents)


def _as_messages(windows: pl.DataFrame) -> pl.DataFrame:
    table = windows.sort("window_id", "timestamp", "msg_no").with_columns(
        _MESSAGE_ID,
        conversation_id="window_id",
        local_time=pl.col("timestamp").dt.convert_time_zone("UTC").dt.replace_time_zone(None),
        timezone=pl.lit("UTC"),
        seq="msg_no",
        text="message",
        kind=pl.lit("message"),
        source=pl.lit("windows.parquet"),
        reply_to=pl.lit(None, pl.String),
        reactions=pl.lit([]),
        edited=pl.lit(value=False),
    )
    return conform(table, schemas.Messages)
