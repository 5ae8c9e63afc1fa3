"""Headers and bodies of a mail, which may be any bytes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from email import message_from_bytes
from email.errors import HeaderParseError
from email.header import decode_header
from email.message import Message
from email.utils import getaddresses, parsedate_to_datetime
from typing import Final

from backstory.ingest.chats.formats.mail_text import read_html
from backstory.ingest.chats.formats.table_values import read_timestamp
from backstory.text.encoding import find_iso_2022

UNREADABLE: Final = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""Errors that the standard library raises for mails that follow no standard."""

_PLAIN: Final = frozenset(["text/plain", "text/markdown", "text/enriched"])
_REPORTS: Final = frozenset(["message/delivery-status", "message/disposition-notification"])
_SIGNATURE: Final = "-- "
_MOST_TEXT: Final = 1 << 22
_MOST_HEADER: Final = 1 << 16
_WINDOWS: Final = "cp1252"
_ASCII: Final = ("us-ascii", "ascii")
"""What mails state that hold other letters, too."""


class TooLongTextError(ValueError):
    """The text of a mail is too long to be that of a message."""


def open_mail(content: bytes) -> Message:
    """Parse a mail.

    It raises ``ValueError`` if its parts are nested too deeply, or otherwise beyond the parser.
    """
    try:
        return message_from_bytes(content)
    except UNREADABLE as error:
        raise ValueError("the parser cannot read this mail") from error


def read_headers(mail: Message) -> dict[str, str]:
    """Return the headers by their names in lower case, decoded; of several of one name the first."""
    headers: dict[str, str] = {}
    for name, value in mail.raw_items():
        headers.setdefault(name.lower(), str(value)[:_MOST_HEADER])
    return headers


def decode_words(written: str) -> str:
    """Decode the words of a header (``=?utf-8?q?Brot?=``) and bytes that are not ASCII."""
    raw = _decode(written.encode("utf-8", "surrogateescape"), None)
    unfolded = " ".join(raw.split())
    try:
        parts = decode_header(unfolded)
    except (HeaderParseError, *UNREADABLE):
        return unfolded
    texts = [part if isinstance(part, str) else _decode(part, charset) for part, charset in parts]
    return " ".join("".join(texts).split())


def read_people(written: str) -> list[tuple[str, str]]:
    """List name and address, in lower case, of the people in a header."""
    unfolded = " ".join(_decode(written.encode("utf-8", "surrogateescape"), None).split())
    try:
        people = getaddresses([unfolded])
    except UNREADABLE:
        return []
    return [
        (decode_words(name).strip("'\" "), address.strip().lower())
        for name, address in people
        if name or address
    ]


def read_date(written: str) -> datetime:
    """Read a header with a date.

    It raises ``ValueError`` if it is none.
    """
    if not written.strip():
        raise ValueError("the mail has no date")
    try:
        moment = parsedate_to_datetime(" ".join(written.split()))
    except (OverflowError, *UNREADABLE) as error:
        raise ValueError("the mail has no readable date") from error
    return read_timestamp(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def read_body(mail: Message) -> tuple[str, bool]:
    """Return the text of a mail, and whether files are attached.

    It raises ``ValueError`` if the text cannot be read, or has more than 4 MiB.
    """
    plain: list[Message] = []
    web: list[Message] = []
    has_files = False
    try:
        for part in _list_parts(mail):
            if _is_file(part):
                has_files = True
            elif part.get_content_type() == "text/html":
                web.append(part)
            elif part.get_content_type() in _PLAIN:
                plain.append(part)
        text = "\n".join(map(_read_text, plain)).strip()
        written = [] if text else list(map(_read_text, web))
    except TooLongTextError:
        raise
    except UNREADABLE as error:
        raise ValueError("its parts cannot be read") from error
    text = text or "\n".join(map(read_html, written))
    return text.replace("\0", ""), has_files


def _list_parts(mail: Message) -> Iterator[Message]:
    """Yield the parts of a mail; those of a mail that is attached to it are not its own."""
    if mail.get_content_maintype() == "multipart" and isinstance(parts := mail.get_payload(), list):
        for part in (one for one in parts if isinstance(one, Message)):
            yield from _list_parts(part)
    else:
        yield mail


def _is_file(part: Message) -> bool:
    if part.get_content_disposition() == "attachment" or part.get_filename() is not None:
        return True
    return part.get_content_maintype() != "text" and part.get_content_type() not in _REPORTS


def _read_text(part: Message) -> str:
    content = part.get_payload(decode=True)
    if not isinstance(content, bytes):
        return ""
    if len(content) > _MOST_TEXT:
        raise TooLongTextError(f"its text has more than {_MOST_TEXT >> 20} MiB")
    text = _decode(content, part.get_content_charset())
    if str(part.get_param("format", "")).lower() != "flowed":
        return text
    return _unwrap(text, keeps_space=str(part.get_param("delsp", "")).lower() != "yes")


def _unwrap(text: str, *, keeps_space: bool) -> str:
    """Join the lines that a program wrapped (``format=flowed``): those that end with a blank, in equal quotes."""
    lines: list[str] = []
    is_open, depth = False, 0
    for written in text.replace("\r\n", "\n").split("\n"):
        marks = len(written) - len(written.lstrip(">"))
        line = written[marks:].removeprefix(" ")
        if is_open and marks == depth and line != _SIGNATURE:
            lines[-1] = (lines[-1] if keeps_space else lines[-1][:-1]) + line
        else:
            lines.append(f"{'>' * marks} {line}" if marks else line)
        is_open, depth = line.endswith(" ") and line != _SIGNATURE, marks
    return "\n".join(lines)


def _decode(content: bytes, charset: str | None) -> str:
    """Decode bytes as stated, else by the escapes of ISO-2022-JP, else as UTF-8, else as Windows-1252.

    Many mails in ISO-2022-JP hold letters of Windows that it does not know. Only these are lost.
    """
    stated = None if charset is None or charset.lower() in _ASCII else charset
    escaped = find_iso_2022(content)
    for encoding in (stated, escaped or "utf-8"):
        try:
            if encoding is not None:
                return content.decode(encoding)
        except (LookupError, ValueError):
            continue
    return content.decode(escaped or _WINDOWS, "replace")
