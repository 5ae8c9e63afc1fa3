"""Reading a folder of chat exports: choosing a reader per file, reading it within limits, collecting all messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any, Final

import polars as pl

from backstory.base.errors import ReadError
from backstory.base.files.patterns import compose
from backstory.base.wording import count
from backstory.ingest.chats.export import (
    ROW_SCHEMA,
    Export,
    ExportFile,
    collect_items,
    mark_deleted,
    tell_apart,
)
from backstory.ingest.chats.export_files import (
    ChatFormat,
    Opened,
    conversation_of,
    describe_file,
    find_exports,
    hash_exports,
    list_exports,
    list_parts,
    open_folder,
    open_parts,
)
from backstory.ingest.chats.formats.assistants import CHATGPT, CLAUDE
from backstory.ingest.chats.formats.event_logs import MATRIX, SIGNAL
from backstory.ingest.chats.formats.logs import IRC, TRANSCRIPT, ZOOM_CHAT
from backstory.ingest.chats.formats.mail import MAIL
from backstory.ingest.chats.formats.messengers import DISCORD, META, TELEGRAM
from backstory.ingest.chats.formats.slack import SLACK
from backstory.ingest.chats.formats.tables import CSV, JSON_LINES, PARQUET
from backstory.ingest.chats.formats.whatsapp import WHATSAPP
from backstory.ingest.chats.merging import MergedExports, merge_exports, name_message
from backstory.ingest.file_kinds import NO_EXPORT, describe_foreign, describe_unread_chat
from backstory.ingest.limited_calls import call_limited, find_limits
from backstory.ingest.walk import ListedFile, Listing
from backstory.ingest.zips import MAGIC
from backstory.settings.inputs import ConversationSettings
from backstory.storage.tables.contracts import conform, empty
from backstory.storage.tables.schemas import Quarantine, Sources
from backstory.text.encoding import describe_encoding
from backstory.text.languages import detect_language

RAW_SCHEMA = pl.Schema({"conversation_id": pl.String(), **ROW_SCHEMA, "source": pl.String()})

OPTED_OUT_SCHEMA = pl.Schema(
    {"conversation_id": pl.String(), "author": pl.String(), "is_out": pl.Boolean(), "messages": pl.Int64()}
)


CHAT_FORMATS: Final[tuple[ChatFormat, ...]] = (
    SLACK, TELEGRAM, DISCORD, META, CHATGPT, CLAUDE, MATRIX, SIGNAL,
    # Texts, in which any other text may be quoted.
    MAIL, TRANSCRIPT, ZOOM_CHAT, IRC,
)  # fmt: skip
"""The formats that identify themselves, in the order in which they are tried on an export."""
TABLE_FORMATS: Final = (PARQUET, WHATSAPP, JSON_LINES, CSV)
"""Those that are tried afterwards, unless the export is that of another program which is not read."""
_SAME: Final = ("status", "format", "encoding", "date_order", "timezone")
_SMALL_BYTES: Final = 1 << 20
_BLANK: Final = b"\xef\xbb\xbf\xfe\xff\0 \t\r\n"


@dataclass(frozen=True)
class ExportRead:
    """All messages of a folder, with real names.

    Attributes:
        messages: Messages without ids, in the columns of ``RAW_SCHEMA``.
        quarantine: Lines that could not be read, in the columns of that table; line 0 means the whole file.
        sources: One row per file below the folder, in the columns of that table.
        aliases: Further names of one author only, each with the name in ``messages``.
        unread_authors: Names of people who wrote none of the messages, and further names that several people have.
        unused_overrides: Positions, from 1, of entries in the setting ``overrides`` that match no file.
        opted_out: How many messages of an author were taken out of a conversation, and whether the author is out of it,
            or only wrote the command to be in it again; in the columns of ``OPTED_OUT_SCHEMA``.
        unknown_people: Positions, from 1, of entries in the setting ``privacy.exclude`` under which nobody wrote.
        commands: The last word of each person in each chat on whether to be left out there: key of the chat, or name of
            its conversation if the export identifies none; normalized name; time; whether it leaves them out.
        files: The files of the folder that affect the messages, with the hashes of the bytes that were read.
        deleted: Ids of messages that the platform deleted, whether an export holds them or not.
    """

    messages: pl.DataFrame
    quarantine: pl.DataFrame
    sources: pl.DataFrame
    aliases: Mapping[str, str]
    unread_authors: frozenset[str]
    unused_overrides: tuple[int, ...]
    opted_out: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=OPTED_OUT_SCHEMA))
    unknown_people: tuple[int, ...] = ()
    commands: tuple[tuple[str, str, datetime, bool], ...] = ()
    files: tuple[ExportFile, ...] = ()
    deleted: frozenset[str] = frozenset()

    @property
    def names(self) -> pl.Series:
        """All names of people as written in the exports, sorted."""
        others = pl.Series([*self.aliases, *self.unread_authors], dtype=pl.String)
        return pl.concat([self.messages["author"].drop_nulls(), others]).unique().sort()


def read_exports(folder: Path, settings: ConversationSettings) -> ExportRead:
    """Read all chat exports of a folder; a file that cannot be read does not affect the rest.

    A file belongs to the conversation named after its subfolder, else after the file; an export that names its chats
    holds a conversation per chat. It raises ``WorkspaceError`` if the folder does not exist, or cannot be listed.
    """
    return read_listed_exports(list_exports(folder), settings)


def read_listed_exports(listing: Listing, settings: ConversationSettings) -> ExportRead:
    """Read the given files in the way of :func:`read_exports`."""
    read = [read_file(file, settings) for file in listing.files]
    read += [Export(source=entry.uri, status=entry.status, reason=entry.reason) for entry in listing.skipped]
    read.sort(key=lambda row: row.source)
    if any(row.status == "read" for row in read):  # beside chats, such files were sent in them
        for row in read:
            row.status = "ignored" if row.reason == NO_EXPORT else row.status
    _tell_people_apart(read)
    known = {name for row in read for name in (compose(row.source), conversation_of(row.source))}
    files = {row.source: row.file for row in read if row.file is not None}
    merged = merge_exports(_join_messages(read))
    unread = list[tuple[str, int, str]]()
    for row in read:
        is_refused = row.status in ("failed", "set_aside", "unsupported")
        lines = row.unread or ({0: row.reason or ""} if is_refused else {})
        unread += [(row.source, *line) for line in sorted(lines.items())]
    aliases, shared = _list_aliases(read, merged)
    return ExportRead(
        messages=merged.messages,
        quarantine=conform(pl.DataFrame(unread, empty(Quarantine).schema, orient="row"), Quarantine),
        sources=_make_sources(read, merged, settings.folder),
        aliases=aliases,
        unread_authors=shared.union(*(row.people for row in read)),
        unused_overrides=tuple(
            place for place, name in enumerate(settings.overrides, 1) if name not in known
        ),
        files=hash_exports(listing, files),  # of what could not be read, the content is that of now
        deleted=frozenset(filter(None, (name_message(*keys) for row in read for keys in row.deleted))),
    )


def _tell_people_apart(read: Sequence[Export]) -> None:
    """Give people of one platform with one name in several files names of their own; who wrote first keeps it."""
    firsts = ((row.rows["timestamp"].min(), row.source, row) for row in read if row.ids)
    taken: dict[str | None, dict[str, str]] = {}
    for _, _, row in sorted(firsts, key=lambda first: (first[0] is None, *first[:2])):
        ids = taken.setdefault(row.format, {})
        told = {name: tell_apart(name, identifier, ids) for name, identifier in row.ids.items()}
        row.rows = row.rows.with_columns(pl.col("author").replace(told))
        row.people = {told.get(name, name) for name in row.people}
        row.aliases = {
            alias: {told.get(name, name) for name in names} for alias, names in row.aliases.items()
        }


def _make_sources(read: Sequence[Export], merged: MergedExports, folder: str) -> pl.DataFrame:
    rows = [
        {
            "source": f"{PurePosixPath(folder) / row.source}{'/' if row.source.endswith('/') else ''}",
            "folder": "conversations",
            "reason": "; ".join(filter(None, [merged.merges.get(row.source), row.reason])) or None,
            "rows": len(row.rows),
            "unread": len(row.unread),
            "first": row.rows["timestamp"].min(),
            "last": row.rows["timestamp"].max(),
            "language": detect_language(row.rows.filter(kind="message")["text"]),
            **{name: getattr(row, name) for name in _SAME},
        }
        for row in read
    ]
    return conform(pl.DataFrame(rows, schema=empty(Sources).schema), Sources)


def _join_messages(read: Sequence[Export]) -> pl.DataFrame:
    """Join the messages of all exports, each chat under its latest name, so that a renamed one stays one."""
    rows = (row.rows.with_columns(source=pl.lit(row.source)) for row in read)
    messages = pl.concat([pl.DataFrame(schema=RAW_SCHEMA).drop("conversation_id"), *rows])
    latest = messages.drop_nulls("chat").group_by("chat", "source").agg(pl.col("timestamp").max())
    names = {row.source: row.chats for row in read}
    chats = {chat: names[source][chat] for chat, source, _ in latest.sort("timestamp", "source").iter_rows()}
    files = {row.source: conversation_of(row.source) for row in read}
    conversation = pl.col("chat").replace_strict(chats, default=None, return_dtype=pl.String)
    by_file = pl.col("source").replace_strict(files, return_dtype=pl.String)
    deleted = set[tuple[str | None, str]]().union(*(row.deleted for row in read))
    return mark_deleted(
        messages.select(conversation.fill_null(by_file).alias("conversation_id"), pl.all()), deleted
    )


def _list_aliases(read: Sequence[Export], merged: MergedExports) -> tuple[dict[str, str], frozenset[str]]:
    """List further names of one person, and those of several; a name under which somebody writes is neither."""
    claimed = {name: set(names) for name, names in merged.renamed.items()}
    for row in read:
        for alias, names in row.aliases.items():
            claimed.setdefault(alias, set()).update(names)
    for name in merged.messages["author"].drop_nulls().unique():
        claimed.pop(name, None)
    aliases = {alias: min(names) for alias, names in claimed.items() if len(names) == 1}
    return aliases, frozenset(claimed.keys() - aliases.keys())


def find_format(
    opened: Opened, formats: Iterable[ChatFormat] = CHAT_FORMATS + TABLE_FORMATS
) -> tuple[ChatFormat, list[str]] | None:
    """Return the format of an export and the parts to read, by names and content; None if no reader knows it.

    It raises ``ReadError`` if an archive with the names of an export has a password, is damaged, or is too large when
    unpacked, and with the code ``foreign`` for an export of another program in a form that is not read.
    """
    for tried in formats:
        if tried is PARQUET and opened.is_single and (why := describe_foreign(opened.head())):
            raise ReadError(why, code="foreign")
        if found := tried.find(opened):
            return tried, found
    return None


def read_file(file: ListedFile, settings: ConversationSettings) -> Export:
    """Read one file in the process with limits, unless it is a small text of WhatsApp.

    Anything else may need time and memory out of proportion to its size, or crash the library that reads it: its status
    is ``failed`` if the process fails.
    """
    settings = settings.override(file.uri, conversation_of(file.uri))
    request = (file.path, file.root, file.uri, settings)
    is_folder = file.path.is_dir()
    try:
        size = 0
        for path in list_parts(file.path).values() if is_folder else [file.path]:
            with suppress(OSError):  # which reading explains
                size += path.stat().st_size
        if not is_folder and size <= _SMALL_BYTES and _is_text_of_whatsapp(file, settings):
            return read_export(*request)
        return call_limited(read_export, *request, limits=find_limits(settings), size=size)
    except ReadError as error:
        return _refuse(file.uri, error)


def _is_text_of_whatsapp(file: ListedFile, settings: ConversationSettings) -> bool:
    with file.open() as content, open_parts(content, file.uri, settings) as opened, suppress(ReadError):
        if opened.is_single and WHATSAPP.find(opened):
            found = find_format(opened)
            return found is not None and found[0] is WHATSAPP
    return False


def read_export(path: Path, root: Path, source: str, settings: ConversationSettings) -> Export:
    """Read a file or a folder in the current process, with the hash of the bytes that were read.

    It raises ``ReadError`` if it cannot be opened. A part of a folder that is written meanwhile has another hash at the
    next run, which reads the folder again.
    """
    file = ListedFile(source, path, root)
    described = describe_file(file)
    if path.is_dir():
        export = read_opened(nullcontext(open_folder(path, source, settings, root)), source)
    else:
        with file.open() as content:
            opening = open_parts(content, source, settings, described.latest_year)
            export = read_opened(opening, source)
        if describe_file(file) != described:
            reason = "another program was writing to it; the next run reads it again"
            # The hash is that of no file, so that the next run finds it changed.
            return Export(source=source, status="failed", reason=reason, file=ExportFile(source))
    export.file = described
    return export


def read_opened(opening: AbstractContextManager[Opened], source: str) -> Export:
    """Read the parts of one export in the current process."""
    format_name = None
    try:
        with opening as opened:
            if _is_blank(opened):
                return Export(source=source, status="empty", reason="it is empty")
            found = find_format(opened)
            if found is None:
                content = opened.head() if opened.is_single else MAGIC
                raise ReadError(describe_unread_chat(content), code="foreign")
            format_name = found[0].name
            read = found[0].read(opened, found[1])
            export = read if isinstance(read, Export) else collect_items(read, opened.settings.timezone)
    except ReadError as error:
        export = _refuse(source, error)
        export.format = format_name
        return export
    export.source, export.format = source, format_name
    reasons = [describe_encoding(export.encoding)]
    if export.rows.is_empty():
        export.status, reasons = "empty", ["it holds no message"]
    if export.unread:
        export.status = "failed" if export.rows.is_empty() else "read"
        line, first = min(export.unread.items())
        where = f"the first of them {line} ({first}); quarantine lists them after a run"
        reasons = [
            f"{count(len(export.unread), 'line or record', 'lines or records')} could not be read, {where}"
        ]
    if export.wordless:
        kinds = ", ".join(f"{number:,} of type {kind}" for kind, number in sorted(export.wordless.items()))
        reasons.append(f"records in which nobody says anything were not read: {kinds}")
    export.reason = "; ".join(filter(None, reasons)) or None
    return export


def _is_blank(opened: Opened) -> bool:
    if not opened.is_single:
        return opened.is_maildir and not opened.names
    return not (opened.head().strip(_BLANK) or opened.read(opened.names[0]).strip(_BLANK))


def _refuse(source: str, error: ReadError) -> Export:
    status = "unsupported" if error.code == "foreign" else "failed" if error.authors is None else "set_aside"
    # The reason may contain a column name with an unpaired surrogate.
    reason = str(error).encode("utf-8", "backslashreplace").decode()
    return Export(
        source=source, status=status, reason=reason, code=error.code, people={*(error.authors or ())}
    )


class LastReading:
    """Reads a folder of exports again only if a file has changed.

    Every byte of the files is hashed at each call; sizes and modification times are not trusted. ``made`` has what a
    caller has made of the messages, by a hash of all that decides it.
    """

    def __init__(self, folder: Path, settings: ConversationSettings) -> None:
        self.made: dict[str, Any] = {}
        self._folder = folder
        self._settings = settings
        self._files: tuple[ExportFile, ...] | None = None
        self._read: ExportRead | None = None
        self._people: tuple[list[str], Mapping[str, str]] = ([], {})

    def read(self) -> ExportRead:
        """Read all exports of the folder, or return the last result."""
        if self._read is None or self._is_outdated():
            self._read = read_exports(self._folder, self._settings)
            self._files = self._read.files
            self._people = self._read.names.to_list(), self._read.aliases
        return self._read

    def read_people(self) -> tuple[list[str], Mapping[str, str]]:
        """Return all names as written, sorted, and the author of each further name; :meth:`release` keeps them."""
        if self._is_outdated():
            self.read()
        return self._people

    def release(self) -> None:
        """Drop the messages, which may take much memory."""
        self._read = None
        self.made.clear()

    def _is_outdated(self) -> bool:
        return self._files != find_exports(self._folder)
