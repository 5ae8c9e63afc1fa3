"""Descriptions of unsupported files: what kind they are, and what the user can do."""

from __future__ import annotations

import io
import lzma
import re
import struct
import zipfile
import zlib
from typing import Final

from backstory.base import VERSION

DAMAGED_ARCHIVE: Final = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, OSError, NotImplementedError, ValueError,
    OverflowError, RuntimeError,
)  # fmt: skip
"""Errors that the standard library raises for damaged archives: a position before the file's beginning, damaged
bzip2, an unknown compression method, a name that cannot be decoded."""

_MEDIA: Final = {
    "a picture": "jpg jpeg png gif webp heic heif bmp tif tiff svg avif",
    "a sound recording": "opus ogg oga m4a mp3 wav aac amr flac caf wma",
    "a video": "mp4 3gp mov mkv avi webm m4v mpg mpeg",
    "a contact card": "vcf",
    "a PDF": "pdf",
    "a Word document": "doc docx odt rtf pages",
    "a spreadsheet": "xls xlsx ods numbers",
    "a presentation": "ppt pptx odp key",
    "an e-book": "epub mobi",
    "a program": "apk exe dmg",
}
_BY_SUFFIX: Final = {suffix: kind for kind, suffixes in _MEDIA.items() for suffix in suffixes.split()}
"""File types that people send in chats; such a file is never opened."""

_SIGNATURES: Final = (
    (b"%PDF", "a PDF"),
    (b"SQLite format 3\0", "an SQLite database, such as WhatsApp's own msgstore.db"),
    (b"\xff\xd8\xff", "a picture"),
    (b"\x89PNG", "a picture"),
    (b"GIF8", "a picture"),
    (b"OggS", "a sound recording"),
    (b"ID3", "a sound recording"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"7z\xbc\xaf", "a 7-Zip archive"),
    (b"Rar!", "a RAR archive"),
    (b"\xd0\xcf\x11\xe0", "a Microsoft Office document"),
    (b"{\\rtf", "a Word document"),
)
_JSON_KINDS: Final = (
    (rb'"senderName"|"threadName"', "a Messenger export of end-to-end encrypted chats (JSON)"),
    (rb'"client_msg_id"|"ts"\s*:\s*"\d+\.\d+"', "a day of a Slack export (JSON) without its users.json"),
)  # fmt: skip
_SLACK_WITHOUT_LISTS: Final = "a Slack export (ZIP) without a list of users or of channels"
_CHAT_KINDS: Final = (_SLACK_WITHOUT_LISTS, *(kind for _, kind in _JSON_KINDS))
_AS_TABLE: Final = (
    "Write its messages as a table with the columns timestamp, author and message (CSV, or JSON with one object per "
    "line), and put that here"
)
_AS_JSON: Final = "Export it again as JSON"
_FOREIGN: Final = (
    (
        rb"={20,}\s+Guild: [^\n]*\s+Channel: ",
        "the plain text of DiscordChatExporter",
        f"{_AS_JSON} (`-f Json`)",
    ),
    (
        rb'"?AuthorID"?,"?Author"?,"?Date"?,"?Content',
        "the table of DiscordChatExporter",
        f"{_AS_JSON} (`-f Json`)",
    ),
    (rb"(?s)<.*chatlog__message", "a web page of DiscordChatExporter", f"{_AS_JSON} (`-f Json`)"),
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
)
"""Beginnings of what other programs export, with its name and what to do."""

_BACKUP: Final = re.compile(r"\.crypt\d+$")
_HEAD_BYTES: Final = 65_536

_EXPORT_AS_TEXT: Final = "Export the chat from the app as text, and put that here"
_READ_AS: Final = (
    "WhatsApp text or ZIP, Telegram JSON, Slack folder or ZIP, Parquet, CSV, JSON lines, Discord JSON, "
    "Instagram and Messenger JSON, ChatGPT and Claude conversations.json, Matrix JSON, "
    "Signal text or signal-cli JSON, logs of irssi, WeeChat and ZNC, transcripts of meetings (VTT), "
    "chats of Zoom and Meet, mbox, Maildir, eml"
)


def kind_of_name(name: str) -> str | None:
    """Return the type of a chat attachment by the suffix of its name; None for any other file."""
    return _BY_SUFFIX.get(name.rpartition(".")[2].lower()) if "." in name else None


def describe_unsupported(content: bytes, name: str) -> str:
    """Describe a file that no reader supports, and say what to do."""
    kind, advice = _find_kind(content, name)
    return f"{kind}; Backstory {VERSION} has no reader for it (known: {_READ_AS}). {advice}"


def describe_foreign(content: bytes) -> str | None:
    """Describe a text that another program exported in a form which is not read; None for any other file."""
    head = content[:_HEAD_BYTES].lstrip(b"\xef\xbb\xbf \t\r\n")
    for pattern, kind, advice in _FOREIGN:
        if re.match(pattern, head):
            return f"{kind}, in a form that Backstory does not read. {advice}"
    return None


def names_chat(description: str | None) -> bool:
    """Return whether a description by :func:`describe_unsupported` is that of a chat that another app exported."""
    return description is not None and description.startswith(
        (*_CHAT_KINDS, *(kind for _, kind, _ in _FOREIGN))
    )


def describe_media(kind: str) -> str:
    """Explain why a file of a type that people send in chats was not read as an export."""
    return (
        f"{kind} outside a chat's own folder; Backstory {VERSION} has no reader for it (known: {_READ_AS}). "
        "Move it out of the folder, or into the subfolder of the chat that it was sent in"
    )


def _find_kind(content: bytes, name: str) -> tuple[str, str]:
    head = content[:_HEAD_BYTES]
    if _BACKUP.search(name.lower()):
        return "an encrypted backup of WhatsApp", _EXPORT_AS_TEXT
    if content.startswith(b"PK\x03\x04"):
        return _find_archive_kind(content)
    for signature, kind in _SIGNATURES:
        if head.startswith(signature):
            return kind, _EXPORT_AS_TEXT
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text.startswith((b"{", b"[")):
        found = (kind for pattern, kind in _JSON_KINDS if re.search(pattern, head))
        return next(found, "JSON that is not one object per line"), _AS_TABLE
    if text.startswith(b"<"):
        is_page = re.search(rb"<html|<!doctype html", text[:1000], re.IGNORECASE)
        return ("a web page" if is_page else "XML"), _AS_TABLE
    if b"\0" in head:
        return "a binary file of an unknown type", "Move it out of the folder"
    return (
        "a text that is neither a WhatsApp chat nor a table",
        "Export the chat again, or move the file out of the folder if it is no chat",
    )


def _find_archive_kind(content: bytes) -> tuple[str, str]:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = [entry.filename for entry in archive.infolist()]
    except DAMAGED_ARCHIVE:
        return "a damaged ZIP archive", _EXPORT_AS_TEXT
    last_names = {name.rpartition("/")[2] for name in names}
    if "users.json" in last_names:
        return _SLACK_WITHOUT_LISTS, "Export the workspace again"
    if "[Content_Types].xml" in last_names:
        return "a Microsoft Office document", _EXPORT_AS_TEXT
    return "a ZIP archive without a WhatsApp chat", "Unpack it and put the chat's text here"
