"""The items that readers of chat exports read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeAlias

from backstory.ingest.chats.json_stream import Record

_UNFIT: Final = re.compile(r"[\s\x00-\x1f\x7f]+")
_LONGEST_NAME: Final = 80


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat of an export, before its messages.

    ``key``: platform and id, the same in every export. ``name``: that of its conversation; see :func:`name_chat`.
    """

    key: str
    name: str


@dataclass(frozen=True, slots=True)
class Person:
    """Someone whom the export names, by the name as an author, whether or not they wrote.

    ``identifier``: id of the account, if the platform gives ids to people whose names may be alike.
    """

    name: str
    aliases: tuple[str, ...] = ()
    identifier: str | None = None


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message.

    Attributes:
        sent: Time of sending; without a time zone, a time on the clock of the export.
        author: Name as the export shows it; None for lines of the app.
        text: Text with mentions as ``@name``; None for media without a caption.
        kind: ``message``, ``media`` or ``system``.
        chat: Key of the chat; None if the export names none, so that its file is the conversation.
        key: Id of the message, the same in every export that holds it; None if the platform has none.
        reply_to: Key of the message in this chat that it answers.
        reactions: Emoji (of a custom one ``:name:``) and how many people chose it.
        edited: Time of the last change, if there was one; in the form of ``sent``.
        author_id: Id of the author, as that of a :class:`Person`.
    """

    sent: datetime
    author: str | None
    text: str | None
    kind: str = "message"
    chat: str | None = None
    key: str | None = None
    reply_to: str | None = None
    reactions: tuple[tuple[str, int], ...] = ()
    edited: datetime | None = None
    author_id: str | None = None


@dataclass(frozen=True, slots=True)
class Changed:
    """A later form of a message, and when it was changed; the last one by its author counts."""

    message: ChatMessage


@dataclass(frozen=True, slots=True)
class Reacted:
    """A reaction to the message with a key; no emoji takes back what was chosen before.

    ``identifier``: key of the reaction: a later one with the same replaces it, and it may be deleted.
    """

    key: str
    emoji: str
    identifier: str


@dataclass(frozen=True, slots=True)
class Deleted:
    """A message of an export was deleted on the platform: no table holds it, wherever the export does."""

    chat: str | None
    key: str


@dataclass(frozen=True, slots=True)
class Unread:
    """A record that cannot be read, with the reason, which never quotes the record."""

    reason: str


@dataclass(frozen=True, slots=True)
class Wordless:
    """A record of a kind that no table holds and in which no words were found, such as a vote; kinds are counted."""

    kind: str


Item: TypeAlias = Chat | Person | ChatMessage | Changed | Reacted | Deleted | Unread | Wordless


def name_chat(name: str | None, identifier: str) -> str:
    """Name the conversation of a chat by its name, if it has one, and its id, so that two never have one name."""
    parts = (_UNFIT.sub(" ", part or "").strip()[:_LONGEST_NAME].strip() for part in (name, identifier))
    return "-".join(filter(None, parts)) or "chat"


def read_each(
    records: Iterable[Any], read: Callable[[Record], Iterable[Item]], *, place: str = ""
) -> Iterator[Item]:
    """Read records one by one; one for which ``read`` raises ``ValueError`` is unread for that reason."""
    for number, record in enumerate(records, start=1):
        try:
            if not isinstance(record, Record):
                raise ValueError("the record is no object")  # noqa: TRY004 - the value is data of the file
            yield from read(record)
        except ValueError as error:
            yield Unread(f"{place and f'record {number} of {place}: '}{error}")
