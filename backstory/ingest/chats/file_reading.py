"""One export -> its messages and the file's status, read in the process with limits."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from backstory.base.errors import ReadError
from backstory.base.files.safe_open import ChangedFileError, hash_unchanged, state_of
from backstory.base.sandbox import ReadingLimits
from backstory.base.wording import count
from backstory.ingest.chats.export import Export, collect_items
from backstory.ingest.chats.export_files import ExportFile, size_of
from backstory.ingest.chats.formats.registry import find_format
from backstory.ingest.chats.formats.whatsapp import WHATSAPP
from backstory.ingest.chats.opened import (
    Opened,
    conversation_of,
    hash_folder,
    list_parts,
    open_export,
    open_folder,
    open_parts,
)
from backstory.ingest.chats.times import KNOWN_YEAR, latest_year_of
from backstory.ingest.file_kinds import describe_unread_chat
from backstory.ingest.limited_calls import call_limited
from backstory.ingest.zips import MAGIC
from backstory.settings.inputs import ConversationSettings
from backstory.text.encoding import describe_encoding

_SMALL_BYTES: Final = 1 << 20
"""Maximum size of a WhatsApp text that is read in this process: reading time grows only with its length."""
_BLANK: Final = b"\xef\xbb\xbf\xfe\xff\0 \t\r\n"


def read_file(file: ExportFile, settings: ConversationSettings) -> Export:
    """Read one file.

    Only a small text of WhatsApp is read in this process. Anything else may need time and memory out of proportion to
    its size, or crash the library that reads it: its status is ``failed`` if the process with limits fails.
    """
    if file.status != "candidate":
        return Export(source=file.source, status=file.status, reason=file.reason)
    limits = ReadingLimits(settings.read_seconds, settings.read_megabytes)
    settings = settings.override(file.source, conversation_of(file.source))
    root = None if file.root is None else os.fspath(file.root)
    request = (os.path.abspath(file.path), root, file.source, settings)  # noqa: PTH100 - resolve() would resolve a link
    try:
        if not file.path.is_dir() and _is_small_text(file, settings):
            return read_export(*request)
        parts = list_parts(file.path) if file.path.is_dir() else [file.path]
        return call_limited(read_export, *request, limits=limits, size=sum(map(size_of, parts)))
    except (OSError, ReadError) as error:
        return _refuse(file.source, error)


def read_export(path: str, root: str | None, source: str, settings: ConversationSettings) -> Export:
    """Read a file or a folder in the current process, with the hash of the bytes that were read.

    A part of a folder that is written meanwhile has another hash at the next run, which reads the folder again.
    """
    place, within = Path(path), None if root is None else Path(root)
    try:
        if place.is_dir():
            sha256 = hash_folder(place, within)
            export = read_opened(open_folder(place, source, settings, within))
        else:
            with open_export(place, within) as file:
                before = state_of(file)
                latest_year = latest_year_of(os.fstat(file.fileno()).st_mtime)
                export = read_stream(file, source, settings, latest_year)
                sha256, export.latest_year = hash_unchanged(file, before), latest_year
    except ChangedFileError:
        export = _refuse(source, "another program was writing to it; the next run reads it again")
        sha256 = ""  # the hash of no file, so that the next run finds it changed
    except OSError as error:
        return _refuse(source, error)
    export.sha256 = sha256
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
            return _refuse(source, _describe_unsupported(opened), status="unsupported")
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


def _is_small_text(file: ExportFile, settings: ConversationSettings) -> bool:
    with open_export(file.path, file.root) as content, suppress(ReadError):
        if os.fstat(content.fileno()).st_size <= _SMALL_BYTES and content.read(len(MAGIC)) != MAGIC:
            with open_parts(content, file.source, settings) as opened:
                found = find_format(opened) if WHATSAPP.find(opened) else None
                return found is not None and found[0] is WHATSAPP
    return False


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


def _refuse(source: str, why: OSError | ReadError | str, status: str = "failed") -> Export:
    reason = str(why)
    if isinstance(why, OSError):
        reason = (
            f"it cannot be opened ({why.strerror}); make it a file that the user who runs Backstory may read"
        )
    # The reason may contain a column name with an unpaired surrogate.
    refused = Export(source=source, status=status, reason=reason.encode("utf-8", "backslashreplace").decode())
    if isinstance(why, ReadError):
        refused.code, refused.people = why.code, set(why.authors or ())
        if why.code == "foreign":
            refused.status = "unsupported"
        elif why.authors is not None:
            refused.status = "set_aside"
    return refused
