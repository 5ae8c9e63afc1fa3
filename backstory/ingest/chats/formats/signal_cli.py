"""Signal: what ``signal-cli`` receives with ``--output=json``, an envelope per line."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import IO, Any, Final

from backstory.base.ids import digest
from backstory.ingest.chats.chat_format import ChatFormat, find_marked
from backstory.ingest.chats.formats.table_values import read_timestamp
from backstory.ingest.chats.items import Chat, ChatMessage, Deleted, Item, Person, Unread, name_chat
from backstory.ingest.chats.json_stream import as_object, first_text, list_objects, read_content
from backstory.ingest.chats.opened import Opened
from backstory.ingest.text_lines import skip_line

_MARKS: Final = (
    frozenset(["envelope.timestamp", "envelope.sourceDevice"]),
    frozenset(["params.envelope.timestamp", "params.envelope.sourceDevice"]),
)
_MOST_LINE_BYTES: Final = 16 << 20
_MENTION: Final = "\ufffc"
"""Stands for a mentioned person in a text."""


@dataclass(frozen=True, slots=True)
class _Letter:
    """The part of an envelope that holds a message.

    Attributes:
        sender: Id of who sent it.
        chat: Group or other person.
        content: The message.
        changes: Time of the message that it changes; None if it is another message.
    """

    sender: str
    chat: Chat
    content: Mapping[str, Any]
    changes: int | None = None

    @property
    def key(self) -> str:
        """The key of the message.

        It raises ``ValueError`` if it has no time.
        """
        return _make_key(self.sender, self.content.get("timestamp"))


@dataclass
class _Log:
    """Facts of a log that stand apart from its messages.

    Attributes:
        names: Names of people by their ids.
        reactions: Emoji by who reacted, by the keys of messages.
        originals: Keys of changed messages by the keys of their changes.
        changes: The last change by the keys of changed messages, as far as these were not read yet.
    """

    names: dict[str, str] = field(default_factory=dict)
    reactions: dict[str, dict[str, str]] = field(default_factory=dict)
    originals: dict[str, str] = field(default_factory=dict)
    changes: dict[str, Mapping[str, Any]] = field(default_factory=dict)


def read_signal(opened: Opened, found: list[str]) -> Iterator[Item]:
    """Read the messages of all envelopes."""
    for name in found:
        log = _Log()
        with opened.open(name) as file:
            for _, line in _read_lines(file):
                _note_line(line, log)
        with opened.open(name) as file:
            for number, line in _read_lines(file):
                for item in _read_line(line, log):
                    yield Unread(f"line {number}: {item.reason}") if isinstance(item, Unread) else item
        for _ in log.changes:
            yield Unread(
                "it changes a message that the file does not hold; put the envelope of that message into the same file"
            )


def _read_lines(file: IO[bytes]) -> Iterator[tuple[int, Any]]:
    """Yield number and value of each line; None for the value of a line that is no JSON, or longer than 16 MiB."""
    number = 0
    while line := file.readline(_MOST_LINE_BYTES):
        number += 1
        if len(line) == _MOST_LINE_BYTES and not line.endswith(b"\n"):
            skip_line(file)
            yield number, None
        elif line.strip():
            yield number, _parse_line(line)


def _parse_line(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _open_envelope(line: Any) -> tuple[str, Mapping[str, Any]]:
    """Return the account that received an envelope, and the envelope.

    It raises ``ValueError`` if the line holds none.
    """
    outer = as_object(line)
    container = as_object(outer.get("params")) if "params" in outer else outer
    envelope = as_object(container.get("envelope"))
    if not envelope:
        raise ValueError("the line is no JSON with an envelope")
    return first_text(container.get("account")) or "", envelope


def _find_letter(account: str, envelope: Mapping[str, Any]) -> _Letter | None:
    """Find the message in an envelope; None if it tells of reading, typing or a call."""
    sent = as_object(as_object(envelope.get("syncMessage")).get("sentMessage"))
    content = sent or as_object(envelope.get("dataMessage"))
    change = as_object(sent.get("editMessage") or envelope.get("editMessage"))
    changes = change.get("targetSentTimestamp") if change else None
    if change:
        content = as_object(change.get("dataMessage"))
    if not content:
        return None
    sender = _identify(envelope, "source")
    partner = _identify(sent, "destination") if sent else sender
    group = as_object(content.get("groupInfo") or sent.get("groupInfo"))
    identifier = first_text(group.get("groupId"))
    if sender is None or not (partner or identifier):
        raise ValueError("the envelope does not say who wrote to whom")
    if identifier is not None:
        named = name_chat(
            first_text(group.get("groupName")), identifier.translate(str.maketrans("/+", "_-", "="))
        )
        chat = Chat(f"signal/{identifier}", named)
    else:
        chat = Chat(f"signal/{account}/{partner}", name_chat("direct", digest([account, partner or ""])[:12]))
    return _Letter(sender, chat, content, changes if isinstance(changes, int) else None)


def _make_key(person: str, moment: object) -> str:
    """Make the key of a message: Signal identifies it by who sent it and when."""
    if not isinstance(moment, int):
        raise ValueError("there is no timestamp")  # noqa: TRY004 - the value is data of the file
    return f"{person}/{moment}"


def _identify(record: Mapping[str, Any], role: str) -> str | None:
    """Return the id of a person: that of the account, or its number in old versions."""
    return first_text(*(record.get(f"{role}{suffix}") for suffix in ("Uuid", "Number", "")))


def _note_line(line: Any, log: _Log) -> None:
    try:
        account, envelope = _open_envelope(line)
        letter = _find_letter(account, envelope)
        sender = _identify(envelope, "source")
        name = first_text(envelope.get("sourceName"), envelope.get("sourceNumber"))
        if sender is not None and name is not None:
            log.names[sender] = name
        if letter is not None:
            _note_letter(letter, log)
    except ValueError:  # reading the line says why
        return


def _note_letter(letter: _Letter, log: _Log) -> None:
    reaction = as_object(letter.content.get("reaction"))
    target = _identify(reaction, "targetAuthor")
    if target is not None:
        emoji = "" if reaction.get("isRemove") is True else first_text(reaction.get("emoji")) or ""
        key = _make_key(target, reaction.get("targetSentTimestamp"))
        log.reactions.setdefault(key, {})[letter.sender] = emoji
    if letter.changes is not None:
        target = _make_key(letter.sender, letter.changes)
        original = log.originals.setdefault(letter.key, log.originals.get(target, target))
        log.changes[original] = letter.content


def _read_line(line: Any, log: _Log) -> Iterator[Item]:
    try:
        account, envelope = _open_envelope(line)
        letter = _find_letter(account, envelope)
        if letter is None:
            return
        numbers = (letter.sender, first_text(envelope.get("sourceNumber")))
        person = Person(_name(letter.sender, log), tuple(filter(None, numbers)), letter.sender)
        item = _read_letter(letter, log)
    except ValueError as error:
        yield Unread(str(error))
        return
    yield from (letter.chat, person)
    if item is not None:
        yield item


def _name(identifier: str, log: _Log) -> str:
    return log.names.get(identifier, identifier)


def _read_letter(letter: _Letter, log: _Log) -> Item | None:
    """Read a message; None for a reaction or a change, which count where they belong, and for votes and pins."""
    content, chat, key = letter.content, letter.chat.key, letter.key
    deleted = as_object(content.get("remoteDelete"))
    if deleted:
        target = _make_key(letter.sender, deleted.get("timestamp"))
        log.changes.pop(target, None)
        return Deleted(chat, log.originals.get(target, target))
    if letter.changes is not None or content.get("reaction"):
        return None
    sent = read_timestamp(content.get("timestamp"))
    changed = log.changes.pop(key, None)
    shown = content if changed is None else changed
    text = _read_text(shown, log)
    has_files = any(shown.get(name) for name in ("attachments", "sticker", "contacts", "viewOnce"))
    if not text and not has_files:
        is_update = as_object(content.get("groupInfo")).get("type") == "UPDATE"
        return ChatMessage(sent, None, "group update", "system", chat=chat, key=key) if is_update else None
    emoji = Counter(filter(None, log.reactions.get(key, {}).values()))
    return ChatMessage(
        sent=sent,
        author=_name(letter.sender, log),
        author_id=letter.sender,
        text=text or None,
        kind="media" if has_files else "message",
        chat=chat,
        key=key,
        reply_to=_read_answered(content, log),
        reactions=tuple(emoji.items()),
        is_edited=changed is not None,
        edited=None if changed is None else read_timestamp(changed.get("timestamp")),
    )


def _read_text(content: Mapping[str, Any], log: _Log) -> str:
    """Return the text with mentions by name, or the question of a poll with its answers."""
    text = read_content(content, "message")
    poll = as_object(content.get("pollCreate"))
    options = poll.get("options")
    if poll and not text:
        listed = options if isinstance(options, list) else []
        return "\n".join([read_content(poll, "question"), *(f"- {option}" for option in listed)])
    for mention in list_objects(content.get("mentions")):
        identifier = first_text(mention.get("uuid"), mention.get("number"), mention.get("name"))
        if identifier is not None:
            text = text.replace(_MENTION, f"@{_name(identifier, log)}", 1)
    return text


def _read_answered(content: Mapping[str, Any], log: _Log) -> str | None:
    quote = as_object(content.get("quote"))
    author = _identify(quote, "author")
    if author is None:
        return None
    key = _make_key(author, quote.get("id"))
    return log.originals.get(key, key)


SIGNAL: Final = ChatFormat("signal_cli", partial(find_marked, marks=_MARKS), read_signal)
