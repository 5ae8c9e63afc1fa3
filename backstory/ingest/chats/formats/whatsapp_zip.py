"""WhatsApp chats exported as a ZIP archive, with or without media, read without unpacking to disk."""

from __future__ import annotations

import io
import zipfile
from pathlib import PurePosixPath

from backstory.base.errors import ReadError
from backstory.ingest.chats.file_kinds import DAMAGED_ARCHIVE
from backstory.ingest.chats.formats.whatsapp import WhatsAppTextReader
from backstory.ingest.chats.reader import ParsedExport
from backstory.ingest.chats.times import KNOWN_YEAR
from backstory.settings.inputs import ConversationSettings

MAX_UNPACKED_BYTES = 256 * 1024 * 1024
"""Maximum size of an unpacked text: enough for a chat of several million messages."""

_IOS_NAME = "_chat.txt"
_HEAD_BYTES = 65_536


class WhatsAppZipReader:
    """Reads the text inside a ZIP export: ``_chat.txt`` from iOS, ``WhatsApp Chat with ….txt`` from Android."""

    name = "whatsapp_zip"

    def __init__(self, *, max_unpacked_bytes: int = MAX_UNPACKED_BYTES) -> None:
        self._max_unpacked_bytes = max_unpacked_bytes
        self._text_reader = WhatsAppTextReader()

    def detects(self, content: bytes, name: str, settings: ConversationSettings) -> bool:
        """Return whether the file is an archive that holds a chat, or an archive that cannot be opened."""
        if not content.startswith(b"PK\x03\x04"):
            return False
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                texts = _list_texts(archive)
                return any(_is_encrypted(text) for text in texts) or bool(self._find_chats(archive, settings))
        except DAMAGED_ARCHIVE:
            return name.lower().endswith(".zip")

    def read(
        self, content: bytes, settings: ConversationSettings, source: str, *, latest_year: int = KNOWN_YEAR
    ) -> ParsedExport:
        """Read the messages; see :class:`backstory.ingest.chats.reader.ExportReader`."""
        text = self._unpack(content, settings, source)
        return self._text_reader.read(text, settings, source, latest_year=latest_year)

    def _unpack(self, content: bytes, settings: ConversationSettings, source: str) -> bytes:
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                is_encrypted = any(_is_encrypted(text) for text in _list_texts(archive))
                chats = [] if is_encrypted else self._choose_chats(archive, settings)
                text = b""
                if len(chats) == 1:
                    with archive.open(chats[0]) as file:
                        text = file.read(self._max_unpacked_bytes + 1)
        except DAMAGED_ARCHIVE as error:
            raise ReadError(f"{source}: a damaged ZIP archive; export the chat again") from error
        if is_encrypted:
            raise ReadError(
                f"{source}: the archive has a password; unpack it and put the text here", code="protected"
            )
        if len(chats) != 1:
            raise ReadError(
                f"{source}: the archive holds {len(chats)} chats; put each into a file of its own",
                code="wrong_count",
            )
        if len(text) > self._max_unpacked_bytes:
            raise ReadError(
                f"{source}: the chat in the archive unpacks to more than {self._max_unpacked_bytes:,} bytes; "
                "unpack it yourself if it is a chat",
                code="too_large",
            )
        return text

    def _choose_chats(
        self, archive: zipfile.ZipFile, settings: ConversationSettings
    ) -> list[zipfile.ZipInfo]:
        """Prefer the file names that WhatsApp uses, since the media of a chat may include other text files."""
        chats = self._find_chats(archive, settings)
        named = [chat for chat in chats if PurePosixPath(chat.filename).name == _IOS_NAME] or [
            chat for chat in chats if "whatsapp" in chat.filename.casefold()
        ]
        return named or chats

    def _find_chats(self, archive: zipfile.ZipFile, settings: ConversationSettings) -> list[zipfile.ZipInfo]:
        chats = []
        for text in _list_texts(archive):
            with archive.open(text) as file:
                head = file.read(_HEAD_BYTES)
            if self._text_reader.detects(head, text.filename, settings):
                chats.append(text)
        return chats


def _list_texts(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    return [
        entry
        for entry in archive.infolist()
        if entry.filename.lower().endswith(".txt")
        and not PurePosixPath(entry.filename).name.startswith(".")
        and "__MACOSX" not in PurePosixPath(entry.filename).parts
    ]


def _is_encrypted(entry: zipfile.ZipInfo) -> bool:
    return bool(entry.flag_bits & 0x1)
