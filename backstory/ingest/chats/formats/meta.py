"""Instagram and Messenger: the JSON files of a thread in what Meta lets download, ``message_1.json`` and following."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from typing import IO, Any, Final

from backstory.ingest.chats.chat_format import ChatFormat, find_marked
from backstory.ingest.chats.formats.table_values import read_timestamp
from backstory.ingest.chats.items import Chat, ChatMessage, Item, Person, name_chat, read_each
from backstory.ingest.chats.json_stream import (
    BrokenJsonError,
    as_object,
    first_text,
    list_objects,
    read_content,
    stream_json,
    stream_records,
)
from backstory.ingest.chats.opened import Opened

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


class _Thread:
    """The thread of a file, of which some properties stand behind its messages.

    Attributes:
        people: Names of the participants.
        chat: The chat; None if the export does not identify it.
    """

    def __init__(self, head: Mapping[str, str], people: list[str]) -> None:
        self.people = people
        place = head.get("thread_path", "").rpartition("/")[2]
        identifier, title = place.rpartition("_")[2] or place, head.get("title", "")
        # Meta names a thread without a name after its people.
        name = None if any(person in title for person in people) else title
        self.chat = Chat(f"meta/{identifier}", name_chat(name, identifier)) if identifier else None

    def number(self, moment: object, counts: Counter[tuple[str, str]]) -> str | None:
        """Return the key of the next message: Meta gives none, but a time to the millisecond."""
        if self.chat is None:
            return None
        counts[self.chat.key, str(moment)] += 1
        return f"{moment}/{counts[self.chat.key, str(moment)]}"


def read_meta(opened: Opened, found: list[str]) -> Iterator[Item]:
    """Read the messages of all threads."""
    counts: Counter[tuple[str, str]] = Counter()
    for name in found:
        with opened.open(name) as file:
            thread = _read_thread(file)
        if thread.chat is not None:
            yield thread.chat
        yield from map(Person, thread.people)
        with opened.open(name) as file:
            for value in stream_records(file, _RECORDS):
                yield from _read_record(value, thread, counts)


def repair_text(text: str) -> str:
    """Repair a text whose bytes in UTF-8 Meta wrote as characters of Latin-1; any other text stays as it is."""
    try:
        return text.encode("latin-1").decode()
    except UnicodeError:
        return text


def _read_thread(file: IO[bytes]) -> _Thread:
    head: dict[str, str] = {}
    people: list[str] = []
    try:
        for path, value in stream_json(file, {_RECORDS}):
            if isinstance(value, str) and value.strip():
                if path == _PEOPLE:
                    people.append(repair_text(value))
                elif path in ("title", "thread_path"):
                    head[path] = repair_text(value)
    except BrokenJsonError:  # reading the messages says where
        pass
    return _Thread(head, people)


def _read_record(record: Any, thread: _Thread, counts: Counter[tuple[str, str]]) -> Iterator[Item]:
    for described in list_objects(as_object(record).get("users")):
        if name := _find_text(described, "name"):
            yield Person(name)
    yield from read_each([record], lambda found: _read_message(found, thread, counts))


def _read_message(
    record: Mapping[str, Any], thread: _Thread, counts: Counter[tuple[str, str]]
) -> ChatMessage:
    sent = read_timestamp(record.get("timestamp_ms"))
    author = _find_text(record, "sender_name")
    if author is None:
        raise ValueError("there is no author")
    is_unsent = record.get("is_unsent") is True
    by_app = is_unsent or "call_duration" in record or first_text(record.get("type")) in _BY_APP
    text = "" if is_unsent else _read_text(record)
    has_files = any(record.get(field) for field in _MEDIA)
    return ChatMessage(
        sent=sent,
        author=author if is_unsent or not by_app else None,
        text=text or None,
        kind="system" if by_app else "media" if has_files or not text else "message",
        chat=thread.chat.key if thread.chat else None,
        key=thread.number(record.get("timestamp_ms"), counts),
        reactions=() if is_unsent else _read_reactions(record),
    )


def _find_text(record: Mapping[str, Any], field: str) -> str | None:
    text = first_text(record.get(field))
    return None if text is None else repair_text(text)


def _read_text(record: Mapping[str, Any]) -> str:
    """Return what was written, and the address of what was shared with it."""
    text = repair_text(read_content(record, "content"))
    share = as_object(record.get("share"))
    if share and _PLACEHOLDER.fullmatch(text):
        text = ""
    link = _find_text(share, "link")
    return text if link is None or link in text else f"{text}\n{link}".lstrip()


def _read_reactions(record: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
    found = (_find_text(reaction, "reaction") for reaction in list_objects(record.get("reactions")))
    return tuple(Counter(filter(None, found)).items())


META: Final = ChatFormat("meta", partial(find_marked, marks=_MARKS, named=_FILE), read_meta)
