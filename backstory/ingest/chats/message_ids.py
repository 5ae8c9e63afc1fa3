"""Message ids that are equal in every export of a conversation, and the archive of messages that exports may lose.

Each row of the archive is a row of the table ``messages`` without local times, so it contains no name that the table
does not contain. The ``seq`` of a message that no export holds any more is negative.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

import polars as pl

from backstory.base.errors import WorkspaceError
from backstory.base.files.atomic import write_file
from backstory.base.ids import digest
from backstory.storage.tables.schemas import Messages
from backstory.storage.tables.tables import encode_rows

NAMED_SCHEMA: Final = pl.Schema(
    {name: dtype for name, dtype in Messages.schema.items() if name not in ("local_time", "timezone")}
)
"""Columns of ``messages`` that do not depend on the time zone of a conversation."""

_CONTENT = ("conversation_id", "timestamp", "author", "text", "kind")


def assign_message_ids(frame: pl.DataFrame) -> pl.DataFrame:
    """Sort messages, assign their ids, and drop duplicates across exports of a conversation.

    Where the platform gives ids to chats and messages, the id of a message is derived from these. Of several exports,
    the one with the latest message of the conversation gives the text: it knows edits. A message that any export shows
    as deleted is deleted, since no platform brings one back.

    Else the id is derived from conversation, time, author, text, kind, and the number of equal messages before it in
    its export. So a message that somebody sent twice is kept twice. A message in two exports is kept once.

    It returns the columns of ``NAMED_SCHEMA``, sorted by timestamp, source and position in the source; ``seq`` counts
    messages of one source with the same timestamp. An answer to a message that is not among them has no ``reply_to``.
    """
    is_known = pl.col("chat").is_not_null() & pl.col("key").is_not_null()
    latest = pl.when(is_known).then(pl.col("timestamp").max().over("chat", "source"))
    # Lines of the app have no author, except those that stand for what somebody wrote and deleted.
    is_deleted = is_known & (pl.col("kind") == "system") & pl.col("author").is_not_null()
    ordered = (
        frame.with_columns(latest.alias("latest"))
        .sort("timestamp", "source", "seq")
        .with_columns(pl.int_range(pl.len()).over(*_CONTENT, "source").alias("occurrence"))
    )
    named = (
        ordered.with_columns(_make_ids(ordered))
        .sort(is_deleted, "latest", "edited_at", descending=True, nulls_last=True, maintain_order=True)
        .unique("message_id", keep="first", maintain_order=True)
        .sort("timestamp", "source", "seq", maintain_order=True)
        # Not the position in the whole source, so that one late message changes no row of another time.
        .with_columns(pl.int_range(pl.len(), dtype=pl.Int64).over("timestamp", "source").alias("seq"))
    )
    return _resolve_answers(named).select(pl.col(name).cast(dtype) for name, dtype in NAMED_SCHEMA.items())


def _make_ids(ordered: pl.DataFrame) -> pl.Series:
    contents = ordered.select(
        *("chat", "key", "conversation_id", pl.col("timestamp").dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ")),
        *(pl.concat_str(pl.lit("="), name).fill_null("").alias(name) for name in ("author", "text")),
        *("kind", pl.col("occurrence").cast(pl.String)),
    )
    ids = [
        digest(content) if chat is None or key is None else name_message(chat, key)
        for chat, key, *content in contents.iter_rows()
    ]
    return pl.Series("message_id", ids, dtype=pl.String)


def _resolve_answers(named: pl.DataFrame) -> pl.DataFrame:
    """Set the id of the message that a message answers."""
    answers = named.filter(pl.col("reply_key").is_not_null()).select("message_id", "chat", "reply_key")
    ids = [name_message(chat, key) for chat, key in answers.select("chat", "reply_key").iter_rows()]
    answered = answers.select("message_id", pl.Series("reply_to", ids, dtype=pl.String))
    present = answered.filter(pl.col("reply_to").is_in(named["message_id"].implode()))
    return named.join(present, on="message_id", how="left", maintain_order="left")


def name_message(chat: str, key: str) -> str:
    """Return the id of a message by the keys that its platform gives to the chat and to the message in it."""
    return digest(["platform", chat, key])


def read_archive(path: Path) -> pl.DataFrame:
    """Read all kept messages, in the columns of ``NAMED_SCHEMA``; a damaged file is a ``WorkspaceError``."""
    if not path.exists():
        return pl.DataFrame(schema=NAMED_SCHEMA)
    try:
        return pl.read_parquet(path).select(NAMED_SCHEMA.names()).cast(NAMED_SCHEMA)
    except pl.exceptions.PolarsError as error:
        raise WorkspaceError(
            f"{path} is damaged; restore it from a backup, or delete it and lose the messages that only it holds",
            code="damaged_record",
        ) from error


def write_archive(path: Path, archived: pl.DataFrame) -> None:
    """Replace all kept messages, in the columns of ``NAMED_SCHEMA``."""
    if archived.is_empty():
        path.unlink(missing_ok=True)
    else:
        write_file(path, encode_rows(archived), mode=0o600)


def hash_archive(path: Path) -> str:
    """Hash the bytes of the file; empty if there is none."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""
