"""Chats as logs of events, some of which change others: a room of Matrix that Element exports, and Signal.

Element writes the events of a room as the server gives them, ``signal-cli --output=json`` an envelope per line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import IO, Final

from backstory.base.ids import digest
from backstory.ingest.chats.export import (
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
from backstory.ingest.chats.export_files import make_json_format
from backstory.ingest.chats.formats.tables import read_timestamp
from backstory.ingest.chats.json_stream import Record, stream_json

_RECORDS: Final = "messages.item"
_SAID: Final = frozenset(["m.room.message", "m.room.encrypted", "m.sticker"])
"""Types of what people say. Any other event with words is said, too, unless it is of the state of the room."""

_POLLS: Final = ("m.poll", "m.poll.start", "org.matrix.msc3381.poll.start")
_TEXTS: Final = ("body", "m.text", "org.matrix.msc1767.text", "description")
"""Fields of a text, of which those of a type of its own may list a text for each form in which it is written."""

_BY_CLIENT: Final = ("m.call.", "m.key.", "m.room.")
_MEDIA: Final = frozenset(["m.image", "m.file", "m.audio", "m.video"])
_QUOTE: Final = re.compile(r"(?:> [^\n]*\n)+\n?")
"""The message that is answered, as old clients repeat it before an answer."""


def _read_rooms(files: Iterator[IO[bytes]]) -> Iterator[Item]:
    for file in files:
        room: str | None = None
        people: set[str] = set()
        rooms: set[str] = set()
        for path, value in stream_json(file, {_RECORDS}):
            known = len(people), len(rooms)
            if path == _RECORDS:
                yield from read_each([value], partial(_read_event, people=people, rooms=rooms))
            elif isinstance(value, str) and (name := value.strip()):
                room = name if path == "room_name" else room
                if path in ("room_creator", "exported_by"):
                    yield Person(name)
            # The name may stand behind the events. Element names a room of two people after the other one.
            if known != (len(people), len(rooms)) or path == "room_name":
                shown = room if len(people) > 2 else None
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
    if kind == "m.room.redaction":
        yield Deleted(chat, event.require("redacts", "content/redacts"))
        return
    key, content = event.require("event_id"), event.object("content")
    relation, is_deleted = content.object("m.relates_to"), "redacted_because" in event.object("unsigned")
    target, emoji = relation.text("event_id"), relation.text("key")
    if kind == "m.reaction":
        yield Reacted(target, emoji, key) if target and emoji else Wordless(kind)
        return
    sent = read_timestamp(event.get("origin_server_ts"))
    if relation.get("rel_type") == "m.replace" and target:
        yield _read_said(event, content.object("m.new_content"), relation, chat, target)
    elif kind == "m.room.encrypted" and not is_deleted:
        raise ValueError("the message is encrypted; export the room in a session of Element that can read it")
    elif kind not in _SAID and (is_deleted or "state_key" in event or kind.startswith(_BY_CLIENT)):
        done = (content.text("membership") or kind.rpartition(".")[2]).replace("_", " ")
        yield ChatMessage(sent, None, done, "system", chat=chat, key=key)
    elif is_deleted:
        yield ChatMessage(sent, event.text("sender"), None, "system", chat=chat, key=key)
    else:
        yield _read_said(event, content, relation, chat, key)


def _read_said(event: Record, content: Record, relation: Record, chat: str | None, key: str) -> ChatMessage:
    """Read what somebody said."""
    bundled = event.object("unsigned/m.relations")
    edited = bundled.find("m.replace/origin_server_ts")
    answered, text = relation.text("m.in_reply_to/event_id"), _read_content(content)
    if "m.in_reply_to" in relation and text.startswith("> "):
        text = _QUOTE.sub("", text, count=1)
    has_file = event.get("type") == "m.sticker" or content.text("msgtype") in {*_MEDIA, "m.location"}
    # Within a thread, an answer is to the message that began it, unless another one is meant.
    falls_back = answered is None or relation.get("is_falling_back") is True
    is_thread = relation.get("rel_type") == "m.thread" and falls_back
    return ChatMessage(
        sent=read_timestamp(event.get("origin_server_ts")),
        author=event.text("sender"),
        text=text,
        kind="media" if has_file else "message",
        chat=chat,
        key=key,
        reply_to=relation.text("event_id") if is_thread else answered,
        reactions=bundled.reactions(lambda one: one.text("key"), "m.annotation/chunk"),
        edited=None if edited is None else read_timestamp(edited),
        is_change=relation.get("rel_type") == "m.replace",
        type=event.text("type"),
    )


def _read_content(content: Record) -> str:
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


_decode: Final = json.JSONDecoder(object_hook=Record).decode
_BESIDE_CONTENT: Final = frozenset(["groupInfo", "quote"])
_MENTION: Final = "\ufffc"
"""Stands for a mentioned person in a text of Signal."""


@dataclass
class _Log:
    """Names of people by their ids, and keys of changed messages by the keys of their changes."""

    names: dict[str, str] = field(default_factory=dict)
    originals: dict[str, str] = field(default_factory=dict)

    def find_key(self, person: str, moment: object) -> str:
        """Return the key of a message, by that of any of its forms: Signal identifies it by who sent it and when."""
        if not isinstance(moment, int):
            raise ValueError("there is no timestamp")  # noqa: TRY004 - the value is data of the file
        key = f"{person}/{moment}"
        return self.originals.get(key, key)


def _read_envelopes(files: Iterator[IO[bytes]]) -> Iterator[Item]:
    for file in files:
        log = _Log()
        for line in filter(None, _read_lines(file)):
            envelope = line.object("params/envelope") or line.object("envelope")
            sender, name = _identify(envelope, "source"), envelope.text("sourceName", "sourceNumber")
            if sender and name:
                log.names[sender] = name
        file.seek(0)
        yield from read_each(_read_lines(file), partial(_read_envelope, log=log), place="the lines")


def _read_lines(file: IO[bytes]) -> Iterator[Record | None]:
    """Yield the object of each line, an empty one for a blank line; none if it holds none."""
    for line in file:
        value = None
        with suppress(ValueError, RecursionError):
            found = _decode(line.decode("utf-8-sig")) if line.strip() else Record()
            if b"\\ud" in line.lower():  # half of a surrogate pair is no text
                json.dumps(found, ensure_ascii=False).encode()
            value = found if isinstance(found, Record) else None
        yield value


def _identify(record: Record, role: str) -> str | None:
    """Return the id of a person: that of the account, or its number in old versions."""
    return record.text(*(f"{role}{suffix}" for suffix in ("Uuid", "Number", "")))


def _name_type(record: Record, default: str) -> str:
    """Name what an envelope or a message without words holds: typing, a receipt, a call, a vote."""
    return next((name for name in record if name not in _BESIDE_CONTENT and record.object(name)), default)


def _read_envelope(line: Record, log: _Log) -> Iterator[Item]:
    if not line:
        return
    outer = line.object("params") or line
    envelope, sent = outer.object("envelope"), outer.object("envelope/syncMessage/sentMessage")
    if not envelope:
        raise ValueError("the line holds no envelope")
    change = sent.object("editMessage") or envelope.object("editMessage")
    content = change.object("dataMessage") if change else sent or envelope.object("dataMessage")
    if not content:
        yield Wordless(_name_type(envelope, "envelope"))
        return
    sender = _identify(envelope, "source")
    partner = _identify(sent, "destination") if sent else sender
    group = content.object("groupInfo") or sent.object("groupInfo")
    identifier = group.text("groupId")
    if sender is None or not (partner or identifier):
        raise ValueError("the envelope does not say who wrote to whom")
    if identifier is not None:
        place = identifier.translate(str.maketrans("/+", "_-", "="))
        chat = Chat(f"signal/{identifier}", name_chat(group.text("groupName"), place))
    else:
        account = outer.text("account") or ""
        place = digest([account, partner or ""])[:12]
        chat = Chat(f"signal/{account}/{partner}", name_chat("direct", place))
    numbers = (sender, envelope.text("sourceNumber"))
    yield from (chat, Person(log.names.get(sender, sender), tuple(filter(None, numbers)), sender))
    yield from _read_message(content, chat.key, sender, change.get("targetSentTimestamp"), log)


def _read_message(content: Record, chat: str, sender: str, changes: object, log: _Log) -> Iterator[Item]:
    """Read a message, a change of one, a reaction, or a deletion."""
    key = log.find_key(sender, content.get("timestamp"))
    if deleted := content.object("remoteDelete"):
        yield Deleted(chat, log.find_key(sender, deleted.get("timestamp")))
        return
    reaction = content.object("reaction")
    if author := _identify(reaction, "targetAuthor"):
        emoji = "" if reaction.get("isRemove") is True else reaction.text("emoji") or ""
        target = log.find_key(author, reaction.get("targetSentTimestamp"))
        yield Reacted(target, emoji, f"{target}/{sender}")
        return
    if isinstance(changes, int):
        log.originals[key] = log.find_key(sender, changes)
        key = log.originals[key]
    text, quoted = _read_text(content, log), _identify(content.object("quote"), "author")
    has_files = any(content.get(name) for name in ("attachments", "sticker", "contacts", "viewOnce"))
    moment = read_timestamp(content.get("timestamp"))
    if not text and not has_files and content.find("groupInfo/type") == "UPDATE":
        yield ChatMessage(moment, None, "group update", "system", chat=chat, key=key)
        return
    yield ChatMessage(
        sent=moment,
        author=log.names.get(sender, sender),
        author_id=sender,
        text=text,
        kind="media" if has_files else "message",
        chat=chat,
        key=key,
        reply_to=log.find_key(quoted, content.object("quote").get("id")) if quoted else None,
        is_change=isinstance(changes, int),
        type=_name_type(content, "message"),
    )


def _read_text(content: Record, log: _Log) -> str:
    """Return the text with mentions by name, or the question of a poll with its answers."""
    text = content.content("message") or content.poll("pollCreate")
    for mention in content.objects("mentions"):
        if identifier := mention.text("uuid", "number", "name"):
            text = text.replace(_MENTION, f"@{log.names.get(identifier, identifier)}", 1)
    return text


MATRIX: Final = make_json_format(
    "matrix",
    ["room_name room_creator exported_by", "messages.item.event_id messages.item.origin_server_ts"],
    _read_rooms,
)
SIGNAL: Final = make_json_format(
    "signal_cli",
    [f"{place}envelope.timestamp {place}envelope.sourceDevice" for place in ("", "params.")],
    _read_envelopes,
)
