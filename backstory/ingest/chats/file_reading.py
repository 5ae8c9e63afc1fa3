"""One export -> its messages and the file's status, read in the process with limits."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from backstory.base.errors import ReadError
from backstory.base.files.safe_open import open_inside, state_of
from backstory.base.wording import count
from backstory.ingest.chats.export import Export, collect_items
from backstory.ingest.chats.export_files import (
    Opened,
    conversation_of,
    hash_folder,
    list_parts,
    open_folder,
    open_parts,
)
from backstory.ingest.chats.formats.registry import find_format
from backstory.ingest.chats.formats.whatsapp import WHATSAPP
from backstory.ingest.chats.times import KNOWN_YEAR, latest_year_of
from backstory.ingest.file_kinds import describe_unread_chat
from backstory.ingest.limited_calls import call_limited, find_limits
from backstory.ingest.walk import ListedFile
from backstory.ingest.zips import MAGIC
from backstory.settings.inputs import ConversationSettings
from backstory.text.encoding import describe_encoding

_SMALL_BYTES: Final = 1 << 20
_BLANK: Final = b"\xef\xbb\xbf\xfe\xff\0 \t\r\n"


def read_file(file: ListedFile, settings: ConversationSettings) -> Export:
    """Read one file in the process with limits, unless it is a small text of WhatsApp.

    Anything else may need time and memory out of proportion to its size, or crash the library that reads it: its status
    is ``failed`` if the process fails.
    """
    limits = find_limits(settings)
    settings = settings.override(file.uri, conversation_of(file.uri))
    request = (file.path, file.root, file.uri, settings)
    try:
        if _is_small_text(file, settings):
            return read_export(*request)
        parts = list_parts(file.path) if file.path.is_dir() else [file.path]
        return call_limited(read_export, *request, limits=limits, size=sum(map(_size_of, parts)))
    except ReadError as error:
        return _refuse(file.uri, error)


def _is_small_text(file: ListedFile, settings: ConversationSettings) -> bool:
    if file.path.is_dir():
        return False
    with file.open() as content, suppress(ReadError):
        if os.fstat(content.fileno()).st_size <= _SMALL_BYTES and content.read(len(MAGIC)) != MAGIC:
            with open_parts(content, file.uri, settings) as opened:
                found = find_format(opened) if WHATSAPP.find(opened) else None
                return found is not None and found[0] is WHATSAPP
    return False


def read_export(path: Path, root: Path, source: str, settings: ConversationSettings) -> Export:
    """Read a file or a folder in the current process, with the hash of the bytes that were read.

    It raises ``ReadError`` if it cannot be opened. A part of a folder that is written meanwhile has another hash at the
    next run, which reads the folder again.
    """
    if path.is_dir():
        sha256 = hash_folder(path, root)
        export = read_opened(open_folder(path, source, settings, root))
        export.sha256 = sha256
        return export
    with open_inside(root, path) as file:
        before = state_of(file)
        latest_year = latest_year_of(os.fstat(file.fileno()).st_mtime)
        export = read_stream(file, source, settings, latest_year)
        file.seek(0)
        export.sha256, export.latest_year = hashlib.file_digest(file, "sha256").hexdigest(), latest_year
        if state_of(file) != before:
            export = _refuse(
                source, ReadError("another program was writing to it; the next run reads it again")
            )
            export.sha256 = ""  # the hash of no file, so that the next run finds it changed
        return export


def read_stream(
    file: IO[bytes], source: str, settings: ConversationSettings, latest_year: int = KNOWN_YEAR
) -> Export:
    """Read an open file in the current process."""
    try:
        with open_parts(file, source, settings, latest_year) as opened:
            return read_opened(opened)
    except ReadError as error:
        return _refuse(source, error)


def read_opened(opened: Opened) -> Export:
    """Read the files of one export in the current process."""
    source, format_name = opened.source, None
    if opened.is_maildir and not opened.names:
        return Export(source=source, status="empty", reason="its folders cur and new hold no mail")
    try:
        if _is_blank(opened):
            return Export(source=source, status="empty", reason="the file is empty")
        found = find_format(opened)
        if found is None:
            raise ReadError(_describe_unsupported(opened), code="foreign")
        format_name = found[0].name
        read = found[0].read(opened, found[1])
        export = read if isinstance(read, Export) else collect_items(read, opened.settings.timezone)
    except ReadError as error:
        refused = _refuse(source, error)
        refused.format = format_name
        return refused
    export.source, export.format = source, format_name
    _describe(export)
    return export


def _is_blank(opened: Opened) -> bool:
    return opened.is_single and not (
        opened.head().strip(_BLANK) or opened.read(opened.names[0]).strip(_BLANK)
    )


def _describe_unsupported(opened: Opened) -> str:
    if opened.is_single or opened.is_archive:
        return describe_unread_chat(
            MAGIC if opened.is_archive else opened.head(), opened.source, opened.names
        )
    return (
        "a folder like a Slack export, but its users.json is not a list of users. "
        "Put the folder here as Slack exported it, or move it out"
    )


def _describe(export: Export) -> None:
    """Set status and reason of what was read."""
    reasons: list[str | None] = []
    if len(export.unread):
        line, first = export.unread.row(0)
        lines = count(len(export.unread), "line or record", "lines or records")
        reasons.append(
            f"{lines} could not be read, the first of them {line} ({first}); quarantine lists them after a run"
        )
    elif not export.rows.is_empty():
        reasons.append(describe_encoding(export.encoding))
    else:
        reasons.append("it holds no message")
    if export.wordless:
        kinds = ", ".join(f"{number:,} of type {kind}" for kind, number in sorted(export.wordless.items()))
        reasons.append(f"records without words were not read: {kinds}")
    if export.rows.is_empty():
        export.status = "failed" if len(export.unread) else "empty"
    export.reason = "; ".join(filter(None, reasons)) or None


def _refuse(source: str, error: ReadError) -> Export:
    status = "unsupported" if error.code == "foreign" else "failed" if error.authors is None else "set_aside"
    # The reason may contain a column name with an unpaired surrogate.
    reason = str(error).encode("utf-8", "backslashreplace").decode()
    return Export(
        source=source, status=status, reason=reason, code=error.code, people={*(error.authors or ())}
    )


def _size_of(path: Path) -> int:
    """Return the size of a file in bytes; 0 if it cannot be told, which reading explains."""
    try:
        return path.stat().st_size
    except OSError:
        return 0
