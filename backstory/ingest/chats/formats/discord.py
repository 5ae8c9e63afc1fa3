"""Discord: the JSON that DiscordChatExporter writes, a file per channel or part of one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import IO, Any, Final

from backstory.ingest.chats.chat_format import ChatFormat, find_marked
from backstory.ingest.chats.formats.table_values import read_timestamp
from backstory.ingest.chats.items import Chat, ChatMessage, Item, Person, name_chat, read_each
from backstory.ingest.chats.json_stream import as_object, first_text, list_objects, read_content, stream_json
from backstory.ingest.chats.opened import Opened

_RECORDS: Final = "messages.item"
_MARKS: Final = (frozenset(["guild.id", "channel.id", "channel.type"]),)
_BY_PEOPLE: Final = frozenset(["Default", "Reply", "20", "23"])
"""Types of what people and bots write; 20 and 23 are bots' answers to commands. All others are lines of the app."""

_DIRECT: Final = frozenset(["DirectTextChat", "DirectGroupTextChat"])
"""Types of chats whose names are made of those of people."""

_MENTION: Final = re.compile(r"<@!?(\d{1,20})>")
_EMOJI: Final = re.compile(r"<a?(:\w{1,40}:)\d{1,20}>")


def read_discord(opened: Opened, found: list[str]) -> Iterator[Item]:
    """Read the messages of all channels."""
    for name in found:
        with opened.open(name) as file:
            yield from _read_file(file)


def _read_file(file: IO[bytes]) -> Iterator[Item]:
    channel: dict[str, str] = {}
    chat: Chat | None = None
    for path, value in stream_json(file, {_RECORDS}):
        if path.startswith("channel.") and isinstance(value, str):
            channel[path.removeprefix("channel.")] = value
        if path != _RECORDS:
            continue
        if chat is None and (chat := _describe(channel)) is not None:
            yield chat
        yield from _list_people(as_object(value))
        yield from read_each([value], partial(_read_message, chat=chat.key if chat else None))


def _describe(channel: Mapping[str, str]) -> Chat | None:
    """Return the chat; None if the export does not identify it."""
    identifier = channel.get("id")
    if not identifier:
        return None
    name = None if channel.get("type") in _DIRECT else channel.get("name")
    return Chat(f"discord/{identifier}", name_chat(name, identifier))


def _read_message(record: Mapping[str, Any], chat: str | None) -> ChatMessage:
    key, edited = first_text(record.get("id")), record.get("timestampEdited")
    if key is None:
        raise ValueError("the message has no id")
    author = first_text(as_object(record.get("author")).get("name"))
    if author is None:
        raise ValueError("there is no author")
    sent, text = read_timestamp(record.get("timestamp")), _read_text(record)
    by_person = first_text(record.get("type")) in _BY_PEOPLE
    has_files = any(
        list_objects(part.get(field))
        for part in (record, as_object(record.get("forwardedMessage")))
        for field in ("attachments", "stickers")
    )
    return ChatMessage(
        sent=sent,
        author=author if by_person else None,
        author_id=first_text(as_object(record.get("author")).get("id")),
        text=text or None,
        kind="system" if not by_person else "media" if has_files or not text else "message",
        chat=chat,
        key=key,
        reply_to=_read_answered(record) if by_person else None,
        reactions=_read_reactions(record),
        is_edited=edited is not None,
        edited=None if edited is None else read_timestamp(edited),
    )


def _read_text(record: Mapping[str, Any]) -> str:
    """Return the text, or that of the forwarded message; the question of a poll; and what a bot embeds.

    What a person's message embeds beside a text is the preview of a link in it.
    """
    forwarded = as_object(record.get("forwardedMessage"))
    written = read_content(record, "content") or read_content(forwarded, "content")
    said = [written if written.strip() else "", _read_poll(as_object(record.get("poll")))]
    if not any(said) or as_object(record.get("author")).get("isBot") is True:
        embeds = list_objects(record.get("embeds")) + list_objects(forwarded.get("embeds"))
        said += map(_read_embed, embeds)
    written = "\n".join(filter(None, said))
    names = {person.get("id"): first_text(person.get("nickname"), person.get("name"))
             for person in list_objects(record.get("mentions")) if isinstance(person.get("id"), str)}  # fmt: skip
    resolved = _MENTION.sub(lambda match: f"@{names.get(match[1]) or match[1]}", written)
    return _EMOJI.sub(r"\1", resolved)


def _read_embed(embed: Mapping[str, Any]) -> str:
    """Return title, description and fields of what is embedded."""
    fields = [
        ": ".join(filter(None, (first_text(field.get("name")), first_text(field.get("value")))))
        for field in list_objects(embed.get("fields"))
    ]
    return "\n".join(
        filter(None, (first_text(embed.get("title")), first_text(embed.get("description")), *fields))
    )


def _read_poll(poll: Mapping[str, Any]) -> str:
    """Return the question of a poll and its answers."""
    question = as_object(poll.get("question")) or poll
    answers = (as_object(answer.get("pollMedia") or answer) for answer in list_objects(poll.get("answers")))
    asked = first_text(question.get("text"), question.get("question"))
    return "\n".join(filter(None, (asked, *(f"- {answer.get('text', '')}" for answer in answers))))


def _read_answered(record: Mapping[str, Any]) -> str | None:
    """Return the id of the message that this one answers; a forwarded one comes from elsewhere."""
    reference = as_object(record.get("reference"))
    return None if reference.get("type") == "Forward" else first_text(reference.get("messageId"))


def _list_people(record: Mapping[str, Any]) -> Iterator[Person]:
    """List author and mentioned people: the account's name, which stays the same, and the one that is shown."""
    for described in (as_object(record.get("author")), *list_objects(record.get("mentions"))):
        try:
            name, shown, identifier = (first_text(described.get(key)) for key in ("name", "nickname", "id"))
        except ValueError:  # the record itself is read with an error that says so
            continue
        if name is not None:
            yield Person(name, (shown,) if shown else (), identifier)


def _read_reactions(record: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
    found = []
    for reaction in list_objects(record.get("reactions")):
        emoji = as_object(reaction.get("emoji"))
        name, count = first_text(emoji.get("name")), reaction.get("count")
        if name is not None and isinstance(count, int):
            found.append((f":{name}:" if emoji.get("id") else name, count))
    return tuple(found)


DISCORD: Final = ChatFormat("discord", partial(find_marked, marks=_MARKS), read_discord)
