"""E-mail: mailboxes (mbox, Maildir), as programs and services export or keep them, and single mails (eml)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from email import message_from_bytes
from email.errors import HeaderParseError
from email.header import decode_header
from email.message import Message
from email.utils import getaddresses, parsedate_to_datetime
from pathlib import PurePosixPath
from typing import IO, Final

from backstory.ingest.chats.formats.mail_text import cut_quotes, read_html
from backstory.ingest.chats.formats.table_values import read_timestamp
from backstory.ingest.chats.items import Chat, ChatMessage, Item, Person, Unread, name_chat
from backstory.ingest.chats.opened import ChatFormat, Opened
from backstory.text.encoding import find_iso_2022

_LIST: Final = re.compile(r"<(?P<id>[^<>\s]{1,255})>\s*$")
_ID: Final = re.compile(r"<(?P<id>[^<>\s]{1,998})>")
_ANSWER: Final = re.compile(r"(?:\w{1,4}(?:\[\d+\])?\s?[:\uff1a]\s*)+", re.IGNORECASE)
"""``Re:``, ``AW:``, ``Fwd:`` and the like before a subject."""

_OBSCURED: Final = re.compile(
    r"(?P<name>\S{1,64}) at (?P<host>\S{1,190}\.\w{2,24})(?P<rest> \((?P<shown>[^()]{0,200})\))?"
)
"""An address as the archives of Mailman write it: ``ann at example.org (Ann Oak)``."""

_TO: Final = ("to", "cc", "reply-to", "sender")
_MOVED: Final = (
    "the mail was moved or removed while the folder was read; the next run reads it where it is then"
)
MOST_MAIL_BYTES: Final = 64 << 20
"""Maximum size of a mail with its attachments."""
_UNREADABLE: Final = (ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError)
"""Errors that the standard library raises for mails that follow no standard."""

_PLAIN: Final = frozenset(["text/plain", "text/markdown", "text/enriched"])
_REPORTS: Final = frozenset(["message/delivery-status", "message/disposition-notification"])
_SIGNATURE: Final = "-- "
_MOST_TEXT: Final = 1 << 22
_MOST_HEADER: Final = 1 << 16
_WINDOWS: Final = "cp1252"
_ASCII: Final = ("us-ascii", "ascii")
"""What mails state that hold other letters, too."""


def _find(opened: Opened) -> list[str]:
    """Return mailboxes, or mails."""
    if opened.is_maildir:
        return list(opened.names)
    found = []
    for name in opened.names:
        if opened.is_single or PurePosixPath(name).suffix.lower() == ".mbox":
            head = opened.head(name)
            if is_mailbox(head) or (opened.is_single and is_mail(head)):
                found.append(name)
    return found


def _read(opened: Opened, found: list[str]) -> Iterator[Item]:
    """Read all mails; of a Maildir, one that cannot be opened costs only itself."""
    for name in found:
        try:
            for content in _split(opened, name):
                for item in _read_mail(content, opened.conversation):
                    if isinstance(item, Unread) and opened.is_maildir:
                        item = Unread(f"{name}: {item.reason}")
                    yield item
        except OSError as error:
            if not opened.is_maildir:
                raise
            why = f"it cannot be opened ({error.strerror}); make it readable, or remove it"
            yield Unread(f"{name}: {_MOVED if isinstance(error, FileNotFoundError) else why}")


def _split(opened: Opened, name: str) -> Iterator[bytes | None]:
    is_many = is_mailbox(opened.head(name))
    with opened.open(name) as file:
        if is_many:
            yield from split_mailbox(file)
        else:
            content = file.read(MOST_MAIL_BYTES + 1)
            yield content if len(content) <= MOST_MAIL_BYTES else None


def _read_mail(content: bytes | None, mailbox: str) -> Iterator[Item]:
    """Read one mail: the list or mailbox, the people, and the message."""
    try:
        if content is None:
            raise ValueError(f"it has more than {MOST_MAIL_BYTES >> 20} MiB")
        with _naming("the parser cannot read this mail"):
            mail = message_from_bytes(content)
        headers = _read_headers(mail)
        listed = _LIST.search(" ".join(headers.get("list-id", "").split()))
        place = listed["id"].lower() if listed else mailbox
        chat = Chat(f"mail/list/{place}" if listed else f"mail/{place}", name_chat(place, ""))
        sender = _find_sender(headers.get("from", ""))
        others = (_make_person(*one) for field in _TO for one in _list_people(headers.get(field, "")))
        people = [person for person in (sender, *others) if person.name]
        message = _read_message(mail, headers, chat, sender)
    except ValueError as error:
        yield Unread(str(error))
        return
    yield chat
    yield from people
    yield message


@contextmanager
def _naming(problem: str) -> Iterator[None]:
    """Raise a ``ValueError`` in place of what the standard library raises."""
    try:
        yield
    except _UNREADABLE as error:
        raise ValueError(problem) from error


def _read_headers(mail: Message) -> dict[str, str]:
    """Return the headers by their names in lower case; of several of one name the first."""
    headers: dict[str, str] = {}
    for name, value in mail.raw_items():
        written = str(value)[:_MOST_HEADER]
        if "\x1b" in written or not written.isascii():
            written = _decode(written.encode("utf-8", "surrogateescape"), None)
        headers.setdefault(name.lower(), written)
    return headers


def _find_sender(written: str) -> Person:
    """Return the author: the address, with the name shown as a further name.

    It raises ``ValueError`` if there is none.
    """
    if obscured := _OBSCURED.fullmatch(" ".join(written.split())):
        return _make_person(
            _decode_words(obscured["shown"] or ""), f"{obscured['name']}@{obscured['host']}".lower()
        )
    for name, address in _list_people(written):
        return _make_person(name, address)
    raise ValueError("the mail has no author")


def _list_people(written: str) -> list[tuple[str, str]]:
    """List name and address, in lower case, of the people in a header."""
    try:
        people = getaddresses([" ".join(written.split())])
    except _UNREADABLE:
        return []
    read = ((_decode_words(name).strip("'\" "), address.strip().lower()) for name, address in people)
    return [(name, address) for name, address in read if name or address]


def _make_person(name: str, address: str) -> Person:
    """Name a person by the address; ``Oak, Ann`` is also ``Ann Oak``."""
    if "@" not in address:
        return Person(name or address)
    if not name or name.lower() == address:
        return Person(address)
    last, comma, first = name.partition(", ")
    return Person(address, (name, f"{first} {last}") if comma and "," not in first else (name,))


def _decode_words(written: str) -> str:
    """Decode the words of a header (``=?utf-8?q?Brot?=``)."""
    unfolded = " ".join(written.split())
    try:
        parts = decode_header(unfolded)
    except (HeaderParseError, *_UNREADABLE):
        return unfolded
    texts = [part if isinstance(part, str) else _decode(part, charset) for part, charset in parts]
    return " ".join("".join(texts).split())


def _read_message(mail: Message, headers: Mapping[str, str], chat: Chat, sender: Person) -> ChatMessage:
    """Read the message; the subject is its first line if it begins a thread, or has no other text."""
    sent = _read_date(headers.get("date", ""))
    body, has_files = _read_body(mail)
    text, subject = cut_quotes(body), _decode_words(headers.get("subject", ""))
    ids = {name: _ID.findall(headers.get(name, "")) for name in ("message-id", "in-reply-to", "references")}
    answered = ids["in-reply-to"][:1] or ids["references"][-1:]
    if not text or not (answered or _ANSWER.match(subject)):
        text = "\n\n".join(filter(None, (subject, text)))
    if not text and not has_files:
        raise ValueError("the mail has neither a subject nor a text")
    return ChatMessage(
        sent=sent,
        author=sender.name,
        text=text or None,
        kind="media" if has_files else "message",
        chat=chat.key,
        key=next(iter(ids["message-id"]), None),
        reply_to=next(iter(answered), None),
    )


def _read_date(written: str) -> datetime:
    """Read a header with a date.

    It raises ``ValueError`` if it is none.
    """
    if not written.strip():
        raise ValueError("the mail has no date")
    with _naming("the mail has no readable date"):
        moment = parsedate_to_datetime(" ".join(written.split()))
    return read_timestamp(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def _read_body(mail: Message) -> tuple[str, bool]:
    """Return the text of a mail, and whether files are attached.

    It raises ``ValueError`` if the text cannot be read, or has more than 4 MiB.
    """
    with _naming("its parts cannot be read"):
        parts = list(_list_parts(mail))
        files = list(map(_is_file, parts))
        own = [part for part, is_file in zip(parts, files, strict=True) if not is_file]
        plain = [part for part in own if part.get_content_type() in _PLAIN]
        web = [part for part in own if part.get_content_type() == "text/html"]
    text = "\n".join(map(_read_text, plain)).strip() or "\n".join(read_html(_read_text(part)) for part in web)
    return text.replace("\0", ""), any(files)


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
    with _naming("its parts cannot be read"):
        content = part.get_payload(decode=True)
        charset = part.get_content_charset()
        flow, space = (str(part.get_param(name, "")).lower() for name in ("format", "delsp"))
    if not isinstance(content, bytes):
        return ""
    if len(content) > _MOST_TEXT:
        raise ValueError(f"its text has more than {_MOST_TEXT >> 20} MiB")
    text = _decode(content, charset)
    return _unwrap(text, keeps_space=space != "yes") if flow == "flowed" else text


def _unwrap(text: str, *, keeps_space: bool) -> str:
    """Join the lines that a program wrapped (``format=flowed``): those that end with a blank, in equal quotes."""
    lines: list[list[str]] = []
    is_open, depth = False, 0
    for written in text.replace("\r\n", "\n").split("\n"):
        marks = len(written) - len(written.lstrip(">"))
        line = written[marks:].removeprefix(" ")
        if is_open and marks == depth and line != _SIGNATURE:
            if not keeps_space:
                lines[-1][-1] = lines[-1][-1].removesuffix(" ")
            lines[-1].append(line)
        else:
            lines.append([f"{'>' * marks} {line}" if marks else line])
        is_open, depth = line.endswith(" ") and line != _SIGNATURE, marks
    return "\n".join(map("".join, lines))


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


MAIL: Final = ChatFormat("mail", _find, _read)


_BEGINNING: Final = re.compile(rb"From \S.{0,300}\d\d:\d\d.{0,40}\d{4}\s*", re.DOTALL)
_ESCAPED: Final = re.compile(rb">+From ")
_MOST_LINE_BYTES: Final = 1 << 20
_HEAD_BYTES: Final = 1 << 16
_LEAST_HEADERS: Final = 2
_HEADER: Final = re.compile(rb"(?P<name>[!-9;-~]{1,80}):")
_BARE: Final = re.compile(rb"From(?: \S{1,300})?\s*")
"""Line between mails, as some programs write it without the time."""

_COMMON: Final = frozenset(
    b"from to date subject message-id received return-path delivered-to mime-version".split()
)


def is_mailbox(head: bytes) -> bool:
    """Return whether a file begins as a mailbox (mbox) does."""
    line, _, rest = head[:_HEAD_BYTES].partition(b"\n")
    return _begins(line, rest, is_apart=True)


def is_mail(head: bytes) -> bool:
    """Return whether a file begins as a single mail does: with the headers of one."""
    names: list[bytes] = []
    for line in head[:_HEAD_BYTES].split(b"\n"):
        if not line.strip():
            break
        found = _HEADER.match(line)
        if found is None and not (names and line[:1] in b" \t"):
            return False
        if found is not None:
            names.append(found["name"].lower())
    return b"from" in names and len(_COMMON.intersection(names)) > _LEAST_HEADERS


def _begins(line: bytes, below: bytes, *, is_apart: bool) -> bool:
    """Return whether a mail begins at a line, by the line below it and by whether the one above it is empty."""
    if _BEGINNING.fullmatch(line):
        return is_apart or _begins_headers(below)
    return is_apart and _BARE.fullmatch(line) is not None and _begins_headers(below)


def _begins_headers(line: bytes) -> bool:
    found = _HEADER.match(line)
    return found is not None and (found["name"].lower() in _COMMON or found["name"].lower().startswith(b"x-"))


def split_mailbox(file: IO[bytes]) -> Iterator[bytes | None]:
    """Yield each mail of a mailbox; None for one of more than 64 MiB.

    A mail begins at a line ``From address date`` after an empty line, or above the first line of headers. In mails,
    such a line has a ``>`` before it, which is taken off.
    """
    buffer: list[bytes] | None = None
    size, is_blank = 0, True
    following = file.readline(_MOST_LINE_BYTES)
    while line := following:
        following = file.readline(_MOST_LINE_BYTES)
        if line.startswith(b"From") and _begins(line, following, is_apart=is_blank):
            if buffer is not None:
                yield b"".join(buffer) if size <= MOST_MAIL_BYTES else None
            buffer, size = [], 0
            is_blank = False
            continue
        is_blank = not line.strip()
        size += len(line)
        if buffer is not None and size <= MOST_MAIL_BYTES:
            buffer.append(line[1:] if _ESCAPED.match(line) else line)
        elif buffer is not None:
            buffer.clear()
    if buffer is not None:
        yield b"".join(buffer) if size <= MOST_MAIL_BYTES else None
