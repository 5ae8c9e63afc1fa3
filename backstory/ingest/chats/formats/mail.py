"""E-mail: mailboxes (mbox, Maildir), as programs and services export or keep them, and single mails (eml)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from email.message import Message
from pathlib import PurePosixPath
from typing import Final

from backstory.ingest.chats.chat_format import Chat, ChatFormat, ChatMessage, Item, Person, Unread, name_chat
from backstory.ingest.chats.export_parts import ExportParts
from backstory.ingest.chats.formats.mail_text import cut_quotes
from backstory.ingest.chats.formats.mail_values import (
    decode_words,
    open_mail,
    read_body,
    read_date,
    read_headers,
    read_people,
)
from backstory.ingest.chats.formats.mbox_stream import MOST_MAIL_BYTES, is_mail, is_mailbox, split_mailbox

_HEAD_BYTES: Final = 1 << 16
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
_TOO_LARGE: Final = f"it has more than {MOST_MAIL_BYTES >> 20} MiB"


def find_mail(parts: ExportParts) -> list[str]:
    """Return mailboxes, or mails; see :class:`backstory.ingest.chats.chat_format.ChatFormat`."""
    if parts.is_maildir:
        return list(parts.names)
    found = []
    for name in parts.names:
        if parts.is_single or PurePosixPath(name).suffix.lower() == ".mbox":
            with parts.open(name) as file:
                head = file.read(_HEAD_BYTES)
            if is_mailbox(head) or (parts.is_single and is_mail(head)):
                found.append(name)
    return found


def read_mail(parts: ExportParts, found: list[str]) -> Iterator[Item]:
    """Read all mails; see :class:`backstory.ingest.chats.chat_format.ChatFormat`."""
    reported: set[Chat | Person] = set()
    for name in found:
        for item in _read_mailbox(parts, name):
            if isinstance(item, Unread) and parts.is_maildir:
                yield Unread(f"{name}: {item.reason}")
            elif not isinstance(item, Chat | Person):
                yield item
            elif item not in reported:
                reported.add(item)
                yield item


def _read_mailbox(parts: ExportParts, name: str) -> Iterator[Item]:
    try:
        for content in _split(parts, name):
            if content is None:
                yield Unread(_TOO_LARGE)
            else:
                yield from _read(content, parts.conversation)
    except OSError as error:
        if not parts.is_maildir:
            raise
        is_gone = isinstance(error, FileNotFoundError)
        yield Unread(
            _MOVED if is_gone else f"it cannot be opened ({error.strerror}); make it readable, or remove it"
        )


def _split(parts: ExportParts, name: str) -> Iterator[bytes | None]:
    with parts.open(name) as file:
        is_many = is_mailbox(file.read(_HEAD_BYTES))
    with parts.open(name) as file:
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
