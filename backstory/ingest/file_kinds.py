"""What kind a file is, by its first bytes and its name, for chats and documents alike, and what to do about it."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Final

from backstory.base import VERSION

HEAD_BYTES: Final = 512
"""Number of bytes at the beginning of a file that are examined."""

_ZIP: Final = b"PK\x03\x04"
_MAGIC: Final = (
    ((b"%PDF-",), "a PDF file"),
    (
        (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF8", b"II*\0", b"MM\0*"),
        "an image (PNG, JPEG, GIF or TIFF)",
    ),
    ((b"OggS", b"ID3"), "a sound file (Ogg or MP3)"),
    ((b"\x1f\x8b", b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07", _ZIP), "an archive (ZIP, gzip, 7z or RAR)"),
    ((b"SQLite format 3\0",), "a database (SQLite)"),
    ((b"PAR1",), "a data file (Parquet)"),
    ((b"{\\rtf",), "a rich text file (RTF)"),
    ((b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",), "a file of Microsoft Office before 2007"),
)
"""First bytes of file types."""

_SENT_IN_CHATS: Final = (
    ".pdf .vcf .apk .exe .dmg .docx .docm .dotx .doc .dot .odt .pages .rtf .xlsx .xlsm .xlsb .xls .xlt .ods .numbers "
    ".pptx .ppt .pps .odp .key .epub .mobi .azw3 .png .jpg .jpeg .gif .webp .svg .tif .tiff .bmp .heic .heif .avif "
    ".ico .mp3 .m4a .wav .ogg .oga .opus .flac .aac .amr .caf .wma .mp4 .m4v .mpg .mpeg .mov .mkv .webm .avi .3gp"
)


def name_kind(uri: str, head: bytes) -> str:
    """Return the kind of a file by its first bytes, such as ``a PDF file``, else by the ending of its name."""
    if not head.startswith(_ZIP) and (kind := name_binary_kind(head)) is not None:
        return kind
    suffix = PurePosixPath(uri).suffix.lower()
    return (
        f"a file of a kind that is not read ({suffix})" if suffix else "a file without an ending in its name"
    )


def name_binary_kind(head: bytes) -> str | None:
    """Return the kind of a binary file by its first bytes; None for a text or an unknown kind."""
    if head.startswith(b"RIFF"):
        return {b"WEBP": "an image (WebP)", b"WAVE": "a sound file (WAV)"}.get(head[8:12])
    if head[4:8] == b"ftyp":
        return "an image (HEIF)" if head[8:11] in (b"hei", b"avi", b"mif") else "a video"
    return next((kind for magic, kind in _MAGIC if head.startswith(magic)), None)


def is_sent_in_chats(name: str) -> bool:
    """Return whether people send files of this name's kind in chats; such a file is never opened as an export."""
    return PurePosixPath(name).suffix.lower() in _SENT_IN_CHATS.split()


_HEAD_OF_CHAT: Final = 65_536
_BLANK: Final = b"\xef\xbb\xbf \t\r\n"
_AS_TABLE: Final = (
    "Write its messages as a table with the columns timestamp, author and message (CSV, or JSON with one object per "
    "line), and put that here"
)
_AS_JSON: Final = "Export it again with the format JSON (machine-readable), and put that here"
_AS_TEXT: Final = "Export the chat from the app as text, and put that here"
_FOREIGN: Final = (
    (rb'={20,}\s+Guild: |"?AuthorID"?,"?Author"?,', "a text or a table of DiscordChatExporter", _AS_JSON),
    (rb"<.*chatlog__message", "a web page of DiscordChatExporter", _AS_JSON),
    (rb"<.*(?:message default|tgme_widget_message)", "a web page that Telegram exported", _AS_JSON),
    (rb"<.*(?:\b_a6-g\b|uiBoxWhite noborder)", "a web page of Instagram or Messenger", _AS_JSON),
    (rb"\[LINE\] ?\S", "a chat that LINE exported", _AS_TABLE),
    (rb"<\?xml.{0,500}<smses ", "a backup of text messages (XML)", _AS_TABLE),
    (rb'\{.*"(?:senderName|threadName)"', "a Messenger export of end-to-end encrypted chats", _AS_TABLE),
    (
        rb'\[.*"(?:client_msg_id"|ts"\s*:\s*"\d+\.\d+")',
        "a day of a Slack export without its users.json",
        _AS_TABLE,
    ),
)
"""Beginnings of what other programs export, with its name and what to do."""
SENT_ELSEWHERE: Final = (
    "a file of a kind that people send in chats, outside of a chat's own folder. Move it out of the folder, or into "
    "the subfolder of the chat that it was sent in"
)
"""Why a file of such a kind is no export, unless it lies beside the chat that it was sent in."""
_READS: Final = (
    f"Backstory {VERSION} has no reader for it (docs/reference/chat-formats.md lists what it reads)"
)


def describe_foreign(content: bytes) -> str | None:
    """Describe a text that another program exported in a form which is not read; None for any other file."""
    head = content[:_HEAD_OF_CHAT].lstrip(_BLANK)
    for pattern, kind, advice in _FOREIGN:
        if re.match(pattern, head, re.DOTALL):
            return f"{kind}, in a form that Backstory does not read. {advice}"
    return None


def describe_unread_chat(content: bytes, name: str) -> str:
    """Describe a file among chats, or a folder, that no reader supports, and say what to do."""
    head = content[:_HEAD_OF_CHAT].lstrip(_BLANK)
    kind = "a file that is neither a chat nor a table"
    advice = "Export the chat again, or move the file out of the folder if it is no chat"
    if name.endswith("/"):
        kind = "a folder like a Slack export, but its users.json is not a list of users"
        advice = "Put the folder here as Slack exported it, or move it out"
    elif ".crypt" in name:
        kind, advice = "an encrypted backup of WhatsApp", _AS_TEXT
    elif head.startswith(_ZIP):
        kind, advice = "a ZIP archive without a chat", "Unpack it and put the chat's text here"
    elif (binary := name_binary_kind(head)) is not None:
        kind, advice = binary, _AS_TEXT
    elif re.match(rb"<|[{\[]\s*(?:[\"{}\[\]]|$)", head):
        kind, advice = "a web page, XML, or JSON that is not one object per line", _AS_TABLE
    return f"{kind}; {_READS}. {advice}"


def names_chat(description: str | None) -> bool:
    """Return whether a description is that of a chat that another app exported."""
    return description is not None and description.startswith(tuple(kind for _, kind, _ in _FOREIGN))
