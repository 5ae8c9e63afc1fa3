"""Matrix: the JSON of a room that Element exports, with its events as the server gives them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import IO, Any, Final

from backstory.ingest.chats.export import (
    Chat,
    ChatMessage,
    Deleted,
    Item,
    Person,
    Reacted,
    name_chat,
    read_each,
)
from backstory.ingest.chats.export_files import make_json_format
from backstory.ingest.chats.formats.tables import read_timestamp
from backstory.ingest.chats.json_stream import Record, stream_json

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


def _read(files: Iterator[IO[bytes]]) -> Iterator[Item]:
    for file in files:
        head: dict[str, Any] = {}
        people: set[str] = set()
        rooms: set[str] = set()
        for path, value in stream_json(file, {_RECORDS}):
            known = len(people), len(rooms)
            if path == _RECORDS:
                yield from read_each([value], partial(_read_event, people=people, rooms=rooms))
            elif isinstance(value, str) and (name := value.strip()):
                head[path] = name
                if path in ("room_creator", "exported_by"):
                    yield Person(name)
            # The name may stand behind the events. Element names a room of two people after the other one.
            if known != (len(people), len(rooms)) or path == "room_name":
                shown = head.get("room_name") if len(people) >= _LEAST_GROUP else None
                yield from (Chat(f"matrix/{place}", name_chat(shown, place)) for place in rooms)


def _read_event(event: Record, people: set[str], rooms: set[str]) -> Iterator[Item]:
    """Read an event: whoever sent it or became a member by it, and what it says or does to a message."""
    kind, place = event.require("type"), event.text("room_id")
    member = event.text("state_key") if kind == "m.room.member" else None
    ids = [name for name in (event.text("sender"), member) if name]
    people.update(ids)
    chat = place and f"matrix/{place}"
    rooms.update(filter(None, [place]))
    shown = event.text("content/displayname") if kind == "m.room.member" else None
    yield from (Person(name, (shown,) if shown and name is ids[-1] else ()) for name in ids)
    key = event.require("event_id")
    content, is_deleted = event.object("content"), "redacted_because" in event.object("unsigned")
    relation = content.object("m.relates_to")
    target, emoji = relation.text("event_id"), relation.text("key")
    if kind == "m.room.redaction":
        yield Deleted(chat, event.require("redacts", "content/redacts"))
    elif kind == "m.reaction":
        yield from [Reacted(target, emoji, key)] if target and emoji else []
    elif relation.get("rel_type") == "m.replace":
        if target:
            changed = content.object("m.new_content")
            yield _read_said(event, changed, relation, chat, target)
    elif kind == "m.room.encrypted" and not is_deleted:
        raise ValueError("the message is encrypted; export the room in a session of Element that can read it")
    elif kind not in _SAID and (is_deleted or "state_key" in event or kind.startswith(_BY_CLIENT)):
        done = (content.text("membership") or kind.rpartition(".")[2]).replace("_", " ")
        yield ChatMessage(_read_time(event), None, done, "system", chat=chat, key=key)
    elif is_deleted:
        yield ChatMessage(_read_time(event), event.text("sender"), None, "system", chat=chat, key=key)
    elif kind not in _SAID and not _read_text(content):
        if not kind.endswith("poll.response"):
            raise ValueError("the event is of a kind in which no words were found")
    else:
        yield _read_said(event, content, relation, chat, key)


def _read_time(event: Record) -> datetime:
    return read_timestamp(event.get("origin_server_ts"))


def _read_said(event: Record, content: Record, relation: Record, chat: str | None, key: str) -> ChatMessage:
    """Read what somebody said."""
    bundled = event.object("unsigned/m.relations")
    edited = bundled.find("m.replace/origin_server_ts")
    answered, text = relation.text("m.in_reply_to/event_id"), _read_text(content)
    if "m.in_reply_to" in relation and text.startswith("> "):
        text = _QUOTE.sub("", text, count=1)
    has_file = event.get("type") == "m.sticker" or content.text("msgtype") in {*_MEDIA, "m.location"}
    # Within a thread, an answer is to the message that began it, unless another one is meant.
    falls_back = answered is None or relation.get("is_falling_back") is True
    is_thread = relation.get("rel_type") == "m.thread" and falls_back
    return ChatMessage(
        sent=_read_time(event),
        author=event.text("sender"),
        text=text or None,
        kind="media" if has_file or not text else "message",
        chat=chat,
        key=key,
        reply_to=relation.text("event_id") if is_thread else answered,
        reactions=bundled.reactions(lambda one: one.text("key"), "m.annotation/chunk"),
        edited=None if edited is None else read_timestamp(edited),
        is_change=relation.get("rel_type") == "m.replace",
    )


def _read_text(content: Record) -> str:
    """Return the text, or the question of a poll; of a file its caption, which it has if its name stands elsewhere."""
    for name in _POLLS:
        if poll := content.object(name):
            answers = (f"- {_find_words(answer)}" for answer in poll.objects("answers"))
            return "\n".join([_find_words(poll.object("question")), *answers])
    if "msgtype" not in content:
        return _find_words(content) if "url" not in content and "file" not in content else ""
    body, name = content.content("body") or _find_words(content), content.content("filename")
    return "" if content.text("msgtype") in _MEDIA and name in ("", body) else body


def _find_words(content: Record) -> str:
    """Return the text of an event, or of a part of one."""
    for name in _TEXTS:
        listed = content.get(name)
        for part in listed if isinstance(listed, list) else [listed]:
            text = part.text("body") if isinstance(part, Record) else part
            if isinstance(text, str) and text.strip():
                return text
    return ""


MATRIX: Final = make_json_format("matrix", _MARKS, _read)
