"""Signal: what ``signal-cli`` receives with ``--output=json``, an envelope per line."""

from __future__ import annotations

import json
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
    name_chat,
    read_each,
)
from backstory.ingest.chats.export_files import make_json_format
from backstory.ingest.chats.formats.tables import read_timestamp
from backstory.ingest.chats.json_stream import Record
from backstory.text.encoding import skip_line

_MARKS: Final = (
    frozenset(["envelope.timestamp", "envelope.sourceDevice"]),
    frozenset(["params.envelope.timestamp", "params.envelope.sourceDevice"]),
)
_MOST_LINE_BYTES: Final = 16 << 20
_decode: Final = json.JSONDecoder(object_hook=Record).decode
_MENTION: Final = "\ufffc"
"""Stands for a mentioned person in a text."""


@dataclass
class _Log:
    """Names of people by their ids, and keys of changed messages by the keys of their changes."""

    names: dict[str, str] = field(default_factory=dict)
    originals: dict[str, str] = field(default_factory=dict)

    def name(self, identifier: str) -> str:
        return self.names.get(identifier, identifier)

    def find_key(self, person: str, moment: object) -> str:
        """Return the key of a message, by that of any of its forms: Signal identifies it by who sent it and when."""
        if not isinstance(moment, int):
            raise ValueError("there is no timestamp")  # noqa: TRY004 - the value is data of the file
        key = f"{person}/{moment}"
        return self.originals.get(key, key)


def _read(files: Iterator[IO[bytes]]) -> Iterator[Item]:
    for file in files:
        log = _Log()
        for line in filter(None, _read_lines(file)):
            envelope = line.object("params/envelope") or line.object("envelope")
            sender, name = _identify(envelope, "source"), envelope.text("sourceName", "sourceNumber")
            if sender and name:
                log.names[sender] = name
        file.seek(0)
        yield from read_each(_read_lines(file), partial(_read_line, log=log), place="the lines")


def _read_lines(file: IO[bytes]) -> Iterator[Record | None]:
    """Yield the object of each line, an empty one for a blank line; none if it holds none, or is over 16 MiB long."""
    while line := file.readline(_MOST_LINE_BYTES):
        value = None
        if len(line) == _MOST_LINE_BYTES and not line.endswith(b"\n"):
            skip_line(file)
        else:
            with suppress(ValueError, RecursionError):
                found = _decode(line.decode("utf-8-sig")) if line.strip() else Record()
                if b"\\ud" in line.lower():  # half of a surrogate pair is no text
                    json.dumps(found, ensure_ascii=False).encode()
                value = found if isinstance(found, Record) else None
        yield value


def _identify(record: Record, role: str) -> str | None:
    """Return the id of a person: that of the account, or its number in old versions."""
    return record.text(*(f"{role}{suffix}" for suffix in ("Uuid", "Number", "")))


def _read_line(line: Record, log: _Log) -> Iterator[Item]:
    """Read an envelope, unless it tells of reading, typing or a call."""
    if not line:
        return
    outer = line.object("params") or line
    envelope, sent = outer.object("envelope"), outer.object("envelope/syncMessage/sentMessage")
    if not envelope:
        raise ValueError("the line holds no envelope")
    change = sent.object("editMessage") or envelope.object("editMessage")
    content = change.object("dataMessage") if change else sent or envelope.object("dataMessage")
    if not content:
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
    yield from (chat, Person(log.name(sender), tuple(filter(None, numbers)), sender))
    yield from _read_message(content, chat.key, sender, change.get("targetSentTimestamp"), log)


def _read_message(content: Record, chat: str, sender: str, changes: object, log: _Log) -> Iterator[Item]:
    """Read a message, a change of one, a reaction, or a deletion; no vote and no pin."""
    key = log.find_key(sender, content.get("timestamp"))
    if deleted := content.object("remoteDelete"):
        yield Deleted(chat, log.find_key(sender, deleted.get("timestamp")))
        return
    if reaction := content.object("reaction"):
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
    if not text and not has_files:
        if content.object("groupInfo").get("type") == "UPDATE":
            yield ChatMessage(moment, None, "group update", "system", chat=chat, key=key)
        return
    yield ChatMessage(
        sent=moment,
        author=log.name(sender),
        author_id=sender,
        text=text or None,
        kind="media" if has_files else "message",
        chat=chat,
        key=key,
        reply_to=log.find_key(quoted, content.object("quote").get("id")) if quoted else None,
        is_change=isinstance(changes, int),
    )


def _read_text(content: Record, log: _Log) -> str:
    """Return the text with mentions by name, or the question of a poll with its answers."""
    text = content.content("message") or content.poll("pollCreate")
    for mention in content.objects("mentions"):
        if identifier := mention.text("uuid", "number", "name"):
            text = text.replace(_MENTION, f"@{log.name(identifier)}", 1)
    return text


SIGNAL: Final = make_json_format("signal_cli", _MARKS, _read)
