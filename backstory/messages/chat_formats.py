"""The registry of chat platforms, and finding the one whose export a file or folder is."""

from __future__ import annotations

import io
from typing import Final

from backstory.errors import ExportError
from backstory.messages.chat_format import ChatFormat
from backstory.messages.chatgpt import CHATGPT
from backstory.messages.claude import CLAUDE
from backstory.messages.discord import DISCORD
from backstory.messages.export_parts import ExportParts, open_parts
from backstory.messages.file_kinds import DAMAGED_ARCHIVE
from backstory.messages.irc import IRC
from backstory.messages.mail import MAIL
from backstory.messages.matrix import MATRIX
from backstory.messages.meta import META
from backstory.messages.signal_cli import SIGNAL
from backstory.messages.slack import SLACK
from backstory.messages.telegram import TELEGRAM
from backstory.messages.transcripts import TRANSCRIPT
from backstory.messages.zoom_chat import ZOOM_CHAT

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

    Raises:
        ExportError: An archive with the names of an export has a password, or is too large when unpacked.
    """
    for tried in CHAT_FORMATS:
        try:
            found = tried.find(parts)
        except ExportError:
            raise
        except DAMAGED_ARCHIVE:  # another reader says what is wrong with the archive
            continue
        if found:
            return tried, found
    return None


def is_line_export(content: bytes) -> bool:
    """Return whether a text is an export whose messages may quote a chat of another format: a mail, or a log."""
    with open_parts(io.BytesIO(content), "") as parts:
        return any(tried.find(parts) for tried in _LINE_FORMATS)
