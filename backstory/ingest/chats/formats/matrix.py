"""Matrix: the JSON of a room that Element exports, with its events as the server gives them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import IO, Any, Final

from backstory.ingest.chats.formats.table_values import read_timestamp
from backstory.ingest.chats.items import (
    Changed,
    Chat,
    ChatMessage,
    Deleted,
    Item,
    Person,
    Reacted,
    Wordless,
    name_chat,
    read_each,
)
from backstory.ingest.chats.json_stream import (
    count_reactions,
    find_object,
    find_text,
    list_objects,
    read_content,
    stream_json,
)
from backstory.ingest.chats.opened import make_json_format

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
_RELATION: Final = "content/m.relates_to"
_QUOTE: Final = re.compile(r"(?:> [^\n]*\n)+\n?")
"""The message that is answered, as old clients repeat it before an answer."""


def _read(files: Iterator[IO[bytes]]) -> Iterator[Item]:
    for file in files:
        head: dict[str, Any] = {}
        people: set[str] = set()
        rooms: set[str] = set()
        for path, value in stream_json(file, {_RECORDS}):
            if path != _RECORDS:
                head[path] = value
                if path in ("room_creator", "exported_by") and (name := find_text(head, path)):
                    yield Person(name)
                if path == "room_name":  # the keys of an object have no order
                    yield from (_name_room(place, head, people) for place in sorted(rooms))
                continue
            yield from read_each([value], partial(_read_event, head=head, people=people, rooms=rooms))


def _name_room(place: str, head: Mapping[str, Any], people: set[str]) -> Chat:
    """Name a room, but for one of two people, which Element names after the other one."""
    name = None if len(people) < _LEAST_GROUP else find_text(head, "room_name")
    return Chat(f"matrix/{place}", name_chat(name, place))


def _read_event(
    event: Mapping[str, Any], head: Mapping[str, Any], people: set[str], rooms: set[str]
) -> Iterator[Item]:
    """Read an event: the room, whoever sent it or became a member by it, and what it says or does to a message."""
    kind, key, place = (find_text(event, name) for name in ("type", "event_id", "room_id"))
    member = find_text(event, "state_key") if kind == "m.room.member" else None
    ids = [name for name in (find_text(event, "sender"), member) if name]
    people.update(ids)
    chat = place and f"matrix/{place}"
    if place:
        rooms.add(place)
        yield _name_room(place, head, people)
    shown = find_text(event, "content/displayname") if kind == "m.room.member" else None
    yield from (Person(name, (shown,) if shown and name is ids[-1] else ()) for name in ids)
    if kind is None or key is None:
        raise ValueError("the event has no type or no id")
    target, emoji = find_text(event, f"{_RELATION}/event_id"), find_text(event, f"{_RELATION}/key")
    if kind == "m.room.redaction":
        redacted = find_text(event, "redacts", "content/redacts")
        if redacted is None:
            raise ValueError("the redaction does not name the event that it removes")
        yield Deleted(chat, redacted)
    elif kind == "m.reaction":
        yield from [Reacted(target, emoji, key)] if target and emoji else []
    elif find_text(event, f"{_RELATION}/rel_type") == "m.replace":
        if target:
            content = find_object(event, "content/m.new_content")
            yield Changed(_read_said(event, content, chat, target))
    else:
        yield _read_message(event, kind, chat, key)


def _read_message(event: Mapping[str, Any], kind: str, chat: str | None, key: str) -> Item:
    is_deleted = "redacted_because" in find_object(event, "unsigned")
    if kind == "m.room.encrypted" and not is_deleted:
        raise ValueError("the message is encrypted; export the room in a session of Element that can read it")
    sent, content = read_timestamp(event.get("origin_server_ts")), find_object(event, "content")
    if kind not in _SAID:
        if is_deleted or "state_key" in event or kind.startswith(_BY_CLIENT):
            done = find_text(content, "membership") or kind.rpartition(".")[2]
            return ChatMessage(sent, None, done.replace("_", " "), "system", chat=chat, key=key)
        if not _read_text(content, is_answer=False):
            return Wordless(kind)
    if is_deleted:
        return ChatMessage(sent, find_text(event, "sender"), None, "system", chat=chat, key=key)
    return _read_said(event, content, chat, key)


def _read_said(
    event: Mapping[str, Any], content: Mapping[str, Any], chat: str | None, key: str
) -> ChatMessage:
    """Read what somebody said."""
    sender = find_text(event, "sender")
    if sender is None:
        raise ValueError("there is no author")
    edited = find_object(event, "unsigned/m.relations/m.replace").get("origin_server_ts")
    answered = find_text(event, f"{_RELATION}/m.in_reply_to/event_id")
    text = _read_text(content, is_answer="m.in_reply_to" in find_object(event, _RELATION))
    has_file = event.get("type") == "m.sticker" or find_text(content, "msgtype") in {*_MEDIA, "m.location"}
    # Within a thread, an answer is to the message that began it, unless another one is meant.
    falls_back = answered is None or find_object(event, _RELATION).get("is_falling_back") is True
    return ChatMessage(
        sent=read_timestamp(event.get("origin_server_ts")),
        author=sender,
        text=text or None,
        kind="media" if has_file or not text else "message",
        chat=chat,
        key=key,
        reply_to=find_text(event, f"{_RELATION}/event_id")
        if find_text(event, f"{_RELATION}/rel_type") == "m.thread" and falls_back
        else answered,
        reactions=count_reactions(
            event, lambda one: find_text(one, "key"), "unsigned/m.relations/m.annotation/chunk"
        ),
        is_edited=edited is not None,
        edited=None if edited is None else read_timestamp(edited),
    )


def _read_text(content: Mapping[str, Any], *, is_answer: bool) -> str:
    """Return the text, or the question of a poll; of a file its caption, which it has if its name stands elsewhere."""
    for name in _POLLS:
        if poll := find_object(content, name):
            answers = (f"- {_find_words(answer)}" for answer in list_objects(poll, "answers"))
            return "\n".join([_find_words(find_object(poll, "question")), *answers])
    if "msgtype" not in content:
        return _find_words(content) if "url" not in content and "file" not in content else ""
    body, name = read_content(content, "body") or _find_words(content), read_content(content, "filename")
    if find_text(content, "msgtype") in _MEDIA and name in ("", body):
        return ""
    return _QUOTE.sub("", body, count=1) if is_answer and body.startswith("> ") else body


def _find_words(content: Mapping[str, Any]) -> str:
    """Return the text of an event, or of a part of one."""
    for name in _TEXTS:
        listed = content.get(name)
        for part in listed if isinstance(listed, list) else [listed]:
            if text := find_text({"body": part}, "body/body", "body"):
                return text
    return ""


MATRIX: Final = make_json_format("matrix", _MARKS, _read)
