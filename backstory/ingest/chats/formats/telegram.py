"""Telegram: ``result.json`` of Telegram Desktop, of one chat or of a whole account."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import IO, Any, Final

from backstory.ingest.chats.export import Chat, ChatMessage, Item, Person, name_chat, read_each
from backstory.ingest.chats.export_files import make_json_format
from backstory.ingest.chats.formats.tables import read_timestamp
from backstory.ingest.chats.json_stream import OPENED, Record, stream_json

_LISTS: Final = ("chats.list.item", "left_chats.list.item")
_RECORDS: Final = frozenset(["messages.item", *(f"{chat}.messages.item" for chat in _LISTS)])
_MARKS: Final = (
    frozenset(["messages.item.date_unixtime", "messages.item.type"]),
    frozenset(["messages.item.from_id", "messages.item.type"]),
    frozenset(["messages.item.actor_id", "messages.item.type"]),
    frozenset(["chats.list.item.messages.item.type"]),
    frozenset(["about", "personal_information"]),
    frozenset(["about", "chats.about"]),
)
_FILE: Final = re.compile(r"result\.json")
_UNNAMED: Final = frozenset(["personal_chat", "bot_chat", "saved_messages", "replies", "verification_codes"])
"""Chats whose name is that of a person."""

_PERSONAL: Final = _UNNAMED | {"private_group"}
"""Chats whose messages have another number in every account."""

_SHOWN: Final = (
    "place_name", "address", "game_title", "invoice_information/title", "invoice_information/description",
)  # fmt: skip
_MEDIA: Final = (
    "photo", "file", "media_type", "location_information", "contact_information", "contact_vcard",
)  # fmt: skip


@dataclass
class _ChatState:
    """The chat whose messages are being read, with the keys and counts by which its messages are numbered."""

    head: dict[str, Any] = field(default_factory=dict)
    keys: dict[int, str] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def chat(self) -> Chat | None:
        """The chat by its id, else by its name; None if the export does not identify it."""
        found = self.head.get("id") or self.head.get("name")
        if not isinstance(found, int | str):
            return None
        name = self.head["type"] if self.head.get("type") in _UNNAMED else self.head.get("name")
        has_both = isinstance(name, str) and name != str(found)
        return Chat(f"telegram/{found}", name_chat(name if has_both else None, str(found)))

    def number(self, record: Record) -> tuple[str | None, str | None]:
        """Return the keys of a message and of the one that it answers.

        In a group without a public history and in a chat of two, each account numbers the messages in its own way. So
        the author and the second of sending identify a message there, and its place among those of the same second.
        """
        number, answered = record.get("id"), record.get("reply_to_message_id")
        if not isinstance(number, int):
            return None, None
        if not isinstance(answered, int) or "reply_to_peer_id" in record:
            answered = None
        if self.head.get("type") not in _PERSONAL:
            return str(number), None if answered is None else str(answered)
        author = record.get("from_id") or record.get("actor_id") or record.get("from")
        moment = f"{author}/{record.get('date_unixtime') or record.get('date')}"
        self.counts[moment] += 1
        self.keys[number] = f"{moment}/{self.counts[moment]}"
        return self.keys[number], None if answered is None else self.keys.get(answered)


def _read(files: Iterator[IO[bytes]]) -> Iterator[Item]:
    for file in files:
        state = _ChatState()
        chat: Chat | None = None
        for path, value in stream_json(file, _RECORDS):
            place, _, name = path.rpartition(".")
            if path in _RECORDS:
                if chat is None and (chat := state.chat) is not None:
                    yield chat
                yield from read_each(
                    [value], partial(_read_message, state=state, chat=chat.key if chat else None)
                )
            elif value is OPENED and path in ("", *_LISTS):
                state, chat = _ChatState(), None
            elif place in ("", *_LISTS) and name in ("name", "type", "id"):
                state.head[name] = value


def _read_message(record: Record, state: _ChatState, chat: str | None) -> Iterator[Item]:
    if record.get("type") not in ("message", "service"):
        raise ValueError("the record is neither a message nor a service message")
    sent = _read_time(record, "date")
    key, reply_to = state.number(record) if chat else (None, None)
    yield from map(Person, _list_people(record))
    if record["type"] == "service":
        action = str(record.get("action") or "event").replace("_", " ")
        yield ChatMessage(sent, None, action, "system", chat=chat, key=key)
        return
    text = _read_text(record)
    yield ChatMessage(
        sent=sent,
        author=record.text("from", "from_id"),
        author_id=record.text("from_id"),
        text=text or None,
        kind="media" if any(name in record for name in _MEDIA) or not text else "message",
        chat=chat,
        key=key,
        reply_to=reply_to,
        reactions=record.reactions(lambda one: one.text("emoji") or f":{one.get('type')}:"),
        edited=_read_time(record, "edited") if "edited" in record or "edited_unixtime" in record else None,
    )


def _read_time(record: Record, name: str) -> datetime:
    """Read the exact time if there is one, else the time on the clock of the computer that exported the chat."""
    return read_timestamp(record.get(f"{name}_unixtime") or record.get(name))


def _read_text(record: Record) -> str:
    """Return the text, and what stands in the fields of a poll, a list of tasks, a place, a contact, and the like."""
    written = record.get("text", "")
    said = "".join(map(_read_part, written if isinstance(written, list) else [written]))
    polls = (record.poll("poll"), record.poll("todo_list"))
    return "\n".join(filter(None, [said, *polls, *map(record.text, _SHOWN), _name_contact(record)]))


def _name_contact(record: Record) -> str:
    """Return the name of the person whose contact was sent."""
    contact = record.object("contact_information")
    return " ".join(filter(None, (contact.text("first_name"), contact.text("last_name"))))


def _read_part(part: Any) -> str:
    """Return a part of a text: text, or an object with a type and a text."""
    text = part.get("text") if isinstance(part, Record) else part
    if not isinstance(text, str):
        raise ValueError("a part of the text is no text")  # noqa: TRY004 - the value is data of the file
    kind, link = (part.get("type"), part.text("href")) if isinstance(part, Record) else (None, None)
    if kind == "mention_name":
        return f"@{text.removeprefix('@')}"
    return f"{text} ({link})" if kind == "text_link" and link else text


def _list_people(record: Record) -> Iterator[str]:
    """List the names of people in a message beside its author's: mentioned, added, and forwarded from."""
    parts = record.objects("text")
    mentioned = (part.get("text") for part in parts if part.get("type") in ("mention", "mention_name"))
    members = record.get("members")
    # The name of a channel is often the subject of its messages, which must stay in the texts.
    roles = (role for role in ("actor", "forwarded_from") if str(record.get(f"{role}_id")).startswith("user"))
    names = [*mentioned, *(members if isinstance(members, list) else []), *map(record.get, roles)]
    said = (name.removeprefix("@") for name in (*names, _name_contact(record)) if isinstance(name, str))
    yield from filter(str.strip, said)


TELEGRAM: Final = make_json_format("telegram", _MARKS, _read, _FILE)
