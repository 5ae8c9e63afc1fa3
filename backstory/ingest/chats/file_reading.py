"""One export -> its messages and the file's status, read in a process with limits where necessary."""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import IO, Final

import polars as pl

from backstory.base.errors import ExportSettingError, ReadError, ReadingLimitError
from backstory.base.files.safe_open import ChangedFileError, hash_unchanged, state_of
from backstory.base.sandbox import ReadingLimits, run_limited
from backstory.base.wording import count
from backstory.ingest.chats.chat_rows import collect_items
from backstory.ingest.chats.export_files import ListedFile
from backstory.ingest.chats.export_parts import (
    ExportParts,
    conversation_of,
    folder_parts,
    hash_folder,
    list_parts,
    open_export,
    open_parts,
)
from backstory.ingest.chats.file_kinds import DAMAGED_ARCHIVE, describe_foreign, describe_unsupported
from backstory.ingest.chats.formats.csv_table import CsvReader
from backstory.ingest.chats.formats.jsonl_table import JsonLinesReader
from backstory.ingest.chats.formats.parquet_table import ParquetReader
from backstory.ingest.chats.formats.registry import find_format, is_line_export
from backstory.ingest.chats.formats.whatsapp import WhatsAppTextReader
from backstory.ingest.chats.formats.whatsapp_zip import WhatsAppZipReader
from backstory.ingest.chats.reader import ROW_SCHEMA, ExportReader, ParsedExport, unread_frame
from backstory.ingest.chats.times import KNOWN_YEAR, latest_year_of
from backstory.settings.inputs import ConversationSettings
from backstory.text.encoding import describe_encoding

_WHATSAPP_TEXT: Final = WhatsAppTextReader()

READERS: tuple[ExportReader, ...] = (
    ParquetReader(),
    WhatsAppZipReader(),
    _WHATSAPP_TEXT,
    JsonLinesReader(),
    CsvReader(),
)
"""The readers, in the order in which they are tried on a file."""

SMALL_BYTES: Final = 1 << 20
"""Maximum size of a WhatsApp text that is read in this process: reading time grows only with its length."""

_READINGS: Final = 3
"""How often a file is read that is written meanwhile."""

_BINARY: Final = (b"PK\x03\x04", b"PAR1")
_BLANK: Final = b"\xef\xbb\xbf\xfe\xff\0 \t\r\n"
_NOTHING: Final = "the file is empty"
_LENGTH_BYTES: Final = 8
_TASK: Final = f"{__name__}:read_request"


@dataclass
class ReadFile:
    """The status of one file, and its messages.

    Attributes:
        source: Path relative to the folder of exports.
        status: As in :class:`backstory.storage.tables.schemas.Sources`; ``media`` until their chat is known.
        reason: Why the file was not fully read, and what to do; for media, the type.
        format: Name of the reader for the file's format.
        rows: Number of messages.
        unread: ``line`` and ``reason`` of each unreadable line; line 0 means the whole file.
        messages: The messages of the file.
        encoding: As in :class:`backstory.ingest.chats.reader.ParsedExport`, like the next two.
        date_order: Order used to read the dates.
        timezone: Time zone used to read the timestamps.
        authors: Names of people who wrote none of the messages, or wrote in a file that waits for a setting.
        chats: As in :class:`backstory.ingest.chats.reader.ParsedExport`, like the next one.
        aliases: Further names of authors.
        ids: Ids of people by their names, as in that class.
        sha256: As in :class:`backstory.ingest.chats.export_files.ExportFile`, of the bytes that were read; None if
            nothing could be read, so that no message depends on them.
        latest_year: As in that class.
        code: As in :class:`backstory.base.errors.BackstoryError`, like the next one, of a refused file.
        values: What the reason names.
    """

    source: str
    status: str
    reason: str | None = None
    format: str | None = None
    rows: int = 0
    unread: pl.DataFrame = field(default_factory=lambda: unread_frame({}))
    messages: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=ROW_SCHEMA))
    encoding: str | None = None
    date_order: str | None = None
    timezone: str | None = None
    authors: frozenset[str] = frozenset()
    chats: Mapping[str, str] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)
    sha256: str | None = None
    latest_year: int = KNOWN_YEAR
    code: str | None = None
    values: Mapping[str, object] = field(default_factory=dict)

    @property
    def is_refused(self) -> bool:
        """Whether the file as a whole could not be read."""
        return 0 in self.unread["line"]


_RECORDED_FIELDS: Final = tuple(
    each.name for each in fields(ReadFile) if each.name not in ("unread", "messages", "authors")
)


def read_file(file: ListedFile, settings: ConversationSettings) -> ReadFile:
    """Read one file.

    A WhatsApp text of at most :data:`SMALL_BYTES` is read in this process. Any other file or folder may need time and
    memory out of proportion to its size, or crash the library that reads it. It is read in a process with limits, and
    its status is ``failed`` if that process fails.
    """
    if file.status == "failed":
        return _refuse(file.source, file.status, file.reason)
    if file.status != "candidate":
        return ReadFile(file.source, file.status, file.reason)
    limits = ReadingLimits(settings.read_seconds, settings.read_megabytes)
    settings = settings.override(file.source, conversation_of(file.source))
    try:
        size, latest_year, content = _read_beginning(file)
    except OSError as error:
        return _refuse_unopened(file.source, error)
    if content is not None and len(content) <= SMALL_BYTES and not content.startswith(_BINARY):
        read = _read_small(content, file, settings, latest_year)
        if read is not None:
            read.sha256, read.latest_year = hashlib.sha256(content).hexdigest(), latest_year
            return read
    request = {
        "path": os.path.abspath(file.path),  # noqa: PTH100 - resolve() would resolve a link a second time
        "root": None if file.root is None else os.fspath(file.root),
        "source": file.source,
        "settings": settings.model_dump(mode="json"),
    }
    try:
        answer = run_limited(_TASK, json.dumps(request).encode(), limits, size=size)
    except ReadingLimitError as error:
        return _refuse(file.source, "failed", str(error))
    return _decode(answer)


def read_request(request: bytes) -> bytes:
    """Handle a request of :func:`read_file` in the process with limits."""
    wanted = json.loads(request)
    path, source = Path(wanted["path"]), wanted["source"]
    root = None if wanted["root"] is None else Path(wanted["root"])
    settings = ConversationSettings.model_validate(wanted["settings"])
    try:
        for _ in range(_READINGS):
            with suppress(ChangedFileError):
                return _encode(_read_steadily(path, root, source, settings))
    except OSError as error:
        return _encode(_refuse_unopened(source, error))
    refused = _refuse(source, "failed", "another program kept writing to it; the next run reads it again")
    refused.sha256 = ""  # the hash of no file, so that the next run finds it changed
    return _encode(refused)


def _read_steadily(path: Path, root: Path | None, source: str, settings: ConversationSettings) -> ReadFile:
    """Read a file or a folder, with the hash of exactly the bytes that were read.

    It raises ``ChangedFileError`` if it was written meanwhile. It raises ``OSError`` if it cannot be opened.
    """
    if path.is_dir():
        parts = folder_parts(path, source, root)
        read = read_folder(parts, settings)
        read.sha256 = hash_folder(path, root, parts)
        return read
    with open_export(path, root) as opened:
        before = state_of(opened)
        latest_year = latest_year_of(os.fstat(opened.fileno()).st_mtime)
        read = read_opened(opened, path.name, source, settings, latest_year)
        read.sha256, read.latest_year = hash_unchanged(opened, before), latest_year
    return read


def read_folder(parts: ExportParts, settings: ConversationSettings) -> ReadFile:
    """Read a folder that is one export in the current process."""
    if parts.is_maildir and not parts.names:
        return ReadFile(parts.source, "empty", "its folders cur and new hold no mail")
    return _read_parts(parts, parts.source, settings) or _refuse(
        parts.source,
        "unsupported",
        "a folder like a Slack export, but its users.json is not a list of users. "
        "Put the folder here as Slack exported it, or move it out",
    )


def read_opened(
    opened: IO[bytes], name: str, source: str, settings: ConversationSettings, latest_year: int
) -> ReadFile:
    """Read one file in the current process: as a stream if it is the export of a chat platform, else as a whole."""
    try:
        with open_parts(opened, source) as parts:
            read = _read_parts(parts, source, settings)
    except DAMAGED_ARCHIVE:  # the reader of archives says what is wrong
        read = None
    if read is not None:
        return read
    limits = ReadingLimits(settings.read_seconds, settings.read_megabytes)
    size = opened.seek(0, os.SEEK_END)
    if size > limits.most_bytes:
        reason = (
            f"it has more than {limits.most_bytes:,} bytes, too many to read within {limits.megabytes} MB of memory "
            "(`conversations.read_megabytes`); split it, or raise the setting"
        )
        return _refuse(source, "failed", reason)
    opened.seek(0)
    return parse_content(opened.read(size), name, source, settings, latest_year)


def parse_content(
    content: bytes, name: str, source: str, settings: ConversationSettings, latest_year: int
) -> ReadFile:
    """Read a file that is read as a whole; see :func:`read_opened`."""
    if not content.strip(_BLANK):
        return ReadFile(source, "empty", _NOTHING)
    if foreign := describe_foreign(content):
        return _refuse(source, "unsupported", foreign)
    reader = next((reader for reader in READERS if reader.detects(content, name, settings)), None)
    if reader is None:
        return _refuse(source, "unsupported", describe_unsupported(content, name))
    return _parse(reader, content, source, settings, latest_year)


def _read_small(
    content: bytes, file: ListedFile, settings: ConversationSettings, latest_year: int
) -> ReadFile | None:
    """Read a small file that is blank or a WhatsApp text; None for any other."""
    if not content.strip(_BLANK):
        return ReadFile(file.source, "empty", _NOTHING)
    if (
        describe_foreign(content) is None
        and _WHATSAPP_TEXT.detects(content, file.path.name, settings)
        and not is_line_export(content)
    ):
        return _parse(_WHATSAPP_TEXT, content, file.source, settings, latest_year)
    return None


def _read_beginning(file: ListedFile) -> tuple[int, int, bytes | None]:
    """Return the size of a file or folder, the latest year of its messages, and the first bytes of a file."""
    if file.path.is_dir():
        return sum(map(_size_of, list_parts(file.path))), KNOWN_YEAR, None
    with open_export(file.path, file.root) as opened:
        state = os.fstat(opened.fileno())
        return state.st_size, latest_year_of(state.st_mtime), opened.read(SMALL_BYTES + 1)


def _size_of(part: Path) -> int:
    try:
        return part.stat().st_size
    except FileNotFoundError:  # a mail that was moved meanwhile, which reading says
        return 0


def _read_parts(parts: ExportParts, source: str, settings: ConversationSettings) -> ReadFile | None:
    """Read the export of a chat platform; None if it is none."""
    try:
        found = find_format(parts)
    except ReadError as error:
        return _refuse(source, "failed", str(error), error=error)
    if found is None:
        return None
    chat_format, names = found
    try:
        parsed = collect_items(chat_format.read(parts, names), settings.timezone)
    except ReadError as error:
        return _refuse_export(source, error, chat_format.name)
    return _accept(source, chat_format.name, parsed)


def _parse(
    reader: ExportReader, content: bytes, source: str, settings: ConversationSettings, latest_year: int
) -> ReadFile:
    try:
        parsed = reader.read(content, settings, source, latest_year=latest_year)
    except ReadError as error:
        return _refuse_export(source, error, reader.name)
    return _accept(source, reader.name, parsed)


def _accept(source: str, reader: str, parsed: ParsedExport) -> ReadFile:
    status, reason = "read", None
    if parsed.rows.is_empty():
        status = "failed" if len(parsed.unread) else "empty"
        reason = "it holds no message"
    if len(parsed.unread):
        line, first = parsed.unread.row(0)
        lines = count(len(parsed.unread), "line or record", "lines or records")
        reason = f"{lines} could not be read, the first of them {line} ({first}); quarantine lists them after a run"
    elif status == "read":
        reason = describe_encoding(parsed.encoding)
    if parsed.wordless:
        kinds = ", ".join(f"{number:,} of type {kind}" for kind, number in sorted(parsed.wordless.items()))
        reason = "; ".join(filter(None, [reason, f"records without words were not read: {kinds}"]))
    return ReadFile(
        source,
        status,
        reason,
        reader,
        len(parsed.rows),
        parsed.unread,
        parsed.rows,
        parsed.encoding,
        parsed.date_order,
        parsed.timezone,
        parsed.people,
        parsed.chats,
        parsed.aliases,
        parsed.ids,
    )


def _refuse(
    source: str, status: str, reason: str, reader: str | None = None, error: ReadError | None = None
) -> ReadFile:
    writable = reason.encode(
        "utf-8", "backslashreplace"
    ).decode()  # the reason may contain a column name with an unpaired surrogate
    refused = ReadFile(source, status, writable, reader, unread=unread_frame({0: writable}))
    if error is not None:
        refused.code = error.code
    return refused


def _refuse_export(source: str, error: ReadError, reader: str) -> ReadFile:
    reason = str(error).removeprefix(f"{source}: ")
    if not isinstance(error, ExportSettingError):
        return _refuse(source, "failed", reason, reader, error)
    refused = _refuse(source, "set_aside", reason, reader, error)
    refused.authors = error.authors
    return refused


def _refuse_unopened(source: str, error: OSError) -> ReadFile:
    reason = (
        f"it cannot be opened ({error.strerror}); make it a file that the user who runs Backstory may read"
    )
    return _refuse(source, "failed", reason)


def _encode(read: ReadFile) -> bytes:
    """Encode the result as two compressed tables (Arrow streams), a line of JSON, and the line's length."""
    answer = io.BytesIO()
    read.messages.write_ipc_stream(answer, compression="zstd")
    record: dict[str, object] = {name: getattr(read, name) for name in _RECORDED_FIELDS}
    record |= {"authors": sorted(read.authors), "messages_size": answer.tell()}
    read.unread.write_ipc_stream(answer, compression="zstd")
    line = json.dumps(record).encode()
    answer.write(line + len(line).to_bytes(_LENGTH_BYTES))
    return answer.getvalue()


def _decode(answer: bytes) -> ReadFile:
    end = len(answer) - _LENGTH_BYTES
    begin = end - int.from_bytes(answer[end:])
    record = json.loads(answer[begin:end])
    authors, size = frozenset(record.pop("authors")), record.pop("messages_size")
    tables = memoryview(answer)
    return ReadFile(
        **record,
        authors=authors,
        messages=pl.read_ipc_stream(io.BytesIO(tables[:size])),
        unread=pl.read_ipc_stream(io.BytesIO(tables[size:begin])),
    )
