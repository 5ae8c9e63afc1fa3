"""What kind a file is, by its first bytes and its name, for chats and documents alike, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final

from backstory.base import VERSION

HEAD_BYTES: Final = 512
"""Number of bytes at the beginning of a file that are examined."""

_ZIP: Final = b"PK\x03\x04"
_MAGIC: Final = (
    (b"%PDF-", "a PDF file"),
    (b"\x89PNG\r\n\x1a\n", "an image (PNG)"),
    (b"\xff\xd8\xff", "an image (JPEG)"),
    (b"GIF8", "an image (GIF)"),
    (b"II*\0", "an image (TIFF)"),
    (b"MM\0*", "an image (TIFF)"),
    (b"OggS", "a sound file (Ogg)"),
    (b"ID3", "a sound file (MP3)"),
    (b"\x1f\x8b", "an archive (gzip)"),
    (b"7z\xbc\xaf\x27\x1c", "an archive (7z)"),
    (b"Rar!\x1a\x07", "an archive (RAR)"),
    (b"SQLite format 3\0", "a database (SQLite)"),
    (b"PAR1", "a data file (Parquet)"),
    (b"{\\rtf", "a rich text file (RTF)"),
    (
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        "a file of Microsoft Office before 2007",
    ),
    (_ZIP, "an archive (ZIP)"),
)
"""First bytes of file types; the last two belong to several types."""

_SENT_IN_CHATS: Final = {
    "a PDF file": ".pdf",
    "a contact card": ".vcf",
    "a program": ".apk .exe .dmg",
    "a document of an office program": (
        ".docx .docm .dotx .doc .dot .odt .pages .rtf .xlsx .xlsm .xlsb .xls .xlt .ods .numbers .pptx .ppt .pps .odp"
        " .key"
    ),
    "an e-book": ".epub .mobi .azw3",
    "an image": ".png .jpg .jpeg .gif .webp .svg .tif .tiff .bmp .heic .heif .avif .ico",
    "a sound file": ".mp3 .m4a .wav .ogg .oga .opus .flac .aac .amr .caf .wma",
    "a video": ".mp4 .m4v .mpg .mpeg .mov .mkv .webm .avi .3gp",
}
"""Kinds that people send in chats; such a file is never opened as an export."""
_SENT_SUFFIXES: Final = {suffix: kind for kind, listed in _SENT_IN_CHATS.items() for suffix in listed.split()}


def name_kind(uri: str, head: bytes) -> str:
    """Return the kind of a file by its first bytes, such as ``a PDF file``, else by the ending of its name."""
    suffix = PurePosixPath(uri).suffix.lower()
    kind = None if head.startswith(_ZIP) else name_binary_kind(head)
    named = (
        f"a file of a kind that is not read ({suffix})" if suffix else "a file without an ending in its name"
    )
    return kind or named


def name_binary_kind(head: bytes) -> str | None:
    """Return the kind of a binary file by its first bytes; None for a text or an unknown kind."""
    if head.startswith(b"RIFF"):
        return {b"WEBP": "an image (WebP)", b"WAVE": "a sound file (WAV)"}.get(head[8:12])
    if head[4:8] == b"ftyp":
        return "an image (HEIF)" if head[8:11] in (b"hei", b"avi", b"mif") else "a video"
    return next((kind for magic, kind in _MAGIC if head.startswith(magic)), None)


def kind_in_chats(name: str) -> str | None:
    """Return the kind of a file that people send in chats, by its name; None for any other file."""
    return _SENT_SUFFIXES.get(PurePosixPath(name).suffix.lower())


_HEAD_OF_CHAT: Final = 65_536
_BLANK: Final = b"\xef\xbb\xbf \t\r\n"
_AS_TABLE: Final = (
    "Write its messages as a table with the columns timestamp, author and message (CSV, or JSON with one object per "
    "line), and put that here"
)
_AS_DISCORD_JSON: Final = "Export it again as JSON (`-f Json`)"
_AS_TEXT: Final = "Export the chat from the app as text, and put that here"
_FOREIGN: Final = (
    (rb"={20,}\s+Guild: [^\n]*\s+Channel: ", "the plain text of DiscordChatExporter", _AS_DISCORD_JSON),
    (rb'"?AuthorID"?,"?Author"?,"?Date"?,"?Content', "the table of DiscordChatExporter", _AS_DISCORD_JSON),
    (rb"(?s)<.*chatlog__message", "a web page of DiscordChatExporter", _AS_DISCORD_JSON),
    (
        rb"(?s)<.*(?:class=['\"]message default|pull_right date details|tgme_widget_message)",
        "a web page that Telegram exported",
        "Export the chat again from Telegram Desktop with the format JSON (machine-readable); put its result.json here",
    ),
    (
        rb"(?s)<.*(?:class=['\"][^'\"]*\b_a6-g\b|uiBoxWhite noborder)",
        "a web page of Instagram or Messenger",
        "Request the download of your information again, with the format JSON",
    ),
    (rb"\[LINE\] |\[LINE\]\S", "a chat that LINE exported", _AS_TABLE),
    (rb"(?s)<\?xml.{0,500}<smses ", "a backup of text messages (XML)", _AS_TABLE),
    (
        rb'(?s)\{.*"(?:senderName|threadName)"',
        "a Messenger export of end-to-end encrypted chats (JSON)",
        _AS_TABLE,
    ),
    (
        rb'(?s)\[.*"(?:client_msg_id"|ts"\s*:\s*"\d+\.\d+")',
        "a day of a Slack export (JSON) without its users.json",
        _AS_TABLE,
    ),
)
"""Beginnings of what other programs export, with its name and what to do."""
_SLACK_WITHOUT_LISTS: Final = "a Slack export (ZIP) without a list of users or of channels"
_READS: Final = (
    f"Backstory {VERSION} has no reader for it (docs/reference/chat-formats.md lists what it reads)"
)


def describe_foreign(content: bytes) -> str | None:
    """Describe a text that another program exported in a form which is not read; None for any other file."""
    head = content[:_HEAD_OF_CHAT].lstrip(_BLANK)
    for pattern, kind, advice in _FOREIGN:
        if re.match(pattern, head):
            return f"{kind}, in a form that Backstory does not read. {advice}"
    return None


def describe_unread_chat(content: bytes, name: str, parts: Iterable[str]) -> str:
    """Describe a file among chats that no reader supports, and say what to do; ``parts`` are those of an archive."""
    head = content[:_HEAD_OF_CHAT].lstrip(_BLANK)
    kind = "a file that is neither a chat nor a table"
    advice = "Export the chat again, or move the file out of the folder if it is no chat"
    if PurePosixPath(name).suffix.lower().startswith(".crypt"):
        kind, advice = "an encrypted backup of WhatsApp", _AS_TEXT
    elif any(PurePosixPath(part).name == "users.json" for part in parts):
        kind, advice = _SLACK_WITHOUT_LISTS, "Export the workspace again"
    elif head.startswith(_ZIP):
        kind, advice = "a ZIP archive without a chat", "Unpack it and put the chat's text here"
    elif (binary := name_binary_kind(head)) is not None:
        kind, advice = binary, _AS_TEXT
    elif head.startswith(b"<"):
        kind, advice = "a web page, or XML", _AS_TABLE
    elif re.match(rb"[{\[]\s*(?:[\"{}\[\]]|$)", head):
        kind, advice = "JSON that is not one object per line", _AS_TABLE
    return f"{kind}; {_READS}. {advice}"


def describe_sent_file(kind: str) -> str:
    """Explain why a file of a kind that people send in chats was not read as an export."""
    advice = "Move it out of the folder, or into the subfolder of the chat that it was sent in"
    return f"{kind} outside a chat's own folder; {_READS}. {advice}"


def names_chat(description: str | None) -> bool:
    """Return whether a description is that of a chat that another app exported."""
    kinds = (_SLACK_WITHOUT_LISTS, *(kind for _, kind, _ in _FOREIGN))
    return description is not None and description.startswith(kinds)
