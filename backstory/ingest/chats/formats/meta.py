"""Instagram and Messenger: the JSON files of a thread in what Meta lets download, ``message_1.json`` and following."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import IO, Final

from backstory.ingest.chats.export import Chat, ChatMessage, Item, Person, name_chat, read_each
from backstory.ingest.chats.export_files import make_json_format
from backstory.ingest.chats.formats.tables import read_timestamp
from backstory.ingest.chats.json_stream import BrokenJsonError, Record, stream_json

_RECORDS: Final = "messages.item"
_PEOPLE: Final = "participants.item.name"
_MARKS: Final = (
    frozenset(["messages.item.sender_name", "messages.item.timestamp_ms"]),
    frozenset([_PEOPLE, "thread_path"]),
)
_FILE: Final = re.compile(r"message_\d+\.json")
_MEDIA: Final = ("photos", "videos", "audio_files", "gifs", "files", "sticker", "share")
_BY_APP: Final = frozenset(["Call", "Subscribe", "Unsubscribe"])
"""Types of lines of the app: calls, and people who join or leave."""

_PLACEHOLDER: Final = re.compile(r".* sent an attachment\.")


def _read(files: Iterator[IO[bytes]]) -> Iterator[Item]:
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
        yield from read_each(records, partial(_read_message, chat=chat, counts=counts))


def repair_text(text: str) -> str:
    """Repair a text whose bytes in UTF-8 Meta wrote as characters of Latin-1; any other text stays as it is."""
    try:
        return text.encode("latin-1").decode()
    except UnicodeError:
        return text


def _read_message(
    record: Record, chat: str | None, counts: Counter[tuple[str | None, str]]
) -> Iterator[Item]:
    yield from map(Person, filter(None, (_find_text(user, "name") for user in record.objects("users"))))
    moment, author = record.get("timestamp_ms"), _find_text(record, "sender_name")
    is_unsent = record.get("is_unsent") is True
    by_app = is_unsent or "call_duration" in record or record.text("type") in _BY_APP
    text = "" if is_unsent else _read_text(record)
    has_files = any(record.get(field) for field in _MEDIA)
    reactions = (_find_text(reaction, "reaction") for reaction in record.objects("reactions"))
    # Meta gives messages no ids, but a time to the millisecond.
    counts[chat, str(moment)] += 1
    yield ChatMessage(
        sent=read_timestamp(moment),
        author=author if is_unsent or not by_app else None,
        text=text or None,
        kind="system" if by_app else "media" if has_files or not text else "message",
        chat=chat,
        key=f"{moment}/{counts[chat, str(moment)]}" if chat else None,
        reactions=() if is_unsent else tuple(Counter(filter(None, reactions)).items()),
    )


def _find_text(record: Record, path: str) -> str | None:
    text = record.text(path)
    return None if text is None else repair_text(text)


def _read_text(record: Record) -> str:
    """Return what was written, and the words and the address of what was shared with it."""
    text = repair_text(record.content("content"))
    if not record.get("share"):
        return text
    if _PLACEHOLDER.fullmatch(text):
        text = ""
    shared = (_find_text(record, f"share/{name}") for name in ("share_text", "link"))
    return "\n".join(filter(None, [text, *(one for one in shared if one and one not in text)]))


META: Final = make_json_format("meta", _MARKS, _read, _FILE)
