"""The registry of chat formats, and finding the one whose export a file or folder is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from backstory.base.errors import ReadError
from backstory.ingest.chats.export_files import ChatFormat, Opened
from backstory.ingest.chats.formats.assistants import CHATGPT, CLAUDE
from backstory.ingest.chats.formats.discord import DISCORD
from backstory.ingest.chats.formats.irc import IRC
from backstory.ingest.chats.formats.mail import MAIL
from backstory.ingest.chats.formats.matrix import MATRIX
from backstory.ingest.chats.formats.meetings import TRANSCRIPT, ZOOM_CHAT
from backstory.ingest.chats.formats.meta import META
from backstory.ingest.chats.formats.signal_cli import SIGNAL
from backstory.ingest.chats.formats.slack import SLACK
from backstory.ingest.chats.formats.tables import CSV, JSON_LINES, PARQUET
from backstory.ingest.chats.formats.telegram import TELEGRAM
from backstory.ingest.chats.formats.whatsapp import WHATSAPP, WHATSAPP_ZIP
from backstory.ingest.file_kinds import describe_foreign

CHAT_FORMATS: Final[tuple[ChatFormat, ...]] = (
    SLACK, TELEGRAM, DISCORD, META, CHATGPT, CLAUDE, MATRIX, SIGNAL,
    # Texts, in which any other text may be quoted.
    MAIL, TRANSCRIPT, ZOOM_CHAT, IRC,
)  # fmt: skip
"""The formats that identify themselves, in the order in which they are tried on an export."""
TABLE_FORMATS: Final = (PARQUET, WHATSAPP, WHATSAPP_ZIP, JSON_LINES, CSV)
"""Those that are tried afterwards, unless the export is that of another program which is not read."""


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
