"""Telegram: ``result.json`` of Telegram Desktop, of one chat or of a whole account."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import IO, Any, Final

from backstory.ingest.chats.chat_format import ChatFormat, find_marked
from backstory.ingest.chats.formats.table_values import read_timestamp
from backstory.ingest.chats.items import Chat, ChatMessage, Item, Person, Unread, name_chat
from backstory.ingest.chats.json_stream import OPENED, as_object, first_text, list_objects, stream_json
from backstory.ingest.chats.opened import Opened

_SINGLE: Final = "messages.item"
_LISTS: Final = ("chats.list.item", "left_chats.list.item")
_RECORDS: Final = frozenset([_SINGLE, *(f"{chat}.messages.item" for chat in _LISTS)])
_MARKS: Final = (
    frozenset(["messages.item.date_unixtime", "messages.item.type"]),
    frozenset(["messages.item.from_id", "messages.item.type"]),
    frozenset(["messages.item.actor_id", "messages.item.type"]),
    frozenset(["chats.list.item.messages.item.type"]),
    frozenset(["about", "personal_information"]),
    frozenset(["about", "chats.about"]),
)
"""Paths of values; an export holds all paths of one of these."""

_FILE: Final = re.compile(r"result\.json")
_PERSONAL: Final = frozenset(
    ["personal_chat", "bot_chat", "saved_messages", "replies", "verification_codes", "private_group"]
)
"""Chats whose messages have another number in every account."""

_UNNAMED: Final = _PERSONAL - {"private_group"}
"""Chats whose name is that of a person."""

_MEDIA: Final = (
    "photo",
    "file",
    "media_type",
    "location_information",
    "contact_information",
    "contact_vcard",
)


class _ChatState:
    """The chat whose messages are being read.

    Attributes:
        head: Name, type and id of the chat, as far as they were read.
        keys: Keys of its messages by their number, for chats in which an answer must look them up.
        counts: Number of messages per author and second in such a chat.
    """

    def __init__(self) -> None:
        self.head: dict[str, Any] = {}
        self.keys: dict[int, str] = {}
        self.counts: dict[str, int] = {}

    @property
    def kind(self) -> str:
        return str(self.head.get("type") or "")

    @property
    def identifier(self) -> str | None:
        """The id of the chat; of a chat without one its name."""
        found = self.head.get("id") or self.head.get("name")
        return str(found) if isinstance(found, int | str) else None

    @property
    def key(self) -> str | None:
        return self.identifier and f"telegram/{self.identifier}"

    def describe(self) -> Chat | None:
        """Return the chat; None if the export does not identify it."""
        if self.key is None or self.identifier is None:
            return None
        name = self.kind if self.kind in _UNNAMED else self.head.get("name")
        has_both = isinstance(name, str) and name != self.identifier
        return Chat(self.key, name_chat(name if has_both else None, self.identifier))

    def number(self, record: Mapping[str, Any]) -> tuple[str | None, str | None]:
        """Return the keys of a message and of the one that it answers.

        In a group without a public history and in a chat of two, each account numbers the messages in its own way. So
        the author and the second of sending identify a message there, and its place among those of the same second.
        """
        number, answered = record.get("id"), record.get("reply_to_message_id")
        if self.key is None or not isinstance(number, int):
            return None, None
        if not isinstance(answered, int) or "reply_to_peer_id" in record:
            answered = None
        if self.kind not in _PERSONAL:
            return str(number), None if answered is None else str(answered)
        author = record.get("from_id") or record.get("actor_id") or record.get("from")
        moment = f"{author}/{record.get('date_unixtime') or record.get('date')}"
        self.counts[moment] = self.counts.get(moment, 0) + 1
        self.keys[number] = f"{moment}/{self.counts[moment]}"
        return self.keys[number], None if answered is None else self.keys.get(answered)


def read_telegram(opened: Opened, found: list[str]) -> Iterator[Item]:
    """Read the messages of all chats."""
    for name in found:
        with opened.open(name) as file:
            yield from _read_file(file)


def _read_file(file: IO[bytes]) -> Iterator[Item]:
    state, is_reported = _ChatState(), False
    for path, value in stream_json(file, _RECORDS):
        if path in _RECORDS:
            if not is_reported and (chat := state.describe()) is not None:
                yield chat
            is_reported = True
            yield from _read_record(value, state)
        elif value is OPENED and (path in _LISTS or path == ""):
            state, is_reported = _ChatState(), False
        else:
            place, _, field = path.rpartition(".")
            if place in ("", *_LISTS) and field in ("name", "type", "id"):
                state.head[field] = value


def _read_record(record: Any, state: _ChatState) -> Iterator[Item]:
    if not isinstance(record, dict):
        yield Unread("the record is no object")
        return
    try:
        item = _read_message(record, state)
    except ValueError as error:
        yield Unread(str(error))
        return
    for name in _list_people(record):
        yield Person(name)
    yield item


def _read_message(record: Mapping[str, Any], state: _ChatState) -> ChatMessage:
    kind = record.get("type")
    if kind not in ("message", "service"):
        raise ValueError("the record is neither a message nor a service message")
    sent = _read_time(record, "date")
    key, reply_to = state.number(record)
    if kind == "service":
        action = str(record.get("action") or "event").replace("_", " ")
        return ChatMessage(sent, None, action, "system", chat=state.key, key=key)
    text = _read_text(record)
    is_media = any(name in record for name in _MEDIA) or not text
    is_edited = "edited" in record or "edited_unixtime" in record
    return ChatMessage(
        sent=sent,
        author=_read_author(record),
        author_id=first_text(record.get("from_id")),
        text=text or None,
        kind="media" if is_media else "message",
        chat=state.key,
        key=key,
        reply_to=reply_to,
        reactions=_read_reactions(record.get("reactions")),
        is_edited=is_edited,
        edited=_read_time(record, "edited") if is_edited else None,
    )


def _read_time(record: Mapping[str, Any], field: str) -> datetime:
    """Read the exact time if there is one, else the time on the clock of the computer that exported the chat."""
    exact = record.get(f"{field}_unixtime")
    if exact is None:
        return read_timestamp(record.get(field))
    try:
        return datetime.fromtimestamp(int(exact), UTC)
    except (TypeError, ValueError, OverflowError, OSError) as error:
        raise ValueError("the timestamp is not a number of seconds since 1970") from error


def _read_author(record: Mapping[str, Any]) -> str:
    """Return the author's name; of a deleted account, its id."""
    for field in ("from", "from_id"):
        if isinstance(name := record.get(field), str) and name.strip():
            return name
    raise ValueError("there is no author")


def _read_text(record: Mapping[str, Any]) -> str:
    """Return the text, and what stands in the fields of a poll, a list of tasks, a place, a contact, or a game."""
    written = record.get("text", "")
    parts = written if isinstance(written, list) else [written]
    lines = ["".join(map(_read_part, parts))]
    poll, tasks = as_object(record.get("poll")), as_object(record.get("todo_list"))
    for title, points in (
        (poll.get("question"), poll.get("answers")),
        (tasks.get("title"), tasks.get("answers")),
    ):
        lines += [
            _read_part(title or ""),
            *(f"- {_read_part(point.get('text', ''))}" for point in list_objects(points)),
        ]
    sold = as_object(record.get("invoice_information"))
    named = (record.get("place_name"), record.get("address"), _name_contact(record), record.get("game_title"))
    lines += [part for part in (*named, sold.get("title"), sold.get("description")) if isinstance(part, str)]
    return "\n".join(filter(None, lines))


def _name_contact(record: Mapping[str, Any]) -> str:
    """Return the name of the person whose contact was sent."""
    contact = as_object(record.get("contact_information"))
    return " ".join(filter(None, (first_text(contact.get(name)) for name in ("first_name", "last_name"))))


def _read_part(part: Any) -> str:
    """Return a part of a text: text, or an object with a type and a text."""
    if isinstance(part, str):
        return part
    text = part.get("text") if isinstance(part, dict) else None
    if not isinstance(text, str):
        raise ValueError(  # noqa: TRY004 - the value is data of the file
            "a part of the text is neither text nor an object with a text"
        )
    if part.get("type") == "mention_name":
        return f"@{text.removeprefix('@')}"
    link = part.get("href")
    return f"{text} ({link})" if part.get("type") == "text_link" and isinstance(link, str) else text


def _list_people(record: Mapping[str, Any]) -> Iterator[str]:
    """List the names of people in a message beside its author's: mentioned, added, and forwarded from."""
    text = record.get("text")
    for part in text if isinstance(text, list) else ():
        if isinstance(part, dict) and part.get("type") in ("mention", "mention_name"):
            yield str(part.get("text")).removeprefix("@")
    members = record.get("members")
    names = [*(members if isinstance(members, list) else []), _name_contact(record)]
    # The name of a channel is often the subject of its messages, which must stay in the texts.
    roles = ("actor", "forwarded_from")
    names += [record.get(role) for role in roles if str(record.get(f"{role}_id")).startswith("user")]
    yield from (name for name in names if isinstance(name, str) and name.strip())


def _read_reactions(reactions: Any) -> tuple[tuple[str, int], ...]:
    """Return emoji and counts; a custom emoji has no name in the export."""
    found = []
    for reaction in reactions if isinstance(reactions, list) else ():
        if isinstance(reaction, dict) and isinstance(count := reaction.get("count"), int):
            emoji = reaction.get("emoji")
            found.append((emoji if isinstance(emoji, str) and emoji else f":{reaction.get('type')}:", count))
    return tuple(found)


TELEGRAM: Final = ChatFormat("telegram", partial(find_marked, marks=_MARKS, named=_FILE), read_telegram)
