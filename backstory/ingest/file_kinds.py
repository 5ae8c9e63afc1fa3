"""What kind a file is, by its first bytes and its name, for chats and documents alike, and what to do about it."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Final

from backstory.ingest.zips import MAGIC

HEAD_BYTES: Final = 512
"""Number of bytes at the beginning of a file that are examined."""

_FIRST_BYTES: Final = (
    ((b"%PDF-",), "a PDF file"),
    ((b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF8"), "an image (PNG, JPEG or GIF)"),
    ((b"II*\0", b"MM\0*"), "an image (TIFF)"),
    ((b"OggS", b"ID3"), "a sound file (Ogg or MP3)"),
    ((b"\x1f\x8b", b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07", MAGIC), "an archive (ZIP, gzip, 7z or RAR)"),
    ((b"SQLite format 3\0",), "a database (SQLite)"),
    ((b"PAR1",), "a data file (Parquet)"),
    ((b"{\\rtf",), "a rich text file (RTF)"),
    ((b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",), "a file of Microsoft Office before 2007"),
)
"""First bytes of file types."""

_NO_EXPORTS: Final = (
    ".pdf .vcf .apk .exe .dmg .docx .docm .dotx .doc .dot .odt .pages .rtf .xlsx .xlsm .xlsb .xls .xlt .ods .numbers "
    ".pptx .ppt .pps .odp .key .epub .mobi .azw3 .png .jpg .jpeg .gif .webp .svg .tif .tiff .bmp .heic .heif .avif "
    ".ico .mp3 .m4a .wav .ogg .oga .opus .flac .aac .amr .caf .wma .mp4 .m4v .mpg .mpeg .mov .mkv .webm .avi .3gp "
    "thumbs.db desktop.ini"
)
"""Endings of files that people send in chats, and of those of operating systems."""
NO_EXPORT: Final = (
    "a picture, a recording, a document or the like, which is no export of a chat; if it holds one, export that from "
    "the app as text"
)
"""Why such a file is never opened as an export."""


def name_kind(uri: str, head: bytes) -> str:
    """Return the kind of a file by its first bytes, such as ``a PDF file``, else by the ending of its name."""
    if not head.startswith(MAGIC) and (kind := name_binary_kind(head)) is not None:
        return kind
    suffix = PurePosixPath(uri).suffix.lower()
    return f"a file of a kind that is not read ({suffix or 'no ending in its name'})"


def name_binary_kind(head: bytes) -> str | None:
    """Return the kind of a binary file by its first bytes; None for a text or an unknown kind."""
    if head.startswith(b"RIFF"):
        return {b"WEBP": "an image (WebP)", b"WAVE": "a sound file (WAV)"}.get(head[8:12])
    if head[4:8] == b"ftyp":
        return "an image (HEIF)" if head[8:11] in (b"hei", b"avi", b"mif") else "a video"
    return next((kind for magic, kind in _FIRST_BYTES if head.startswith(magic)), None)


def is_no_export(name: str) -> bool:
    """Return whether a file is no export of a chat by the ending of its name."""
    return name.lower().endswith(tuple(_NO_EXPORTS.split()))


_BLANK: Final = b"\xef\xbb\xbf \t\r\n"
_AS_TABLE: Final = (
    "Write its messages as a table with the columns timestamp, author and message (CSV, or JSON with one object per "
    "line), and put that here"
)
_AS_JSON: Final = "Export it again with the format JSON (machine-readable), and put that here"
_FOREIGN: Final = (
    (rb"={20,}\s+Guild: ", "a text of DiscordChatExporter", _AS_JSON),
    (rb'"?AuthorID"?,"?Author"?,"?Date"?,"?Content', "a table of DiscordChatExporter", _AS_JSON),
    (rb"<.*chatlog__message", "a web page of DiscordChatExporter", _AS_JSON),
    (rb"<.*(?:message default|tgme_widget_message)", "a web page that Telegram exported", _AS_JSON),
    (rb"<.*(?:\b_a6-g\b|uiBoxWhite noborder)", "a web page of Instagram or Messenger", _AS_JSON),
    (rb"\[LINE\] ?\S", "a chat that LINE exported", _AS_TABLE),
    (rb"<\?xml.{0,500}<smses ", "a backup of text messages (XML)", _AS_TABLE),
    (rb'\{.*"(?:senderName|threadName)"', "a Messenger export of end-to-end encrypted chats", _AS_TABLE),
    (rb'\[.*"(?:client_msg_id"|ts"\s*:\s*"\d+\.)', "a day of a Slack export without users.json", _AS_TABLE),
)
"""Beginnings of what other programs export, with its name and what to do."""
_UNREAD: Final = "which Backstory does not read (docs/reference/chat-formats.md lists what it reads)"


def describe_foreign(head: bytes) -> str | None:
    """Describe a text that another program exported in a form which is not read; None for any other file."""
    for pattern, kind, advice in _FOREIGN:
        if re.match(pattern, head.lstrip(_BLANK), re.DOTALL):
            return f"{kind}, {_UNREAD}. {advice}"
    return None


def describe_unread_chat(head: bytes) -> str:
    """Describe a file among chats that no reader supports, by its beginning, and say what to do."""
    head = head.lstrip(_BLANK)
    kind = "a file that is neither a chat nor a table"
    advice = f"{_AS_TABLE}; or move the file out of the folder if it is no chat"
    if head.startswith(MAGIC):
        kind, advice = "an archive or a folder without a chat", "Unpack it and put the chat's own file here"
    elif (binary := name_binary_kind(head)) is not None:
        kind, advice = binary, "Export the chat from the app as text, and put that here"
    elif re.match(rb"<|[{\[]\s*(?:[\"{}\[\]]|$)", head):
        kind, advice = "a web page, XML, or JSON that is not one object per line", _AS_TABLE
    return f"{kind}, {_UNREAD}. {advice}"


def names_chat(description: str | None) -> bool:
    """Return whether a description is that of a chat that another app exported."""
    return description is not None and description.startswith(tuple(kind for _, kind, _ in _FOREIGN))
