"""E-mail: mailboxes (mbox, Maildir), as programs and services export or keep them, and single mails (eml)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from email.message import Message
from pathlib import PurePosixPath
from typing import IO, Final

from backstory.ingest.chats.chat_format import ChatFormat
from backstory.ingest.chats.formats.mail_text import cut_quotes
from backstory.ingest.chats.formats.mail_values import (
    decode_words,
    open_mail,
    read_body,
    read_date,
    read_headers,
    read_people,
)
from backstory.ingest.chats.items import Chat, ChatMessage, Item, Person, Unread, name_chat
from backstory.ingest.chats.opened import Opened

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
_TOO_LARGE: Final = f"it has more than {MOST_MAIL_BYTES >> 20} MiB"


def find_mail(opened: Opened) -> list[str]:
    """Return mailboxes, or mails."""
    if opened.is_maildir:
        return list(opened.names)
    found = []
    for name in opened.names:
        if opened.is_single or PurePosixPath(name).suffix.lower() == ".mbox":
            head = opened.head(name).content
            if is_mailbox(head) or (opened.is_single and is_mail(head)):
                found.append(name)
    return found


def read_mail(opened: Opened, found: list[str]) -> Iterator[Item]:
    """Read all mails."""
    for name in found:
        for item in _read_mailbox(opened, name):
            if isinstance(item, Unread) and opened.is_maildir:
                yield Unread(f"{name}: {item.reason}")
            else:
                yield item


def _read_mailbox(opened: Opened, name: str) -> Iterator[Item]:
    try:
        for content in _split(opened, name):
            if content is None:
                yield Unread(_TOO_LARGE)
            else:
                yield from _read(content, opened.conversation)
    except OSError as error:
        if not opened.is_maildir:
            raise
        is_gone = isinstance(error, FileNotFoundError)
        yield Unread(
            _MOVED if is_gone else f"it cannot be opened ({error.strerror}); make it readable, or remove it"
        )


def _split(opened: Opened, name: str) -> Iterator[bytes | None]:
    is_many = is_mailbox(opened.head(name).content)
    with opened.open(name) as file:
        if is_many:
            yield from split_mailbox(file)
        else:
            content = file.read(MOST_MAIL_BYTES + 1)
            yield content if len(content) <= MOST_MAIL_BYTES else None


def _read(content: bytes, mailbox: str) -> Iterator[Item]:
    """Read one mail: the list or mailbox, the people, and the message."""
    try:
        mail = open_mail(content)
        headers = read_headers(mail)
        chat = _find_chat(headers, mailbox)
        sender = _find_sender(headers)
        people = [
            sender,
            *(_make_person(*one) for field in _TO for one in read_people(headers.get(field, ""))),
        ]
        message = _read_message(mail, headers, chat, sender)
    except ValueError as error:
        yield Unread(str(error))
        return
    yield chat
    yield from (person for person in people if person.name)
    yield message


def _find_chat(headers: Mapping[str, str], mailbox: str) -> Chat:
    """Return the mailing list, else the mailbox."""
    found = _LIST.search(" ".join(headers.get("list-id", "").split()))
    if found is not None:
        identifier = found["id"].lower()
        return Chat(f"mail/list/{identifier}", name_chat(identifier, ""))
    return Chat(f"mail/{mailbox}", name_chat(mailbox, ""))


def _find_sender(headers: Mapping[str, str]) -> Person:
    """Return the author: the address, with the name shown as a further name.

    It raises ``ValueError`` if there is none.
    """
    written = headers.get("from", "")
    obscured = _OBSCURED.fullmatch(" ".join(written.split()))
    if obscured is not None:
        return _make_person(
            decode_words(obscured["shown"] or ""), f"{obscured['name']}@{obscured['host']}".lower()
        )
    for name, address in read_people(written):
        if name or address:
            return _make_person(name, address)
    raise ValueError("the mail has no author")


def _make_person(name: str, address: str) -> Person:
    """Name a person by the address; ``Oak, Ann`` is also ``Ann Oak``."""
    if "@" not in address:
        return Person(name or address)
    if not name or name.lower() == address:
        return Person(address)
    last, comma, first = name.partition(", ")
    return Person(address, (name, f"{first} {last}") if comma and "," not in first else (name,))


def _read_message(mail: Message, headers: Mapping[str, str], chat: Chat, sender: Person) -> ChatMessage:
    """Read the message; the subject is its first line if it begins a thread, or has no other text."""
    sent = read_date(headers.get("date", ""))
    body, has_files = read_body(mail)
    text, subject = cut_quotes(body), decode_words(headers.get("subject", ""))
    answered = _find_id(headers.get("in-reply-to", ""), last=False) or _find_id(
        headers.get("references", ""), last=True
    )
    begins = answered is None and _ANSWER.match(subject) is None
    if begins or not text:
        text = "\n\n".join(filter(None, (subject, text)))
    if not text and not has_files:
        raise ValueError("the mail has neither a subject nor a text")
    return ChatMessage(
        sent=sent,
        author=sender.name,
        text=text or None,
        kind="media" if has_files else "message",
        chat=chat.key,
        key=_find_id(headers.get("message-id", ""), last=False),
        reply_to=answered,
    )


def _find_id(written: str, *, last: bool) -> str | None:
    found = _ID.findall(written)
    return found[-1 if last else 0] if found else None


MAIL: Final = ChatFormat("mail", find_mail, read_mail)


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
