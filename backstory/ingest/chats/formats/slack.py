"""Slack: the folder or ZIP that the export of a workspace gives, with a file per channel and day."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath
from typing import Any, Final

from backstory.ingest.chats.chat_format import (
    Chat,
    ChatFormat,
    ChatMessage,
    Deleted,
    Item,
    Person,
    Unread,
    name_chat,
    read_each,
)
from backstory.ingest.chats.export_parts import ExportParts, is_slack_folder
from backstory.ingest.chats.formats.slack_text import read_markup, read_words
from backstory.ingest.chats.json_stream import BrokenJsonError, find_paths, read_head, stream_json

_PEOPLE: Final = "users.json"
_CHANNELS: Final = ("channels.json", "groups.json", "mpims.json", "dms.json")
_UNNAMED: Final = ("mpims.json", "dms.json")
"""Lists of chats whose names, if any, are made of those of people."""

_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}\.json")
_TIME: Final = re.compile(r"(\d{1,11})\.(\d{1,6})")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_BY_PEOPLE: Final = frozenset(
    [None, "bot_message", "me_message", "thread_broadcast", "reply_broadcast", "file_share", "file_comment"]
)
"""Subtypes of what people and bots write; all others are lines of the app."""


@dataclass
class _Directory:
    """Names of people and channels by their ids, and ids of channels by the names of their folders."""

    people: dict[str, str] = field(default_factory=dict)
    channels: dict[str, str] = field(default_factory=dict)
    folders: dict[str, str] = field(default_factory=dict)
    unnamed: set[str] = field(default_factory=set)


def find_slack(parts: ExportParts) -> list[str]:
    """Return the files of a Slack export: lists of people and chats, and days of chats."""
    if parts.is_single:
        return []
    roots = sorted(
        (PurePosixPath(name).parent for name in parts.names if PurePosixPath(name).name == _PEOPLE), key=str
    )
    for root in roots:
        inside = {
            name: PurePosixPath(name).relative_to(root) for name in parts.names if _is_below(name, root)
        }
        lists = {str(path): name for name, path in inside.items() if len(path.parts) == 1}
        if is_slack_folder(list(lists)) and _lists_people(parts, lists[_PEOPLE]):
            days = [
                name for name, path in inside.items() if len(path.parts) == 2 and _DAY.fullmatch(path.name)
            ]
            return [*(lists[name] for name in (_PEOPLE, *_CHANNELS) if name in lists), *sorted(days)]
    return []


def _lists_people(parts: ExportParts, name: str) -> bool:
    with parts.open(name) as file:
        return "item.id" in find_paths(read_head(file))


def _is_below(name: str, root: PurePosixPath) -> bool:
    return PurePosixPath(name).is_relative_to(root)


def read_slack(parts: ExportParts, found: list[str]) -> Iterator[Item]:
    """Read the messages of all channels; see :class:`backstory.ingest.chats.chat_format.ChatFormat`."""
    directory = _Directory()
    reported = ""
    for name in found:
        path = PurePosixPath(name)
        if path.name in (_PEOPLE, *_CHANNELS):
            yield from _read_list(parts, name, directory)
            continue
        folder = path.parent.name.encode("utf-8", "backslashreplace").decode()
        channel = directory.folders.get(folder, folder)
        if channel != reported:
            reported = channel
            title = None if channel in directory.unnamed else directory.channels.get(channel)
            yield Chat(f"slack/{channel}", name_chat(title, channel))
        yield from _read_day(parts, name, channel, directory)


def _read_list(parts: ExportParts, name: str, directory: _Directory) -> Iterator[Item]:
    """Read a list of people or chats into the directory."""
    kind = PurePosixPath(name).name
    try:
        with parts.open(name) as file:
            for _, record in stream_json(file, {"item"}):
                identifier = record.get("id") if isinstance(record, dict) else None
                if not isinstance(identifier, str):
                    yield Unread(f"{kind}: an entry without an id")
                elif kind == _PEOPLE:
                    names = _list_names(record)
                    directory.people[identifier] = names[0] if names else identifier
                    yield Person(directory.people[identifier], tuple(names[1:]), identifier)
                else:
                    _add_channel(record, identifier, directory, is_named=kind not in _UNNAMED)
    except BrokenJsonError as error:
        yield Unread(f"{kind}: {error}; ids that are listed after this place stay without a name")


def _add_channel(
    record: Mapping[str, Any], identifier: str, directory: _Directory, *, is_named: bool
) -> None:
    name = record.get("name")
    if isinstance(name, str) and name:
        directory.folders[name] = identifier
        directory.channels[identifier] = name
    if not is_named:
        directory.unnamed.add(identifier)


def _list_names(record: Mapping[str, Any]) -> list[str]:
    """List the names of a person, first the one that Slack shows."""
    profile = record.get("profile")
    known = profile if isinstance(profile, dict) else {}
    names = (known.get("display_name"), known.get("real_name"), record.get("real_name"), record.get("name"))
    return list(dict.fromkeys(name.strip() for name in names if isinstance(name, str) and name.strip()))


def _read_day(parts: ExportParts, name: str, channel: str, directory: _Directory) -> Iterator[Item]:
    def read(record: Mapping[str, Any]) -> Item | None:
        return _read_record(record, f"slack/{channel}", directory)

    # The folder of a chat that no list names may be made of people's names, which a reason must not hold.
    is_listed = channel in directory.unnamed or channel in directory.channels
    day = PurePosixPath(name).name
    place = f"{channel}/{day}" if is_listed else f"{day} of a chat that no list names"
    try:
        with parts.open(name) as file:
            for number, (_, record) in enumerate(stream_json(file, {"item"}), start=1):
                for item in read_each([record], read):
                    yield (
                        Unread(f"record {number} of {place}: {item.reason}")
                        if isinstance(item, Unread)
                        else item
                    )
    except BrokenJsonError as error:
        yield Unread(f"{place}: {error}; the rest of this day was not read")


def _read_record(record: Mapping[str, Any], chat: str, directory: _Directory) -> Item:
    if record.get("type") != "message":
        raise ValueError("the record is no message")
    subtype = record.get("subtype")
    if not isinstance(subtype, str | None):
        raise ValueError("the subtype is not text")  # noqa: TRY004 - the value is data of the file
    if subtype == "message_deleted":
        return Deleted(chat, _read_key(record.get("deleted_ts")))
    if subtype in ("message_changed", "message_replied") and isinstance(record.get("message"), dict):
        return _read_record({**record["message"], "type": "message"}, chat, directory)
    key, thread, edited = _read_key(record.get("ts")), record.get("thread_ts"), record.get("edited")
    by_person = subtype in _BY_PEOPLE
    text = read_markup(read_words(record), directory.people, directory.channels)
    has_files = any(record.get(name) for name in ("files", "file"))
    return ChatMessage(
        sent=_read_time(key),
        author=_read_author(record, directory) if by_person or subtype == "tombstone" else None,
        author_id=user if isinstance(user := record.get("user"), str) else None,
        text=text or None,
        kind="system" if not by_person else "media" if has_files or not text else "message",
        chat=chat,
        key=key,
        reply_to=thread if isinstance(thread, str) and thread != key else None,
        reactions=_read_reactions(record.get("reactions")),
        is_edited=isinstance(edited, dict),
        edited=_read_time(_read_key(edited.get("ts"))) if isinstance(edited, dict) else None,
    )


def _read_key(value: Any) -> str:
    """Check the time that is a message's id in its channel."""
    if not isinstance(value, str) or not _TIME.fullmatch(value):
        raise ValueError("the timestamp (ts) is not seconds and microseconds since 1970")
    return value


def _read_time(key: str) -> datetime:
    seconds, _, fraction = key.partition(".")
    return _EPOCH + timedelta(seconds=int(seconds), microseconds=int(fraction.ljust(6, "0")))


def _read_author(record: Mapping[str, Any], directory: _Directory) -> str:
    """Return the name of the person or bot; an id that no list names is the name."""
    comment = record.get("comment")
    user = record.get("user") or (comment.get("user") if isinstance(comment, dict) else None)
    if isinstance(user, str) and user in directory.people:
        return directory.people[user]
    for described in ("user_profile", "bot_profile"):
        profile = record.get(described)
        if isinstance(profile, dict) and (names := _list_names({**profile, "profile": profile})):
            return names[0]
    for name in (record.get("username"), user, record.get("bot_id")):
        if isinstance(name, str) and name.strip():
            return name
    raise ValueError("there is no author")


def _read_reactions(reactions: Any) -> tuple[tuple[str, int], ...]:
    found = []
    for reaction in reactions if isinstance(reactions, list) else ():
        name = reaction.get("name") if isinstance(reaction, dict) else None
        if isinstance(name, str) and isinstance(count := reaction.get("count"), int):
            found.append((f":{name}:", count))
    return tuple(found)


SLACK: Final = ChatFormat("slack", find_slack, read_slack)
