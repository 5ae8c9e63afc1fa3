"""E-mail: mailboxes (mbox, Maildir), as programs and services export or keep them, and single mails (eml)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC
from email import message_from_bytes
from email.errors import HeaderParseError
from email.header import decode_header
from email.message import Message
from email.utils import getaddresses, parsedate_to_datetime
from functools import partial
from itertools import chain, pairwise
from typing import IO, Final, cast

from backstory.base.errors import InputError, ReadError
from backstory.ingest.chats.export import Chat, ChatMessage, Item, Person, Unread, name_chat
from backstory.ingest.chats.export_files import ChatFormat, Opened, conversation_of
from backstory.ingest.chats.formats.mail_text import cut_quotes, read_html
from backstory.ingest.chats.formats.tables import read_timestamp
from backstory.text.encoding import decode_line

_ID: Final = re.compile(r"<([^<>\s]{1,998})>")
_ANSWER: Final = re.compile(r"(?:\w{1,4}(?:\[\d+\])?\s?[:\uff1a]\s*)+", re.IGNORECASE)
"""``Re:``, ``AW:``, ``Fwd:`` and the like before a subject."""

_OBSCURED: Final = re.compile(r"^(\S{1,64}) at (\S{1,190}\.\w{2,24})(?= \(|$)")
"""An address as the archives of Mailman write it: ``ann at example.org (Ann Oak)``."""

_PEOPLE: Final = ("from", "to", "cc", "reply-to", "sender")
_UNREADABLE: Final = (ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError)
"""Errors that the standard library raises for mails that follow no standard."""

_PLAIN: Final = ("text/plain", "text/markdown", "text/enriched")
_STUFFED: Final = re.compile("^ ", re.MULTILINE)
_WRAPPED: Final = re.compile(r"^(?!>|-- $)(.*) \n(?!>|-- $)", re.MULTILINE)
"""A line of the writer that a program wrapped, up to the next one; quotes and signatures stand alone."""

_MOST_MAIL: Final = 64 << 20
_MOST_TEXT: Final = 4 << 20
_MOST_HEADER: Final = 1 << 16
_MOST_LINE: Final = 1 << 20
_BEGINNING: Final = re.compile(rb"From .{1,300}\d\d:\d\d.{0,40}\d{4}\s*", re.DOTALL)
"""Line above a mail in a mailbox."""

_OTHER_BEGINNING: Final = re.compile(rb"From(?P<words> [^\s-]\S*| .*\d\d:\d\d.*)?[\s-]*", re.DOTALL)
"""The same as some programs write it, without the time or the year."""

_ESCAPED: Final = re.compile(rb">+From ")
_FIRST_HEADER: Final = re.compile(
    rb"(?:from|to|date|subject|message-id|received|return-path|delivered-to|mime-version|x-[\w-]{1,70}):",
    re.IGNORECASE,
)
_HEADER: Final = re.compile(rb"([!-9;-~]+):")
_OF_A_MAIL: Final = frozenset([b"to", b"date", b"subject", b"message-id", b"received", b"mime-version"])


def _find(opened: Opened) -> list[str]:
    """Return mailboxes, or mails."""
    if opened.is_maildir or (opened.is_single and _is_mail(opened.head())):
        return list(opened.names)
    names = (name for name in opened.names if opened.is_single or name.lower().endswith(".mbox"))
    return [name for name in names if _is_mailbox(opened.head(name))]


def _is_mailbox(head: bytes) -> bool:
    line, _, rest = head.partition(b"\n")
    return _begins(line, rest, is_apart=True)


def _is_mail(head: bytes) -> bool:
    """Return whether a file begins with the headers of a mail, and with nothing else."""
    block, _, _ = head.replace(b"\r\n", b"\n").partition(b"\n\n")
    found = [_HEADER.match(line) for line in re.split(rb"\n(?![ \t])", block.rstrip())]
    names = {header[1].lower() for header in found if header}
    return all(found) and b"from" in names and len(_OF_A_MAIL & names) > 1


def _read(opened: Opened, found: list[str]) -> Iterator[Item]:
    """Read all mails; of a Maildir, one that cannot be opened costs only itself."""
    for name in found:
        place = f"{name}: " if opened.is_maildir else ""
        try:
            is_mailbox = _is_mailbox(opened.head(name))
            with opened.open(name) as file:
                for content in split_mailbox(file) if is_mailbox else [file.read(_MOST_MAIL + 1)]:
                    yield from _read_mail(content, conversation_of(opened.source), place)
        except ReadError as error:
            if not opened.is_maildir:
                raise
            yield Unread(f"{place}{error}")


def split_mailbox(file: IO[bytes]) -> Iterator[bytes]:
    """Yield each mail of a mailbox; of one that is too large, enough to see that it is.

    A mail begins at a line ``From address date`` after an empty line, or above the first line of headers. In mails,
    such a line has a ``>`` before it, which is taken off.
    """
    mail: list[bytes] = []
    size, is_apart = 0, True
    lines = iter(partial(file.readline, _MOST_LINE), b"")
    for line, below in pairwise(chain(lines, [b""])):
        if line.startswith(b"From") and _begins(line, below, is_apart=is_apart):
            if mail:
                yield b"".join(mail)
            mail, size = [], 0
        elif size <= _MOST_MAIL:
            mail.append(line[1:] if _ESCAPED.match(line) else line)
            size += len(line)
        is_apart = not line.strip()
    if mail:
        yield b"".join(mail)


def _begins(line: bytes, below: bytes, *, is_apart: bool) -> bool:
    """Return whether a mail begins at a line, by the line below it and by whether the one above it is empty."""
    has_header = _FIRST_HEADER.match(below) is not None
    if _BEGINNING.fullmatch(line):
        return is_apart or has_header
    other = _OTHER_BEGINNING.fullmatch(line)
    return has_header and other is not None and (is_apart or other["words"] is None)


def _read_mail(content: bytes, mailbox: str, place: str) -> list[Item]:
    """Read one mail: the list or mailbox, the people, and the message."""
    try:
        if len(content) > _MOST_MAIL:
            raise InputError(f"it has more than {_MOST_MAIL >> 20} MiB")
        mail = message_from_bytes(content)
        headers = _read_headers(mail)
        listed = _ID.findall(headers["list-id"])
        name = listed[-1].lower() if listed else mailbox
        chat = Chat(f"mail/list/{name}" if listed else f"mail/{name}", name_chat(name, ""))
        senders, *others = (_list_people(headers[field]) for field in _PEOPLE)
        # An unquoted name with a comma ("Oak, Ann <ann@example.org>") looks like two people.
        author = min(senders, key=lambda person: "@" not in person.name, default=None)
        if author is None:
            raise InputError("the mail has no author")
        message = _read_message(mail, headers, chat.key, author.name)
        return [chat, *senders, *chain.from_iterable(others), message]
    except _UNREADABLE as error:
        is_known = isinstance(error, InputError)
        reason = (
            error if is_known else "it follows no standard of mails; export it again from another program"
        )
        return [Unread(f"{place}{reason}")]


def _read_headers(mail: Message) -> defaultdict[str, str]:
    """Return the headers by their names in lower case; of several of one name the first."""
    headers: defaultdict[str, str] = defaultdict(str)
    for name, value in mail.raw_items():
        written = " ".join(str(value)[:_MOST_HEADER].split())
        if "\x1b" in written or not written.isascii():
            written = decode_line(written.encode("utf-8", "surrogateescape"))
        headers.setdefault(name.lower(), written)
    return headers


def _list_people(written: str) -> list[Person]:
    """List the people in a header by their addresses; ``Oak, Ann`` is also ``Ann Oak``."""
    people = []
    for shown, stated in getaddresses([_OBSCURED.sub(r"\1@\2", written)]):
        name, address = _decode_words(shown).strip("'\" "), stated.strip().lower()
        last, comma, first = name.partition(", ")
        names = (name, f"{first} {last}") if comma and "," not in first else (name,)
        key = address if "@" in address else name or address
        people.append(Person(key, tuple(one for one in names if one.lower() not in ("", address))))
    return [person for person in people if person.name]


def _decode_words(written: str) -> str:
    """Decode the words of a header (``=?utf-8?q?Brot?=``)."""
    parts: list[tuple[str | bytes, str | None]] = [(written, None)]
    with suppress(HeaderParseError):
        parts = decode_header(written)
    texts = (part if isinstance(part, str) else _decode(part, charset) for part, charset in parts)
    return " ".join("".join(texts).split())


def _read_message(mail: Message, headers: Mapping[str, str], chat: str, author: str) -> ChatMessage:
    """Read the message; the subject is its first line if it begins a thread, or has no other text."""
    try:
        moment = parsedate_to_datetime(headers["date"])
    except _UNREADABLE as error:
        raise InputError("the mail has no date, or none that can be read") from error
    body, has_files = _read_body(mail)
    text, subject = cut_quotes(body), _decode_words(headers["subject"])
    keys, answered, thread = (
        _ID.findall(headers[name]) for name in ("message-id", "in-reply-to", "references")
    )
    reply_to = next(iter(answered[:1] or thread[-1:]), None)
    if not text or not (reply_to or _ANSWER.match(subject)):
        text = f"{subject}\n\n{text}".strip()
    if not text and not has_files:
        raise InputError("the mail has neither a subject nor a text")
    return ChatMessage(
        read_timestamp(moment if moment.tzinfo else moment.replace(tzinfo=UTC)),
        author,
        text or None,
        "media" if has_files else "message",
        chat,
        keys[0] if keys else None,
        reply_to,
    )


def _read_body(mail: Message) -> tuple[str, bool]:
    """Return the text of a mail, and whether it has files; the text of a mail attached to it is not its own."""
    plain: list[str] = []
    web: list[Message] = []
    has_files = False
    parts = [mail]
    while parts:
        part = parts.pop()
        kind = part.get_content_type()
        if part.get_content_maintype() == "multipart" and part.is_multipart():
            parts += reversed(cast("list[Message]", part.get_payload()))
        elif part.get_content_disposition() == "attachment" or part.get_filename() is not None:
            has_files = True
        elif kind in _PLAIN:
            plain.append(_read_text(part))
        elif kind == "text/html":
            web.append(part)
        else:
            has_files = True
    text = "\n".join(plain).strip() or "\n".join(read_html(_read_text(part)) for part in web)
    return text, has_files


def _read_text(part: Message) -> str:
    """Read a text; lines of its writer that a program wrapped (``format=flowed``) are joined."""
    content = cast("bytes", part.get_payload(decode=True))
    if len(content) > _MOST_TEXT:
        raise InputError(f"its text has more than {_MOST_TEXT >> 20} MiB")
    text = _decode(content, part.get_content_charset()).replace("\r\n", "\n").replace("\0", "")
    flow, space = (str(part.get_param(name, "")).lower() for name in ("format", "delsp"))
    if flow == "flowed":
        text = _WRAPPED.sub(r"\1" if space == "yes" else r"\1 ", _STUFFED.sub("", text))
    return text


def _decode(content: bytes, charset: str | None) -> str:
    """Decode bytes as stated, else as those of a line, as also where ASCII is stated, which often holds other letters.

    Many mails in ISO-2022-JP hold letters of Windows that it does not know. Only these are lost.
    """
    if charset and charset != "us-ascii":
        with suppress(LookupError, ValueError):
            return content.decode(charset)
    return decode_line(content)


MAIL: Final = ChatFormat("mail", _find, _read)
