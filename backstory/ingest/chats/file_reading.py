"""The chat formats, and one export -> its messages and the file's status, read in the process with limits."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Final

from backstory.base.errors import ReadError
from backstory.base.files.safe_open import open_inside, state_of
from backstory.base.wording import count
from backstory.ingest.chats.export import Export, collect_items
from backstory.ingest.chats.export_files import (
    ChatFormat,
    Opened,
    conversation_of,
    describe_file,
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
from backstory.ingest.chats.times import latest_year_of
from backstory.ingest.file_kinds import describe_foreign, describe_unread_chat
from backstory.ingest.limited_calls import call_limited, find_limits
from backstory.ingest.walk import MAGIC, ListedFile
from backstory.settings.inputs import ConversationSettings
from backstory.text.encoding import describe_encoding

CHAT_FORMATS: Final[tuple[ChatFormat, ...]] = (
    SLACK, TELEGRAM, DISCORD, META, CHATGPT, CLAUDE, MATRIX, SIGNAL,
    # Texts, in which any other text may be quoted.
    MAIL, TRANSCRIPT, ZOOM_CHAT, IRC,
)  # fmt: skip
"""The formats that identify themselves, in the order in which they are tried on an export."""
TABLE_FORMATS: Final = (PARQUET, WHATSAPP, JSON_LINES, CSV)
"""Those that are tried afterwards, unless the export is that of another program which is not read."""
_SMALL_BYTES: Final = 1 << 20
_OTHER: Final = "another_format"
"""Code of an export that is no text of WhatsApp, where only such a text is to be read."""
_BLANK: Final = b"\xef\xbb\xbf\xfe\xff\0 \t\r\n"


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
        size = sum(map(_size_of, list_parts(file.path).values() if is_folder else [file.path]))
        if not is_folder and size <= _SMALL_BYTES:
            export = read_export(*request, only_text=True)
            if export.code != _OTHER:
                return export
        return call_limited(read_export, *request, False, limits=find_limits(settings), size=size)
    except ReadError as error:
        return _refuse(file.uri, error)


def read_export(
    path: Path, root: Path, source: str, settings: ConversationSettings, only_text: bool
) -> Export:
    """Read a file or a folder in the current process, with the hash of the bytes that were read.

    It raises ``ReadError`` if it cannot be opened. A part of a folder that is written meanwhile has another hash at the
    next run, which reads the folder again. For ``only_text``, see :func:`read_opened`.
    """
    if path.is_dir():
        sha256 = describe_file(ListedFile(source, path, root)).sha256
        export = read_opened(nullcontext(open_folder(path, source, settings, root)), source)
        export.sha256 = sha256
        return export
    with open_inside(root, path) as file:
        before, latest_year = state_of(file), latest_year_of(os.fstat(file.fileno()).st_mtime)
        export = read_opened(open_parts(file, source, settings, latest_year), source, only_text=only_text)
        file.seek(0)
        export.sha256, export.latest_year = hashlib.file_digest(file, "sha256").hexdigest(), latest_year
        if state_of(file) != before:
            reason = "another program was writing to it; the next run reads it again"
            # The hash is that of no file, so that the next run finds it changed.
            export = Export(source=source, status="failed", reason=reason, sha256="")
        return export


def read_opened(opening: AbstractContextManager[Opened], source: str, *, only_text: bool = False) -> Export:
    """Read the parts of one export in the current process, or refuse all but a text of WhatsApp."""
    format_name = None
    try:
        with opening as opened:
            if only_text and not (opened.is_single and WHATSAPP.find(opened)):
                raise ReadError(_OTHER, code=_OTHER)
            if _is_blank(opened):
                return Export(source=source, status="empty", reason="it is empty")
            found = find_format(opened)
            if found is None:
                content = opened.head() if opened.is_single else MAGIC
                raise ReadError(describe_unread_chat(content), code="foreign")
            if only_text and found[0] is not WHATSAPP:
                raise ReadError(_OTHER, code=_OTHER)
            format_name = found[0].name
            read = found[0].read(opened, found[1])
            export = read if isinstance(read, Export) else collect_items(read, opened.settings.timezone)
    except ReadError as error:
        export = _refuse(source, error)
        export.format = format_name
        return export
    export.source, export.format = source, format_name
    _describe(export)
    return export


def _is_blank(opened: Opened) -> bool:
    if not opened.is_single:
        return opened.is_maildir and not opened.names
    return not (opened.head().strip(_BLANK) or opened.read(opened.names[0]).strip(_BLANK))


def _describe(export: Export) -> None:
    """Set status and reason of what was read."""
    reasons: list[str | None] = []
    if export.unread:
        line, first = min(export.unread.items())
        lines = count(len(export.unread), "line or record", "lines or records")
        where = f"the first of them {line} ({first}); quarantine lists them after a run"
        reasons.append(f"{lines} could not be read, {where}")
    elif not export.rows.is_empty():
        reasons.append(describe_encoding(export.encoding))
    else:
        reasons.append("it holds no message")
    if export.wordless:
        kinds = ", ".join(f"{number:,} of type {kind}" for kind, number in sorted(export.wordless.items()))
        reasons.append(f"records in which nobody says anything were not read: {kinds}")
    if export.rows.is_empty():
        export.status = "failed" if export.unread else "empty"
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
