"""A labelled retrieval set: documents, windows, and the relevant documents of each window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from backstory.base.errors import InputError
from backstory.base.ids import digest
from backstory.storage.tables import schemas
from backstory.storage.tables.contracts import conform
from backstory.storage.tables.schemas import Documents

_COLUMNS: dict[str, dict[str, pl.DataType | type[pl.DataType]]] = {
    "docs": {"doc_id": pl.String, "title": pl.String, "text": pl.String, "tags": pl.List(pl.String)},
    "windows": {"window_id": pl.String, "msg_no": pl.Int64, "author": pl.String, "message": pl.String},
    "qrels": {"window_id": pl.String, "doc_id": pl.String, "rel": pl.Int64, "topic": pl.String},
}
_TOPICS_FILE = "msg_topics.parquet"
_TIMES = {"docs": "date", "windows": "timestamp"}
_TIME = pl.Datetime("us", "UTC")
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

    Args:
        folder: The folder that holds the three files. ``msg_topics.parquet`` (``window_id``, ``msg_no``, ``topic``) may
            give the topics of messages, and a column ``answer`` of ``qrels.parquet`` what a document must show.

    Returns:
        The set; windows and documents in the order of their ids.

    Raises:
        InputError: A file or a column is absent, a window has no relevant document, or a label names an absent window
            or document.
    """
    docs, windows, qrels = (_read(folder, name) for name in ("docs", "windows", "qrels"))
    messages, starts = make_windows(windows)
    relevant = qrels.filter(pl.col("rel") > 0)
    _check_references(folder, starts, docs, relevant)
    return LabelledSet(
        folder.name,
        _as_documents(docs),
        messages,
        starts,
        relevant,
        _read_message_topics(folder),
    )


def make_windows(rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Make the tables ``messages`` and ``windows``.

    Args:
        rows: ``window_id``, ``msg_no``, ``timestamp``, ``author``, ``message``.
    """
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


def read_lines(file: Path) -> list[str]:
    """Read a text file in UTF-8 with one message on each line; blank lines are none.

    Raises:
        InputError: The file cannot be read, or holds no message.
    """
    try:
        lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{file} cannot be read as UTF-8 text ({error}); name a file with one message on each line",
            code="unreadable_file",
        ) from error
    if not lines:
        raise InputError(f"{file} holds no message; write one on each line", code="blank_text")
    return lines


def _read_message_topics(folder: Path) -> pl.DataFrame | None:
    path = folder / _TOPICS_FILE
    if not path.is_file():
        return None
    frame = _select(
        pl.read_parquet(path), {"window_id": pl.String, "msg_no": pl.Int64, "topic": pl.String}, path
    )
    return frame.select(_MESSAGE_ID, pl.col("topic").fill_null(""))


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
    frame = pl.read_parquet(path)
    wanted: dict[str, pl.DataType | type[pl.DataType]] = dict(_COLUMNS[name])
    if name in _TIMES:
        wanted[_TIMES[name]] = _TIME
    if name == "qrels":
        wanted["answer"] = pl.String
        frame = frame if "answer" in frame.columns else frame.with_columns(answer=None)
    return _select(frame, wanted, path)


def _select(
    frame: pl.DataFrame, wanted: Mapping[str, pl.DataType | type[pl.DataType]], path: Path
) -> pl.DataFrame:
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
