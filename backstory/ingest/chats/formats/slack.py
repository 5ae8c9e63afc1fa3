"""Slack: the folder or ZIP that the export of a workspace gives, with a file per channel and day."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath
from typing import Any, Final

from backstory.ingest.chats.chat_format import ChatFormat
from backstory.ingest.chats.items import (
    Chat,
    ChatMessage,
    Deleted,
    Item,
    Person,
    Unread,
    name_chat,
    read_each,
)
from backstory.ingest.chats.json_stream import BrokenJsonError, as_object, list_objects, stream_json
from backstory.ingest.chats.opened import Opened, is_slack_folder

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


def find_slack(opened: Opened) -> list[str]:
    """Return the files of a Slack export: lists of people and chats, and days of chats."""
    if opened.is_single:
        return []
    roots = sorted(
        (PurePosixPath(name).parent for name in opened.names if PurePosixPath(name).name == _PEOPLE), key=str
    )
    for root in roots:
        inside = {
            name: PurePosixPath(name).relative_to(root) for name in opened.names if _is_below(name, root)
        }
        lists = {str(path): name for name, path in inside.items() if len(path.parts) == 1}
        if is_slack_folder(list(lists)) and "item.id" in opened.json_paths(lists[_PEOPLE]):
            days = [
                name for name, path in inside.items() if len(path.parts) == 2 and _DAY.fullmatch(path.name)
            ]
            return [*(lists[name] for name in (_PEOPLE, *_CHANNELS) if name in lists), *sorted(days)]
    return []


def _is_below(name: str, root: PurePosixPath) -> bool:
    return PurePosixPath(name).is_relative_to(root)


def read_slack(opened: Opened, found: list[str]) -> Iterator[Item]:
    """Read the messages of all channels."""
    directory = _Directory()
    reported = ""
    for name in found:
        path = PurePosixPath(name)
        if path.name in (_PEOPLE, *_CHANNELS):
            yield from _read_list(opened, name, directory)
            continue
        folder = path.parent.name.encode("utf-8", "backslashreplace").decode()
        channel = directory.folders.get(folder, folder)
        if channel != reported:
            reported = channel
            title = None if channel in directory.unnamed else directory.channels.get(channel)
            yield Chat(f"slack/{channel}", name_chat(title, channel))
        yield from _read_day(opened, name, channel, directory)


def _read_list(opened: Opened, name: str, directory: _Directory) -> Iterator[Item]:
    """Read a list of people or chats into the directory."""
    kind = PurePosixPath(name).name
    try:
        with opened.open(name) as file:
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


def _read_day(opened: Opened, name: str, channel: str, directory: _Directory) -> Iterator[Item]:
    def read(record: Mapping[str, Any]) -> Item | None:
        return _read_record(record, f"slack/{channel}", directory)

    # The folder of a chat that no list names may be made of people's names, which a reason must not hold.
    is_listed = channel in directory.unnamed or channel in directory.channels
    day = PurePosixPath(name).name
    place = f"{channel}/{day}" if is_listed else f"{day} of a chat that no list names"
    try:
        with opened.open(name) as file:
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


_MARKUP: Final = re.compile(r"<([@#!]?)([^<>|]*)(?:\|([^<>]*))?>")
_ESCAPES: Final = (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&"))
_SCHEME: Final = re.compile(r"^(?:mailto:|tel:|https?://)")
_TARGETS: Final = {
    "user": ("user_id", "@"),
    "channel": ("channel_id", "#"),
    "broadcast": ("range", "!"),
    "link": ("url", ""),
}
"""Field and sign of what a piece of a rich text points to."""

_NOTHING: Final = "This content can't be displayed."
"""The text that Slack gives a message whose words stand in its blocks alone."""


def read_markup(text: str, people: Mapping[str, str], channels: Mapping[str, str]) -> str:
    """Write the markup of a text as people see it.

    It returns the text with ``@name``, ``#channel`` and ``label (address)``; an id without a name stays after its
    sign.
    """

    def write(match: re.Match[str]) -> str:
        sign, target, label = match.groups()
        if sign == "@":
            return f"@{people.get(target) or label or target}"
        if sign == "#":
            return f"#{label or channels.get(target) or target}"
        if sign == "!":
            return label or f"@{target.partition('^')[0]}"
        plain = _SCHEME.sub("", target).rstrip("/")
        if not label or label.rstrip("/") in (target.rstrip("/"), plain):
            return plain if target.startswith(("mailto:", "tel:")) else target
        return f"{label} ({target})"

    written = _MARKUP.sub(write, text)
    for escape, character in _ESCAPES:
        written = written.replace(escape, character)
    return written


def read_words(record: Mapping[str, Any]) -> str:
    """Return what a message says, in the markup of Slack: its text, or its blocks, and the messages that it forwards.

    What a bot writes stands in headers and sections, of which the text is a summary. What is attached by a person is
    the preview of a link, unless it is another message.

    It raises ``ValueError`` if the text is not text.
    """
    text = record.get("text")
    if text and not isinstance(text, str):
        raise ValueError("the text is not text")
    blocks = list_objects(record.get("blocks"))
    attachments = list_objects(record.get("attachments"))
    if not text or text == _NOTHING or any(block.get("type") != "rich_text" for block in blocks):
        text = _join(map(_read_block, blocks)) or ("" if text == _NOTHING else text)
    shared = [part for part in attachments if not text or part.get("is_share") or part.get("is_msg_unfurl")]
    return _join([text or "", *map(_read_attachment, shared)])


def _join(lines: Iterable[str]) -> str:
    return "\n".join(filter(None, lines))


def _read_attachment(attachment: Mapping[str, Any]) -> str:
    """Return what is attached: its fields, its blocks, or the blocks of the message that it forwards."""
    said = [part for name in ("pretext", "title", "text") if isinstance(part := attachment.get(name), str)]
    said += [_read_pair(field) for field in list_objects(attachment.get("fields"))]
    blocks = list_objects(attachment.get("blocks"))
    for forwarded in list_objects(attachment.get("message_blocks")):
        blocks += list_objects(as_object(forwarded.get("message")).get("blocks"))
    if not any(said):
        said = [_read_block(block) for block in blocks]
    fallback = attachment.get("fallback")
    return _join(said) or (fallback if isinstance(fallback, str) else "")


def _read_pair(field: Mapping[str, Any]) -> str:
    return ": ".join(part for name in ("title", "value") if isinstance(part := field.get(name), str) and part)


def _read_block(block: Mapping[str, Any]) -> str:
    """Return the words of a block, a line for each of its parts."""
    if block.get("type") == "rich_text":
        return _join("".join(_read_rich(part)) for part in list_objects(block.get("elements")))
    if block.get("type") == "actions":  # names of buttons
        return ""
    rows = block.get("rows")
    if isinstance(rows, list):
        return _join(" | ".join(map(_read_block, list_objects(row))) for row in rows)
    words = [block.get("text"), block.get("title"), *list_objects(block.get("fields"))]
    return _join(map(_read_plain, [*words, *list_objects(block.get("elements"))]))


def _read_plain(value: Any) -> str:
    """Return a text, or that of an object with one."""
    text = value.get("text") if isinstance(value, dict) else value
    return text if isinstance(text, str) else ""


def _read_rich(element: Mapping[str, Any]) -> Iterator[str]:
    """Yield the pieces of a part of a rich text: a section, a list, a quote, or code."""
    kind, parts = str(element.get("type")), list_objects(element.get("elements"))
    if kind == "rich_text_list":
        indent = element.get("indent")
        begin = f"{'  ' * indent if isinstance(indent, int) else ''}- "
        yield "\n".join(begin + "".join(_read_rich(part)) for part in parts)
    elif parts:
        words = "".join(piece for part in parts for piece in _read_rich(part))
        yield f"&gt; {words}" if kind == "rich_text_quote" else words
    elif kind == "emoji":
        yield f":{element.get('name')}:"
    else:
        yield _read_leaf(kind, element)


def _read_leaf(kind: str, element: Mapping[str, Any]) -> str:
    """Write a piece in the markup of Slack's texts."""
    text = _read_plain(element)
    if kind in _TARGETS:
        name, sign = _TARGETS[kind]
        target = f"{sign}{element.get(name, '')}"
        return f"<{target}|{text}>" if text else f"<{target}>"
    escaped = text or str(element.get("fallback") or "")
    for escape, character in reversed(_ESCAPES):
        escaped = escaped.replace(character, escape)
    return escaped
