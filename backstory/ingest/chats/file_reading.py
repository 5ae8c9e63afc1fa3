"""One export -> its messages and the file's status, read in a process with limits where necessary."""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path, PurePosixPath
from typing import IO, Final

import polars as pl

from backstory.base.errors import ReadError
from backstory.base.files.safe_open import ChangedFileError, hash_unchanged, state_of
from backstory.base.sandbox import ReadingLimits, run_limited
from backstory.base.wording import count
from backstory.ingest.chats.chat_rows import collect_items
from backstory.ingest.chats.export_files import ListedFile
from backstory.ingest.chats.export_parts import (
    ZIP_MAGIC,
    ExportParts,
    conversation_of,
    folder_parts,
    hash_folder,
    list_parts,
    open_export,
    open_parts,
)
from backstory.ingest.chats.formats.csv_table import CSV
from backstory.ingest.chats.formats.jsonl_table import JSON_LINES
from backstory.ingest.chats.formats.parquet_table import PARQUET
from backstory.ingest.chats.formats.registry import find_format, is_line_export
from backstory.ingest.chats.formats.whatsapp import WHATSAPP, is_whatsapp
from backstory.ingest.chats.reader import ParsedExport, TableFormat, unread_frame
from backstory.ingest.chats.times import KNOWN_YEAR, latest_year_of
from backstory.ingest.file_kinds import describe_foreign, describe_unread_chat
from backstory.ingest.zips import DAMAGED
from backstory.settings.inputs import ConversationSettings
from backstory.text.encoding import describe_encoding

TABLE_FORMATS: Final = (PARQUET, WHATSAPP, JSON_LINES, CSV)
"""The formats of files that are read as a whole, in the order in which they are tried."""

ARCHIVED_WHATSAPP: Final = "whatsapp_zip"
"""What the table ``sources`` calls the text of WhatsApp in a ZIP archive."""

MOST_ARCHIVED_BYTES: Final = 256 << 20
"""Maximum size of such a text, unpacked: enough for a chat of several million messages."""

SMALL_BYTES: Final = 1 << 20
"""Maximum size of a WhatsApp text that is read in this process: reading time grows only with its length."""

_READINGS: Final = 3
"""How often a file is read that is written meanwhile."""

_BINARY: Final = (ZIP_MAGIC, b"PAR1")
_BLANK: Final = b"\xef\xbb\xbf\xfe\xff\0 \t\r\n"
_NOTHING: Final = "the file is empty"
_HEAD_BYTES: Final = 65_536
_LENGTH_BYTES: Final = 8
_TASK: Final = f"{__name__}:read_request"


@dataclass(kw_only=True)
class ReadFile(ParsedExport):
    """The status of one file, and what was read of it.

    Attributes:
        source: Path relative to the folder of exports.
        status: As in :class:`backstory.storage.tables.schemas.Sources`; ``media`` until their chat is known.
        reason: Why the file was not fully read, and what to do; for media, the type.
        format: Name of the file's format.
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
    sha256: str | None = None
    latest_year: int = KNOWN_YEAR
    code: str | None = None
    values: Mapping[str, object] = field(default_factory=dict)

    @property
    def is_refused(self) -> bool:
        """Whether the file as a whole could not be read."""
        return 0 in self.unread["line"]


_RECORDED_FIELDS: Final = tuple(
    each.name for each in fields(ReadFile) if each.name not in ("unread", "rows", "people")
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
        return ReadFile(source=file.source, status=file.status, reason=file.reason)
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
    except ReadError as error:
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
        return ReadFile(source=parts.source, status="empty", reason="its folders cur and new hold no mail")
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
    is_archive = opened.read(len(ZIP_MAGIC)) == ZIP_MAGIC
    opened.seek(0)
    try:
        with open_parts(opened, source) as parts:
            read = _read_parts(parts, source, settings)
            if read is None and is_archive:
                read = _read_archived(parts, source, settings, latest_year)
    except DAMAGED:
        if not is_archive:
            raise
        return _refuse(source, "failed", "a damaged ZIP archive; export the chat again", ARCHIVED_WHATSAPP)
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
        return ReadFile(source=source, status="empty", reason=_NOTHING)
    if foreign := describe_foreign(content):
        return _refuse(source, "unsupported", foreign)
    found = next((each for each in TABLE_FORMATS if each.detects(content, name, settings)), None)
    if found is None:
        return _refuse(source, "unsupported", describe_unread_chat(content, name))
    return _parse(found, content, source, settings, latest_year)


def _read_archived(
    parts: ExportParts, source: str, settings: ConversationSettings, latest_year: int
) -> ReadFile | None:
    """Read the text of WhatsApp in an archive: ``_chat.txt`` from iOS, ``WhatsApp Chat with ….txt`` from Android.

    It returns None if there is none. The media of a chat may include other texts, so that these names go first.
    """
    chats = []
    try:
        for name in parts.names:
            if name.lower().endswith(".txt"):
                with parts.open(name) as file:
                    chats += [name] if is_whatsapp(file.read(_HEAD_BYTES)) else []
        named = [
            name for name in chats if PurePosixPath(name).name == "_chat.txt" or "whatsapp" in name.casefold()
        ]
        chosen = named or chats
        if len(chosen) > 1:
            reason = f"the archive holds {len(chosen)} chats; put each into a file of its own"
            return _refuse(source, "failed", reason, ARCHIVED_WHATSAPP, ReadError(reason, code="wrong_count"))
        for name in chosen:
            with parts.open(name) as file:
                content = file.read(MOST_ARCHIVED_BYTES + 1)
            if len(content) <= MOST_ARCHIVED_BYTES:
                return _parse(
                    replace(WHATSAPP, name=ARCHIVED_WHATSAPP), content, source, settings, latest_year
                )
            reason = f"the chat in it unpacks to more than {MOST_ARCHIVED_BYTES:,} bytes; unpack it if it is a chat"
            return _refuse(source, "failed", reason, ARCHIVED_WHATSAPP, ReadError(reason, code="too_large"))
    except ReadError as error:
        return _refuse(source, "failed", str(error), ARCHIVED_WHATSAPP, error)
    return None


def _read_small(
    content: bytes, file: ListedFile, settings: ConversationSettings, latest_year: int
) -> ReadFile | None:
    """Read a small file that is blank or a WhatsApp text; None for any other."""
    if not content.strip(_BLANK):
        return ReadFile(source=file.source, status="empty", reason=_NOTHING)
    is_chat = describe_foreign(content) is None and is_whatsapp(content) and not is_line_export(content)
    return _parse(WHATSAPP, content, file.source, settings, latest_year) if is_chat else None


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
    read_by: TableFormat, content: bytes, source: str, settings: ConversationSettings, latest_year: int
) -> ReadFile:
    try:
        parsed = read_by.read(content, settings, source, latest_year)
    except ReadError as error:
        return _refuse_export(source, error, read_by.name)
    return _accept(source, read_by.name, parsed)


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
    return ReadFile(**vars(parsed), source=source, status=status, reason=reason, format=reader)


def _refuse(
    source: str, status: str, reason: str, reader: str | None = None, error: ReadError | None = None
) -> ReadFile:
    writable = reason.encode(
        "utf-8", "backslashreplace"
    ).decode()  # the reason may contain a column name with an unpaired surrogate
    unread = unread_frame({0: writable})
    refused = ReadFile(source=source, status=status, reason=writable, format=reader, unread=unread)
    if error is not None:
        refused.code = error.code
    return refused


def _refuse_export(source: str, error: ReadError, reader: str) -> ReadFile:
    reason = str(error).removeprefix(f"{source}: ")
    if error.authors is None:
        return _refuse(source, "failed", reason, reader, error)
    refused = _refuse(source, "set_aside", reason, reader, error)
    refused.people = error.authors
    return refused


def _refuse_unopened(source: str, error: OSError) -> ReadFile:
    reason = (
        f"it cannot be opened ({error.strerror}); make it a file that the user who runs Backstory may read"
    )
    return _refuse(source, "failed", reason)


def _encode(read: ReadFile) -> bytes:
    """Encode the result as two compressed tables (Arrow streams), a line of JSON, and the line's length."""
    answer = io.BytesIO()
    read.rows.write_ipc_stream(answer, compression="zstd")
    record: dict[str, object] = {name: getattr(read, name) for name in _RECORDED_FIELDS}
    record |= {"people": sorted(read.people), "rows_size": answer.tell()}
    read.unread.write_ipc_stream(answer, compression="zstd")
    line = json.dumps(record).encode()
    answer.write(line + len(line).to_bytes(_LENGTH_BYTES))
    return answer.getvalue()


def _decode(answer: bytes) -> ReadFile:
    end = len(answer) - _LENGTH_BYTES
    begin = end - int.from_bytes(answer[end:])
    record = json.loads(answer[begin:end])
    people, size = frozenset(record.pop("people")), record.pop("rows_size")
    tables = memoryview(answer)
    return ReadFile(
        **record,
        people=people,
        rows=pl.read_ipc_stream(io.BytesIO(tables[:size])),
        unread=pl.read_ipc_stream(io.BytesIO(tables[size:begin])),
    )
