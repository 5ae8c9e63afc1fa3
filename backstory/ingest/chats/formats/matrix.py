"""Matrix: the JSON of a room that Element exports, with its events as the server gives them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import IO, Any, Final

from backstory.ingest.chats.chat_format import ChatFormat, find_marked
from backstory.ingest.chats.formats.table_values import read_timestamp
from backstory.ingest.chats.items import (
    Chat,
    ChatMessage,
    Deleted,
    Item,
    Person,
    Unread,
    Wordless,
    name_chat,
    read_each,
)
from backstory.ingest.chats.json_stream import (
    BrokenJsonError,
    as_object,
    first_text,
    list_objects,
    read_content,
    stream_json,
    stream_records,
)
from backstory.ingest.chats.opened import Opened

_RECORDS: Final = "messages.item"
_MARKS: Final = (
    frozenset(["room_name", "room_creator", "exported_by"]),
    frozenset(["messages.item.event_id", "messages.item.origin_server_ts"]),
)
_SAID: Final = frozenset(["m.room.message", "m.room.encrypted", "m.sticker"])
"""Types of what people say. Any other event with words is said, too, unless it is of the state of the room."""

_POLLS: Final = ("m.poll", "m.poll.start", "org.matrix.msc3381.poll.start")
_TEXTS: Final = ("body", "m.text", "org.matrix.msc1767.text", "description")
"""Fields of a text, of which those of a type of its own may list a text for each form in which it is written."""

_BY_CLIENT: Final = ("m.call.", "m.key.", "m.room.")

_MEDIA: Final = frozenset(["m.image", "m.file", "m.audio", "m.video"])
_LEAST_GROUP: Final = 3
_QUOTE: Final = re.compile(r"(?:> [^\n]*\n)+\n?")
"""The message that is answered, as old clients repeat it before an answer."""


@dataclass(frozen=True, slots=True)
class _Edit:
    """The last change of a message by one sender."""

    sent: Any
    content: Mapping[str, Any]


@dataclass
class _Room:
    """Facts of a room that stand apart from its messages.

    Attributes:
        head: Values beside the events.
        people: Ids of those who sent an event or became a member.
        reactions: Emoji and the event reacted to, by the ids of reactions that were not taken back.
        counts: Number of reactions per emoji, by the ids of the events reacted to.
        edits: The last change per sender by the ids of the changed events, as far as these were not read yet. Only
            that of the author counts.
    """

    head: dict[str, str] = field(default_factory=dict)
    people: set[str] = field(default_factory=set)
    reactions: dict[str, tuple[str, str]] = field(default_factory=dict)
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    edits: dict[str, dict[str, _Edit]] = field(default_factory=dict)

    @property
    def name(self) -> str | None:
        """The room's name; none of a room of two people, since Element names it after the other one."""
        return None if len(self.people) < _LEAST_GROUP else self.head.get("room_name")


def read_matrix(opened: Opened, found: list[str]) -> Iterator[Item]:
    """Read the messages of all rooms."""
    for name in found:
        with opened.open(name) as file:
            room = _read_room(file)
        yield from (Person(room.head[role]) for role in ("room_creator", "exported_by") if role in room.head)
        with opened.open(name) as file:
            for value in stream_records(file, _RECORDS):
                yield from _read_event(value, room)
        for _ in room.edits:
            yield Unread(
                "it changes a message that the export does not hold; export the room from an earlier date"
            )


def _read_room(file: IO[bytes]) -> _Room:
    """Collect what stands apart from the messages that it belongs to."""
    room = _Room()
    try:
        for path, value in stream_json(file, {_RECORDS}):
            if path == _RECORDS:
                _note_event(as_object(value), room)
            elif isinstance(value, str) and value.strip():
                room.head[path] = value
    except BrokenJsonError:  # reading the messages says where
        pass
    for emoji, target in room.reactions.values():
        room.counts.setdefault(target, Counter())[emoji] += 1
    return room


def _note_event(event: Mapping[str, Any], room: _Room) -> None:
    room.people.update(_list_ids(event))
    relation, kind = _read_relation(event), event.get("type")
    number, emoji, target = (
        value if isinstance(value, str) else ""
        for value in (event.get("event_id"), relation.get("key"), relation.get("event_id"))
    )
    if kind == "m.reaction" and number and emoji and target:
        room.reactions[number] = emoji, target
    elif kind == "m.room.redaction":
        room.reactions.pop(_find_redacted(event) or "", None)
    elif relation.get("rel_type") == "m.replace" and target:
        _note_edit(event, target, room)


def _note_edit(event: Mapping[str, Any], target: str, room: _Room) -> None:
    """Keep a change unless the same sender made a later one."""
    content = as_object(as_object(event.get("content")).get("m.new_content"))
    edit = _Edit(event.get("origin_server_ts"), content)
    edits, sender = room.edits.setdefault(target, {}), event.get("sender")
    author = sender if isinstance(sender, str) else ""
    if author not in edits or _rank(edit) >= _rank(edits[author]):
        edits[author] = edit


def _rank(edit: _Edit) -> int:
    """Return the time of a change; one without a time, which reading the message reports, is the first."""
    return edit.sent if isinstance(edit.sent, int) else -1


def _list_ids(event: Mapping[str, Any]) -> list[str]:
    """List the ids of who sent an event and of whose membership it tells."""
    member = event.get("state_key") if event.get("type") == "m.room.member" else None
    return [name for name in (event.get("sender"), member) if isinstance(name, str) and name.strip()]


def _read_relation(event: Mapping[str, Any]) -> Mapping[str, Any]:
    return as_object(as_object(event.get("content")).get("m.relates_to"))


def _find_redacted(event: Mapping[str, Any]) -> str | None:
    return first_text(event.get("redacts"), as_object(event.get("content")).get("redacts"))


def _read_event(event: Any, room: _Room) -> Iterator[Item]:
    yield from _describe(as_object(event), room)
    yield from read_each([event], partial(_read_message, room=room))


def _describe(event: Mapping[str, Any], room: _Room) -> Iterator[Chat | Person]:
    """Yield the room, and the people of an event with the name that a member goes by."""
    place, ids = event.get("room_id"), _list_ids(event)
    if isinstance(place, str) and place:
        yield Chat(f"matrix/{place}", name_chat(room.name, place))
    yield from map(Person, ids)
    shown = as_object(event.get("content")).get("displayname")
    if event.get("type") == "m.room.member" and ids and isinstance(shown, str) and shown.strip():
        yield Person(ids[-1], (shown,))


def _read_message(event: Mapping[str, Any], room: _Room) -> Item | None:
    """Read an event; None for a reaction or a change, which count where they belong."""
    kind, key = first_text(event.get("type")), first_text(event.get("event_id"))
    place = first_text(event.get("room_id"))
    if kind is None or key is None:
        raise ValueError("the event has no type or no id")
    chat = place and f"matrix/{place}"
    if kind == "m.room.redaction":
        return _read_redaction(event, chat, room)
    if kind == "m.reaction" or _read_relation(event).get("rel_type") == "m.replace":
        return None
    is_deleted = "redacted_because" in as_object(event.get("unsigned"))
    if kind == "m.room.encrypted" and not is_deleted:
        raise ValueError("the message is encrypted; export the room in a session of Element that can read it")
    sent = read_timestamp(event.get("origin_server_ts"))
    is_state = "state_key" in event or kind.startswith(_BY_CLIENT)
    if kind not in _SAID and not is_deleted and not is_state:
        return (
            _read_said(event, sent, chat, key, room)
            if _read_text(as_object(event.get("content")), is_answer=False)
            else Wordless(kind)
        )
    if kind not in _SAID:
        done = first_text(as_object(event.get("content")).get("membership")) or kind.rpartition(".")[2]
        return ChatMessage(sent, None, done.replace("_", " "), "system", chat=chat, key=key)
    if is_deleted:
        room.edits.pop(key, None)
        return ChatMessage(sent, first_text(event.get("sender")), None, "system", chat=chat, key=key)
    return _read_said(event, sent, chat, key, room)


def _read_redaction(event: Mapping[str, Any], chat: str | None, room: _Room) -> Item | None:
    redacted = _find_redacted(event)
    if redacted is None:
        raise ValueError("the redaction does not name the event that it removes")
    room.edits.pop(redacted, None)
    return Deleted(chat, redacted)


def _read_said(
    event: Mapping[str, Any], sent: datetime, chat: str | None, key: str, room: _Room
) -> ChatMessage:
    """Read what somebody said, as it was last changed."""
    sender = first_text(event.get("sender"))
    if sender is None:
        raise ValueError("there is no author")
    relations = as_object(as_object(event.get("unsigned")).get("m.relations"))
    content, edited = (
        as_object(event.get("content")),
        as_object(relations.get("m.replace")).get("origin_server_ts"),
    )
    edit = room.edits.pop(key, {}).get(sender)
    if edit is not None:
        content, edited = {**edit.content, "m.relates_to": content.get("m.relates_to")}, edit.sent
    relation = as_object(content.get("m.relates_to"))
    text = _read_text(content, is_answer="m.in_reply_to" in relation)
    has_file = event.get("type") == "m.sticker" or first_text(content.get("msgtype")) in {
        *_MEDIA,
        "m.location",
    }
    return ChatMessage(
        sent=sent,
        author=sender,
        text=text or None,
        kind="media" if has_file or not text else "message",
        chat=chat,
        key=key,
        reply_to=_read_answered(relation),
        reactions=_count_reactions(room.counts.get(key), relations),
        is_edited=edited is not None,
        edited=None if edited is None else read_timestamp(edited),
    )


def _read_text(content: Mapping[str, Any], *, is_answer: bool) -> str:
    """Return the text, or the question of a poll; of a file its caption, which it has if its name stands elsewhere."""
    for name in _POLLS:
        if poll := as_object(content.get(name)):
            answers = (f"- {_find_text(answer)}" for answer in list_objects(poll.get("answers")))
            return "\n".join([_find_text(as_object(poll.get("question"))), *answers])
    if "msgtype" not in content:
        return _find_text(content) if "url" not in content and "file" not in content else ""
    body, name = read_content(content, "body") or _find_text(content), read_content(content, "filename")
    if first_text(content.get("msgtype")) in _MEDIA and name in ("", body):
        return ""
    return _QUOTE.sub("", body, count=1) if is_answer and body.startswith("> ") else body


def _find_text(content: Mapping[str, Any]) -> str:
    """Return the text of an event, or of a part of one."""
    for name in _TEXTS:
        listed = content.get(name)
        for part in listed if isinstance(listed, list) else [listed]:
            if text := first_text(as_object(part).get("body") if isinstance(part, dict) else part):
                return text
    return ""


def _read_answered(relation: Mapping[str, Any]) -> str | None:
    """Return the event that is answered; within a thread the one that began it, unless another one is meant."""
    answered = first_text(as_object(relation.get("m.in_reply_to")).get("event_id"))
    if relation.get("rel_type") == "m.thread" and (
        answered is None or relation.get("is_falling_back") is True
    ):
        return first_text(relation.get("event_id"))
    return answered


def _count_reactions(
    counted: Counter[str] | None, relations: Mapping[str, Any]
) -> tuple[tuple[str, int], ...]:
    """Return the reactions that are events of the export, else those that the server counted."""
    if counted:
        return tuple(counted.items())
    found = list_objects(as_object(relations.get("m.annotation")).get("chunk"))
    named = ((first_text(part.get("key")), part.get("count")) for part in found)
    return tuple((emoji, count) for emoji, count in named if emoji is not None and isinstance(count, int))


MATRIX: Final = ChatFormat("matrix", partial(find_marked, marks=_MARKS), read_matrix)
