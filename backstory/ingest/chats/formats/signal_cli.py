"""Signal: what ``signal-cli`` receives with ``--output=json``, an envelope per line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import IO, Any, Final

import msgspec

from backstory.base.ids import digest
from backstory.ingest.chats.export_files import make_json_format
from backstory.ingest.chats.formats.table_values import read_timestamp
from backstory.ingest.chats.items import (
    Changed,
    Chat,
    ChatMessage,
    Deleted,
    Item,
    Person,
    Reacted,
    name_chat,
    read_each,
)
from backstory.ingest.chats.json_stream import (
    find_object,
    find_text,
    list_objects,
    read_content,
    read_poll,
)
from backstory.ingest.text_lines import skip_line

_MARKS: Final = (
    frozenset(["envelope.timestamp", "envelope.sourceDevice"]),
    frozenset(["params.envelope.timestamp", "params.envelope.sourceDevice"]),
)
_MOST_LINE_BYTES: Final = 16 << 20
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
        for line in _read_lines(file):
            envelope = find_object(line, "params/envelope") or find_object(line, "envelope")
            sender, name = _identify(envelope, "source"), find_text(envelope, "sourceName", "sourceNumber")
            if sender and name:
                log.names[sender] = name
        file.seek(0)
        yield from read_each(_read_lines(file), partial(_read_line, log=log), place="the lines")


def _read_lines(file: IO[bytes]) -> Iterator[Any]:
    """Yield the value of each line; none for a line that is no JSON, or longer than 16 MiB."""
    while line := file.readline(_MOST_LINE_BYTES):
        value = None
        if len(line) == _MOST_LINE_BYTES and not line.endswith(b"\n"):
            skip_line(file)
        else:
            with suppress(ValueError, RecursionError):
                value = msgspec.json.decode(line) if line.strip() else {}
        yield value


def _identify(record: Mapping[str, Any], role: str) -> str | None:
    """Return the id of a person: that of the account, or its number in old versions."""
    return find_text(record, *(f"{role}{suffix}" for suffix in ("Uuid", "Number", "")))


def _read_line(line: Mapping[str, Any], log: _Log) -> Iterator[Item]:
    """Read an envelope, unless it tells of reading, typing or a call."""
    if not line:
        return
    outer = find_object(line, "params") or line
    envelope, sent = find_object(outer, "envelope"), find_object(outer, "envelope/syncMessage/sentMessage")
    if not envelope:
        raise ValueError("the line holds no envelope")
    change = find_object(sent, "editMessage") or find_object(envelope, "editMessage")
    content = find_object(change, "dataMessage") if change else sent or find_object(envelope, "dataMessage")
    if not content:
        return
    sender = _identify(envelope, "source")
    partner = _identify(sent, "destination") if sent else sender
    group = find_object(content, "groupInfo") or find_object(sent, "groupInfo")
    identifier = find_text(group, "groupId")
    if sender is None or not (partner or identifier):
        raise ValueError("the envelope does not say who wrote to whom")
    if identifier is not None:
        place = identifier.translate(str.maketrans("/+", "_-", "="))
        chat = Chat(f"signal/{identifier}", name_chat(find_text(group, "groupName"), place))
    else:
        account = find_text(outer, "account") or ""
        place = digest([account, partner or ""])[:12]
        chat = Chat(f"signal/{account}/{partner}", name_chat("direct", place))
    numbers = (sender, find_text(envelope, "sourceNumber"))
    yield from (chat, Person(log.name(sender), tuple(filter(None, numbers)), sender))
    yield from _read_message(content, chat.key, sender, change.get("targetSentTimestamp"), log)


def _read_message(
    content: Mapping[str, Any], chat: str, sender: str, changes: object, log: _Log
) -> Iterator[Item]:
    """Read a message, a change of one, a reaction, or a deletion; no vote and no pin."""
    key = log.find_key(sender, content.get("timestamp"))
    if deleted := find_object(content, "remoteDelete"):
        yield Deleted(chat, log.find_key(sender, deleted.get("timestamp")))
        return
    if reaction := find_object(content, "reaction"):
        if author := _identify(reaction, "targetAuthor"):
            emoji = "" if reaction.get("isRemove") is True else find_text(reaction, "emoji") or ""
            target = log.find_key(author, reaction.get("targetSentTimestamp"))
            yield Reacted(target, emoji, f"{target}/{sender}")
        return
    if isinstance(changes, int):
        log.originals[key] = log.find_key(sender, changes)
        key = log.originals[key]
    text, quoted = _read_text(content, log), _identify(find_object(content, "quote"), "author")
    has_files = any(content.get(name) for name in ("attachments", "sticker", "contacts", "viewOnce"))
    moment = read_timestamp(content.get("timestamp"))
    if not text and not has_files:
        if find_object(content, "groupInfo").get("type") == "UPDATE":
            yield ChatMessage(moment, None, "group update", "system", chat=chat, key=key)
        return
    message = ChatMessage(
        sent=moment,
        author=log.name(sender),
        author_id=sender,
        text=text or None,
        kind="media" if has_files else "message",
        chat=chat,
        key=key,
        reply_to=log.find_key(quoted, find_object(content, "quote").get("id")) if quoted else None,
    )
    yield Changed(message) if isinstance(changes, int) else message


def _read_text(content: Mapping[str, Any], log: _Log) -> str:
    """Return the text with mentions by name, or the question of a poll with its answers."""
    text = read_content(content, "message") or read_poll(content.get("pollCreate"))
    for mention in list_objects(content, "mentions"):
        if identifier := find_text(mention, "uuid", "number", "name"):
            text = text.replace(_MENTION, f"@{log.name(identifier)}", 1)
    return text


SIGNAL: Final = make_json_format("signal_cli", _MARKS, _read)
