"""Messengers whose JSON lists the messages of chats: Telegram, Discord, Instagram and Messenger.

Telegram Desktop writes ``result.json`` of a chat or of an account, DiscordChatExporter a file per channel or part of
one, and Meta the files ``message_1.json`` and following of each thread.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, partial
from typing import IO, Any, Final

from backstory.ingest.chats.export import Chat, ChatMessage, Item, Person, Wordless, name_chat, read_each
from backstory.ingest.chats.export_files import make_json_format
from backstory.ingest.chats.formats.tables import read_timestamp
from backstory.ingest.chats.json_stream import OPENED, BrokenJsonError, Record, stream_json

_RECORDS: Final = "messages.item"
_LISTS: Final = ("chats.list.item", "left_chats.list.item")
"""Chats in the export of an account of Telegram."""

_ALL_RECORDS: Final = frozenset([_RECORDS, *(f"{chat}.{_RECORDS}" for chat in _LISTS)])
_UNNAMED: Final = frozenset(["personal_chat", "bot_chat", "saved_messages", "replies", "verification_codes"])
"""Chats of Telegram whose name is that of a person."""

_DIRECT: Final = frozenset(["DirectTextChat", "DirectGroupTextChat"])
"""Chats of Discord whose names are made of those of people."""

_PERSONAL: Final = _UNNAMED | {"private_group"}
"""Chats of Telegram whose messages have another number in every account."""

_SHOWN: Final = (
    "place_name", "address", "game_title", "invoice_information/title", "invoice_information/description",
    "giveaway_information/additional_prize", "information_text",
)  # fmt: skip
_MEDIA_OF_TELEGRAM: Final = (
    "photo", "file", "location_information", "contact_information", "contact_vcard",
)  # fmt: skip


@dataclass
class _Chat:
    """The chat whose messages are being read, with the keys and counts by which Telegram's are numbered."""

    platform: str
    head: dict[str, Any] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    @cached_property
    def chat(self) -> Chat | None:
        """The chat by its id, else by its name; None if the export does not identify it before its messages."""
        found, kind, name = (self.head.get(part) for part in ("id", "type", "name"))
        found = found or name
        if not isinstance(found, int | str):
            return None
        shown = kind if kind in _UNNAMED else None if kind in _DIRECT or name == str(found) else name
        return Chat(
            f"{self.platform}/{found}", name_chat(shown if isinstance(shown, str) else None, str(found))
        )

    @property
    def key(self) -> str | None:
        return self.chat.key if self.chat else None

    def number(self, record: Record) -> tuple[str | None, str | None]:
        """Return the keys of a message and of the one that it answers."""
        number, answered = record.get("id"), record.get("reply_to_message_id")
        if not isinstance(number, int) or self.chat is None:
            return None, None
        target = str(answered) if isinstance(answered, int) and "reply_to_peer_id" not in record else None
        if self.head.get("type") not in _PERSONAL:
            return str(number), target
        # Each account numbers them in its own way. The author and the second of sending identify a message there, and
        # its place among those of the same second.
        author = record.get("from_id") or record.get("actor_id") or record.get("from")
        moment = f"{author}/{record.get('date_unixtime') or record.get('date')}"
        self.counts[moment] += 1
        self.keys[str(number)] = f"{moment}/{self.counts[moment]}"
        return self.keys[str(number)], self.keys.get(target or "")


def _read_chats(
    files: Iterator[IO[bytes]], platform: str, read: Callable[..., Iterator[Item]]
) -> Iterator[Item]:
    """Read files whose chats are described before their messages."""
    for file in files:
        chat = _Chat(platform)
        for path, value in stream_json(file, _ALL_RECORDS):
            place, _, name = path.rpartition(".")
            if path in _ALL_RECORDS:
                yield from filter(None, [chat.chat])
                yield from read_each([value], partial(read, chat=chat))
            elif value is OPENED and path in ("", *_LISTS):
                chat = _Chat(platform)
            elif place in ("", *_LISTS, "channel") and name in ("name", "type", "id"):
                chat.head[name] = value


def _read_telegram(record: Record, chat: _Chat) -> Iterator[Item]:
    """Read a message, an event as a line of the app, or the words of any other record as such a line."""
    kind, text = record.require("type"), _read_telegram_text(record)
    if kind not in ("message", "service") and not text:
        yield Wordless(kind)
        return
    sent = _read_telegram_time(record, "date")
    key, reply_to = chat.number(record)
    yield from map(Person, _list_people(record))
    if kind != "message":
        action = str(record.get("action") or "event").replace("_", " ") if kind == "service" else ""
        yield ChatMessage(
            sent, None, "\n".join(filter(None, [action, text])), "system", chat=chat.key, key=key
        )
        return
    if not text:  # it is counted by what it holds in place of words
        kind = record.text("media_type") or next((name for name in record if record.object(name)), kind)
    yield ChatMessage(
        sent=sent,
        author=record.text("from", "from_id"),
        author_id=record.text("from_id"),
        text=text,
        kind="media" if any(name in record for name in _MEDIA_OF_TELEGRAM) else "message",
        chat=chat.key,
        key=key,
        reply_to=reply_to,
        reactions=record.reactions(lambda one: one.text("emoji") or f":{one.get('type')}:"),
        edited=_read_telegram_time(record, "edited")
        if {"edited", "edited_unixtime"} & record.keys()
        else None,
        type=kind,
    )


def _read_telegram_time(record: Record, name: str) -> datetime:
    """Read the exact time if there is one, else the time on the clock of the computer that exported the chat."""
    return read_timestamp(record.get(f"{name}_unixtime") or record.get(name))


def _read_telegram_text(record: Record) -> str:
    """Return the text, and what stands in the fields of a poll, a list of tasks, a place, a contact, and the like."""
    said = []
    for name in ("text", "gift_text"):
        written = record.get(name, "")
        said.append("".join(map(_read_part, written if isinstance(written, list) else [written])))
    polls = (record.poll("poll"), record.poll("todo_list"))
    return "\n".join(filter(None, [*said, *polls, *map(record.text, _SHOWN), _name_contact(record)]))


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
    parts = record.objects("text") + record.objects("gift_text")
    mentioned = (part.get("text") for part in parts if part.get("type") in ("mention", "mention_name"))
    members = record.get("members")
    # The name of a channel is often the subject of its messages, which must stay in the texts.
    roles = (role for role in ("actor", "forwarded_from") if str(record.get(f"{role}_id")).startswith("user"))
    names = [*mentioned, *(members if isinstance(members, list) else []), *map(record.get, roles)]
    said = (name.removeprefix("@") for name in (*names, _name_contact(record)) if isinstance(name, str))
    yield from filter(str.strip, said)


_BY_PEOPLE: Final = frozenset(["Default", "Reply", "20", "23"])
"""Types of what people and bots write on Discord; 20 and 23 are bots' answers to commands. All others are lines of the
app."""

_MENTION: Final = re.compile(r"<@!?(\d{1,20})>")
_EMOJI: Final = re.compile(r"<a?(:\w{1,40}:)\d{1,20}>")


def _read_discord(record: Record, chat: _Chat) -> Iterator[Item]:
    for described in (record.object("author"), *record.objects("mentions")):
        # The account's name stays the same; the one that is shown changes.
        name, shown, identifier = (described.text(key) for key in ("name", "nickname", "id"))
        if name is not None:
            yield Person(name, (shown,) if shown else (), identifier)
    text, kind = _read_discord_text(record), record.text("type") or "message"
    by_person = kind in _BY_PEOPLE
    answers = by_person and record.text("reference/type") != "Forward"
    edited = record.get("timestampEdited")
    files = ("attachments", "stickers", "forwardedMessage/attachments", "forwardedMessage/stickers")
    has_files = any(map(record.objects, files if text else ("embeds", *files)))
    yield ChatMessage(
        sent=read_timestamp(record.get("timestamp")),
        author=record.text("author/name") if by_person else None,
        author_id=record.text("author/id"),
        text=text,
        kind="system" if not by_person else "media" if has_files else "message",
        chat=chat.key,
        key=record.require("id"),
        reply_to=record.text("reference/messageId") if answers else None,
        reactions=record.reactions(_name_emoji),
        edited=None if edited is None else read_timestamp(edited),
        type=kind,
    )


def _name_emoji(reaction: Record) -> str | None:
    name = reaction.text("emoji/name")
    return f":{name}:" if name and reaction.object("emoji").get("id") else name


def _read_discord_text(record: Record) -> str:
    """Return the text, or that of the forwarded message; the question of a poll; and what a bot embeds."""
    # What a person's message embeds beside a text is the preview of a link in it.
    written = record.content("content") or record.content("forwardedMessage/content")
    said = [written.strip() and written, record.poll("poll")]
    if not any(said) or record.object("author").get("isBot") is True:
        for embed in record.objects("embeds") + record.objects("forwardedMessage/embeds"):
            said += [embed.text("title") or "", embed.text("description") or ""]
            for part in embed.objects("fields"):
                said.append(": ".join(filter(None, (part.text("name"), part.text("value")))))
    names = {person.text("id"): person.text("nickname", "name") for person in record.objects("mentions")}
    text = _MENTION.sub(lambda match: f"@{names.get(match[1]) or match[1]}", "\n".join(filter(None, said)))
    return _EMOJI.sub(r"\1", text)


_PEOPLE: Final = "participants.item.name"
_MEDIA_OF_META: Final = ("photos", "videos", "audio_files", "gifs", "files", "sticker", "share")
_BY_APP: Final = frozenset(["Call", "Subscribe", "Unsubscribe"])
"""Types of lines of the app of Meta: calls, and people who join or leave."""

_PLACEHOLDER: Final = re.compile(r".* sent an attachment\.")


def _read_meta(files: Iterator[IO[bytes]]) -> Iterator[Item]:
    counts: Counter[tuple[str | None, str]] = Counter()
    for file in files:
        head, people = {"title": "", "thread_path": ""}, []
        with suppress(BrokenJsonError):  # reading the messages says where
            for path, value in stream_json(file, {_RECORDS}):
                if isinstance(value, str) and value.strip():
                    if path == _PEOPLE:
                        people.append(repair_text(value))
                    elif path in head:
                        head[path] = repair_text(value)
        yield from map(Person, people)
        place = head["thread_path"].rpartition("/")[2]
        identifier = place.rpartition("_")[2] or place
        chat = f"meta/{identifier}" if identifier else None
        if chat is not None:
            # Meta names a thread without a name after its people.
            name = None if any(person in head["title"] for person in people) else head["title"]
            yield Chat(chat, name_chat(name, identifier))
        file.seek(0)
        records = (value for path, value in stream_json(file, {_RECORDS}) if path == _RECORDS)
        yield from read_each(records, partial(_read_meta_message, chat=chat, counts=counts))


def repair_text(text: str) -> str:
    """Repair a text whose bytes in UTF-8 Meta wrote as characters of Latin-1; any other text stays as it is."""
    try:
        return text.encode("latin-1").decode()
    except UnicodeError:
        return text


def _read_meta_message(
    record: Record, chat: str | None, counts: Counter[tuple[str | None, str]]
) -> Iterator[Item]:
    yield from map(Person, filter(None, (_find_text(user, "name") for user in record.objects("users"))))
    moment, author, kind = record.get("timestamp_ms"), _find_text(record, "sender_name"), record.text("type")
    is_unsent = record.get("is_unsent") is True
    by_app = is_unsent or "call_duration" in record or kind in _BY_APP
    has_files = any(record.get(name) for name in _MEDIA_OF_META)
    reactions = (_find_text(reaction, "reaction") for reaction in record.objects("reactions"))
    # Meta gives messages no ids, but a time to the millisecond.
    counts[chat, str(moment)] += 1
    yield ChatMessage(
        sent=read_timestamp(moment),
        author=author if is_unsent or not by_app else None,
        text=None if is_unsent else _read_meta_text(record),
        kind="system" if by_app else "media" if has_files else "message",
        chat=chat,
        key=f"{moment}/{counts[chat, str(moment)]}" if chat else None,
        reactions=() if is_unsent else tuple(Counter(filter(None, reactions)).items()),
        type=kind or "message",
    )


def _find_text(record: Record, path: str) -> str | None:
    text = record.text(path)
    return None if text is None else repair_text(text)


def _read_meta_text(record: Record) -> str:
    """Return what was written, and the words and the address of what was shared with it."""
    text = repair_text(record.content("content"))
    if not record.get("share"):
        return text
    if _PLACEHOLDER.fullmatch(text):
        text = ""
    shared = (_find_text(record, f"share/{name}") for name in ("share_text", "link"))
    return "\n".join(filter(None, [text, *(one for one in shared if one and one not in text)]))


TELEGRAM: Final = make_json_format(
    "telegram",
    [
        *(f"messages.item.{name} messages.item.type" for name in ("date_unixtime", "from_id", "actor_id")),
        "chats.list.item.messages.item.type",
        "about personal_information",
        "about chats.about",
    ],
    partial(_read_chats, platform="telegram", read=_read_telegram),
    re.compile(r"result\.json"),
)
DISCORD: Final = make_json_format(
    "discord",
    ["guild.id channel.id channel.type"],
    partial(_read_chats, platform="discord", read=_read_discord),
)
META: Final = make_json_format(
    "meta",
    ["messages.item.sender_name messages.item.timestamp_ms", f"{_PEOPLE} thread_path"],
    _read_meta,
    re.compile(r"message_\d+\.json"),
)
