"""A folder of chat exports: which reader knows a file, and all messages together."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

import polars as pl

from backstory.errors import ExportError, ExportSettingError
from backstory.languages import detect_language
from backstory.messages.export_files import ListedFile, is_media_name, list_files
from backstory.messages.file_kinds import describe_media
from backstory.messages.file_reading import ReadFile, conversation_of, read_file
from backstory.messages.merged_exports import Merge, merge_exports
from backstory.messages.reader import ROW_SCHEMA, unread_frame
from backstory.settings import ConversationSettings
from backstory.tables.contracts import conform, empty
from backstory.tables.schemas import Quarantine, Sources
from backstory.version import VERSION

RAW_SCHEMA = pl.Schema({"conversation_id": pl.String(), **ROW_SCHEMA, "source": pl.String()})

FOLDER: Final = "conversations"
"""What the table ``sources`` calls the folder of exports."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ExportRead:
    """All messages of a folder.

    Attributes:
        messages: Messages with real names and without ids, in the columns of ``RAW_SCHEMA``.
        quarantine: What could not be read, in the columns of :class:`backstory.tables.schemas.Quarantine`; line 0
            stands for a whole file.
        sources: One row per file below the folder, in the columns of :class:`backstory.tables.schemas.Sources`,
            with real names.
        aliases: Names of people that only one of several exports of a conversation has, each with the name that
            its messages bear in ``messages``.
        unread_authors: Names of people in exports that wait for a setting.
        unused_overrides: Positions, from 1, of those entries of the setting ``overrides`` that name no file.
    """

    messages: pl.DataFrame
    quarantine: pl.DataFrame
    sources: pl.DataFrame
    aliases: Mapping[str, str]
    unread_authors: frozenset[str]
    unused_overrides: tuple[int, ...]

    @property
    def names(self) -> pl.Series:
        """All names of people as exports write them, sorted."""
        others = pl.Series([*self.aliases, *self.unread_authors], dtype=pl.String)
        return pl.concat([self.messages["author"].drop_nulls(), others]).unique().sort()


def read_exports(folder: Path, settings: ConversationSettings) -> ExportRead:
    """Read all chat exports of a folder.

    A file in a subfolder belongs to the conversation named by the subfolder, another one to the conversation
    named by the file without its suffix. Several exports of one conversation are merged; see
    :func:`backstory.messages.merged_exports.merge_exports`. A file that cannot be read costs only itself: its row
    of ``sources`` says why, and what to do.

    Args:
        folder: The folder of exports.
        settings: How to read them.

    Returns:
        Messages in the order of files and of places in them.

    Raises:
        WorkspaceError: The folder is not there, or cannot be looked into.
    """
    return read_listed_exports(list_files(folder), settings)


def read_listed_exports(listed: Sequence[ListedFile], settings: ConversationSettings) -> ExportRead:
    """Read some files as :func:`read_exports` reads all of a folder.

    Args:
        listed: The files.
        settings: How to read them.

    Returns:
        Messages in the order of files and of places in them.
    """
    started = time.perf_counter()
    read = [read_file(file, settings) for file in listed]
    _judge_media(read)
    messages = pl.concat(
        [pl.DataFrame(schema=RAW_SCHEMA), *(_with_source(row.messages, row.source) for row in read)]
    )
    merged = merge_exports(messages)
    quarantine = [_with_unread_source(row.unread, row.source) for row in read]
    result = ExportRead(
        messages=merged.messages,
        quarantine=pl.concat([empty(Quarantine), *quarantine]),
        sources=_make_sources(read, merged.merges, settings.folder),
        aliases=merged.aliases,
        unread_authors=frozenset().union(*(row.authors for row in read)),
        unused_overrides=_find_unused(settings, [row.source for row in read]),
    )
    _logger.info(
        "read exports: sources=%d messages=%d quarantined=%d seconds=%.3f",
        sum(row.status == "read" for row in read),
        len(result.messages),
        len(result.quarantine),
        time.perf_counter() - started,
    )
    return result


def read_export(
    path: Path, settings: ConversationSettings, *, source: str | None = None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Read one chat export.

    Args:
        path: The file.
        settings: How to read it.
        source: Its path relative to the folder of exports; by default its name.

    Returns:
        Messages in the columns of ``RAW_SCHEMA``, and what could not be read in those of ``Quarantine``.

    Raises:
        ExportSettingError: The file can be read once a setting says how.
        ExportError: The file as a whole cannot be read, or no reader knows it.
    """
    source = source or path.name
    read = read_file(ListedFile(path, source), settings)
    if read.is_refused:
        error = ExportSettingError if read.status == "set_aside" else ExportError
        raise error(f"{source}: {read.reason}")
    return _with_source(read.messages, source), _with_unread_source(read.unread, source)


def replace_sources(texts: pl.Series, before: pl.Series, after: pl.Series) -> pl.Series:
    """Replace the paths of files in the reasons of ``sources``, which name other files.

    Args:
        texts: The reasons.
        before: Paths as ``sources`` has them.
        after: What to write instead, such as the same paths with pseudonyms.

    Returns:
        The reasons.
    """
    if before.is_empty():
        return texts
    longest = pl.DataFrame({"before": before, "after": after}).sort(
        pl.col("before").str.len_bytes(), descending=True
    )
    return texts.str.replace_many(longest["before"].to_list(), longest["after"].to_list(), leftmost=True)


def _judge_media(read: Sequence[ReadFile]) -> None:
    """Decide which media belong to a chat, and which were put there to be read."""
    chats = {parent for row in read if row.status == "read" for parent in PurePosixPath(row.source).parents}
    chats.discard(PurePosixPath("."))
    for row in read:
        if row.status == "media":
            kind = row.reason or ""
            if is_media_name(row.source) or chats & set(PurePosixPath(row.source).parents):
                row.status, row.reason = "ignored", f"{kind} that was sent in a chat"
            else:
                row.status, row.reason = "unsupported", describe_media(kind, VERSION)
                row.unread = unread_frame({0: row.reason})


def _make_sources(read: Sequence[ReadFile], merges: Sequence[Merge], folder: str) -> pl.DataFrame:
    merged = {merge.source: merge.describe(_name(folder, merge.into)) for merge in merges}
    rows = [
        {
            "source": _name(folder, row.source),
            "folder": FOLDER,
            "status": row.status,
            "format": row.format,
            "reason": "; ".join(filter(None, [merged.get(row.source), row.reason])) or None,
            "rows": row.rows,
            "unread": int((row.unread["line"] > 0).sum()),
            "first": row.messages["timestamp"].min(),
            "last": row.messages["timestamp"].max(),
            "encoding": row.encoding,
            "date_order": row.date_order,
            "timezone": row.timezone,
            "language": detect_language(row.messages.filter(kind="message")["text"]),
        }
        for row in read
    ]
    schema = empty(Sources).schema
    return conform(pl.DataFrame(rows, schema=schema), Sources)


def _name(folder: str, source: str) -> str:
    """Name a file as the table ``sources`` does: its path relative to the workspace; a folder's ends with ``/``."""
    return f"{PurePosixPath(folder) / source}{'/' if source.endswith('/') else ''}"


def _find_unused(settings: ConversationSettings, sources: Sequence[str]) -> tuple[int, ...]:
    known = {*sources, *map(conversation_of, sources)}
    return tuple(number for number, name in enumerate(settings.overrides, start=1) if name not in known)


def _with_source(rows: pl.DataFrame, source: str) -> pl.DataFrame:
    return rows.select(
        pl.lit(conversation_of(source)).alias("conversation_id"), pl.all(), pl.lit(source).alias("source")
    )


def _with_unread_source(unread: pl.DataFrame, source: str) -> pl.DataFrame:
    return conform(unread.with_columns(pl.lit(source).alias("source")), Quarantine)
