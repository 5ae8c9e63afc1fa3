"""The registry of chat platforms, and finding the one whose export a file or folder is."""

from __future__ import annotations

import io
from typing import Final

from backstory.base.errors import ReadError
from backstory.ingest.chats.chat_format import ChatFormat
from backstory.ingest.chats.export_parts import ExportParts, open_parts
from backstory.ingest.chats.formats.assistants import CHATGPT, CLAUDE
from backstory.ingest.chats.formats.discord import DISCORD
from backstory.ingest.chats.formats.irc import IRC
from backstory.ingest.chats.formats.mail import MAIL
from backstory.ingest.chats.formats.matrix import MATRIX
from backstory.ingest.chats.formats.meta import META
from backstory.ingest.chats.formats.signal_cli import SIGNAL
from backstory.ingest.chats.formats.slack import SLACK
from backstory.ingest.chats.formats.telegram import TELEGRAM
from backstory.ingest.chats.formats.transcripts import TRANSCRIPT
from backstory.ingest.chats.formats.zoom_chat import ZOOM_CHAT
from backstory.ingest.zips import DAMAGED

_LINE_FORMATS: Final = (MAIL, TRANSCRIPT, ZOOM_CHAT, IRC)
"""Those that are texts, in which any other text may be quoted."""

CHAT_FORMATS: Final[tuple[ChatFormat, ...]] = (
    SLACK,
    TELEGRAM,
    DISCORD,
    META,
    CHATGPT,
    CLAUDE,
    MATRIX,
    SIGNAL,
    *_LINE_FORMATS,
)
"""The platforms, in the order in which they are tried on an export."""


def find_format(parts: ExportParts) -> tuple[ChatFormat, list[str]] | None:
    """Return the format of an export and the parts to read, by names and content; None if no reader knows it.

    It raises ``ReadError`` if an archive with the names of an export has a password, or is too large when unpacked.
    """
    for tried in CHAT_FORMATS:
        try:
            found = tried.find(parts)
        except ReadError:
            raise
        except DAMAGED:  # another reader says what is wrong with the archive
            continue
        if found:
            return tried, found
    return None


def is_line_export(content: bytes) -> bool:
    """Return whether a text is an export whose messages may quote a chat of another format: a mail, or a log."""
    with open_parts(io.BytesIO(content), "") as parts:
        return any(tried.find(parts) for tried in _LINE_FORMATS)
