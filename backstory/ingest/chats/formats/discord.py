"""Discord: the JSON that DiscordChatExporter writes, a file per channel or part of one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import IO, Final

from backstory.ingest.chats.export import Chat, ChatMessage, Item, Person, name_chat, read_each
from backstory.ingest.chats.export_files import make_json_format
from backstory.ingest.chats.formats.tables import read_timestamp
from backstory.ingest.chats.json_stream import Record, stream_json

_RECORDS: Final = "messages.item"
_MARKS: Final = (frozenset(["guild.id", "channel.id", "channel.type"]),)
_BY_PEOPLE: Final = frozenset(["Default", "Reply", "20", "23"])
"""Types of what people and bots write; 20 and 23 are bots' answers to commands. All others are lines of the app."""

_DIRECT: Final = frozenset(["DirectTextChat", "DirectGroupTextChat"])
"""Types of chats whose names are made of those of people."""

_MENTION: Final = re.compile(r"<@!?(\d{1,20})>")
_EMOJI: Final = re.compile(r"<a?(:\w{1,40}:)\d{1,20}>")


def _read(files: Iterator[IO[bytes]]) -> Iterator[Item]:
    for file in files:
        channel = Record()
        chat: Chat | None = None
        for path, value in stream_json(file, {_RECORDS}):
            if path.startswith("channel."):
                channel[path.removeprefix("channel.")] = value
            elif path == _RECORDS:
                if chat is None and (identifier := channel.text("id")):
                    name = None if channel.get("type") in _DIRECT else channel.text("name")
                    chat = Chat(f"discord/{identifier}", name_chat(name, identifier))
                    yield chat
                yield from read_each([value], partial(_read_message, chat=chat.key if chat else None))


def _read_message(record: Record, chat: str | None) -> Iterator[Item]:
    for described in (record.object("author"), *record.objects("mentions")):
        # The account's name stays the same; the one that is shown changes.
        name, shown, identifier = (described.text(key) for key in ("name", "nickname", "id"))
        if name is not None:
            yield Person(name, (shown,) if shown else (), identifier)
    text, by_person = _read_text(record), record.text("type") in _BY_PEOPLE
    answers = by_person and record.text("reference/type") != "Forward"
    edited = record.get("timestampEdited")
    files = ("attachments", "stickers", "forwardedMessage/attachments", "forwardedMessage/stickers")
    has_files = any(record.objects(path) for path in files)
    yield ChatMessage(
        sent=read_timestamp(record.get("timestamp")),
        author=record.text("author/name") if by_person else None,
        author_id=record.text("author/id"),
        text=text or None,
        kind="system" if not by_person else "media" if has_files or not text else "message",
        chat=chat,
        key=record.require("id"),
        reply_to=record.text("reference/messageId") if answers else None,
        reactions=record.reactions(_name_emoji),
        edited=None if edited is None else read_timestamp(edited),
    )


def _name_emoji(reaction: Record) -> str | None:
    name = reaction.text("emoji/name")
    return f":{name}:" if name and reaction.object("emoji").get("id") else name


def _read_text(record: Record) -> str:
    """Return the text, or that of the forwarded message; the question of a poll; and what a bot embeds.

    What a person's message embeds beside a text is the preview of a link in it.
    """
    written = record.content("content") or record.content("forwardedMessage/content")
    said = [written.strip() and written, record.poll("poll")]
    if not any(said) or record.object("author").get("isBot") is True:
        for embed in record.objects("embeds") + record.objects("forwardedMessage/embeds"):
            said += [embed.text("title") or "", embed.text("description") or ""]
            for field in embed.objects("fields"):
                pair = (field.text("name"), field.text("value"))
                said.append(": ".join(filter(None, pair)))
    names = {person.text("id"): person.text("nickname", "name") for person in record.objects("mentions")}
    text = _MENTION.sub(lambda match: f"@{names.get(match[1]) or match[1]}", "\n".join(filter(None, said)))
    return _EMOJI.sub(r"\1", text)


DISCORD: Final = make_json_format("discord", _MARKS, _read)
