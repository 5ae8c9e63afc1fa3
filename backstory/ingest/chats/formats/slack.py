"""Slack: the folder or ZIP that the export of a workspace gives, with a file per channel and day."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePosixPath
from typing import Any, Final

from backstory.ingest.chats.export import (
    Chat,
    ChatMessage,
    Deleted,
    Item,
    Person,
    Unread,
    name_chat,
    read_each,
)
from backstory.ingest.chats.export_files import ChatFormat, Opened, is_slack_folder
from backstory.ingest.chats.formats.tables import read_timestamp
from backstory.ingest.chats.json_stream import BrokenJsonError, Record, stream_json

_PEOPLE: Final = "users.json"
_CHANNELS: Final = ("channels.json", "groups.json", "mpims.json", "dms.json")
_UNNAMED: Final = ("mpims.json", "dms.json")
"""Lists of chats whose names, if any, are made of those of people."""

_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}\.json")
_BY_PEOPLE: Final = frozenset(
    [None, "bot_message", "me_message", "thread_broadcast", "reply_broadcast", "file_share", "file_comment"]
)
"""Subtypes of what people and bots write; all others, and records of other types, are lines of the app."""

_NAMES: Final = ("profile/display_name", "profile/real_name", "real_name", "name")
"""Places of a person's names, first the one that Slack shows."""

_SHOWN: Final = tuple(
    f"{who}_profile/{name}" for who in ("user", "bot") for name in ("display_name", "real_name", "name")
)
"""Places of names in a message."""


@dataclass
class _Directory:
    """Names of people and channels by their ids, and chats by the names of their folders."""

    people: dict[str, str] = field(default_factory=dict)
    channels: dict[str, str] = field(default_factory=dict)
    chats: dict[str, Chat] = field(default_factory=dict)


def _find(opened: Opened) -> list[str]:
    """Return the files of a Slack export: lists of people and chats, and days of chats."""
    if opened.is_single:
        return []
    paths = {PurePosixPath(name): name for name in opened.names}
    for root in sorted((path.parent for path in paths if path.name == _PEOPLE), key=str):
        lists = {path.name: name for path, name in paths.items() if path.parent == root}
        if is_slack_folder(list(lists)) and "item.id" in opened.json_paths(lists[_PEOPLE]):
            days = (
                name
                for path, name in paths.items()
                if path.parent != root and path.parent.parent == root and _DAY.fullmatch(path.name)
            )
            return [*(lists[name] for name in (_PEOPLE, *_CHANNELS) if name in lists), *sorted(days)]
    return []


def _read(opened: Opened, found: list[str]) -> Iterator[Item]:
    directory = _Directory()
    for name in found:
        path = PurePosixPath(name)
        folder = path.parent.name.encode("utf-8", "backslashreplace").decode()
        chat = directory.chats.get(folder) or Chat(f"slack/{folder}", name_chat(None, folder))
        # The folder of a chat that no list names may be made of people's names, which a reason must not hold.
        channel = f"{chat.key.removeprefix('slack/')}/" if folder in directory.chats else ""
        if path.name in (_PEOPLE, *_CHANNELS):
            read = partial(_read_entry, kind=path.name, directory=directory)
        else:
            yield chat
            read = partial(_read_record, chat=chat.key, directory=directory)
        try:
            with opened.open(name) as file:
                # Each value counts, since one that stands in no list is a record that cannot be read.
                records = (value for _, value in stream_json(file, {"item"}))
                yield from read_each(records, read, place=f"{channel}{path.name}")
        except BrokenJsonError as error:
            yield Unread(f"{channel}{path.name}: {error}; the rest of this file was not read")


def _read_entry(record: Record, kind: str, directory: _Directory) -> Iterator[Item]:
    """Read an entry of a list of people or chats into the directory."""
    identifier, name = record.require("id"), record.text("name")
    if kind == _PEOPLE:
        names = [*dict.fromkeys(name.strip() for path in _NAMES if (name := record.text(path)))]
        directory.people[identifier] = names[0] if names else identifier
        yield Person(directory.people[identifier], tuple(names[1:]), identifier)
        return
    if name:
        directory.channels[identifier] = name
    title = None if kind in _UNNAMED else name
    chat = Chat(f"slack/{identifier}", name_chat(title, identifier))
    directory.chats |= dict.fromkeys((identifier, name or identifier), chat)


def _read_record(record: Record, chat: str, directory: _Directory) -> Iterator[Item]:
    if record.get("subtype") in ("message_changed", "message_replied"):
        record = record.object("message") or record
    kind, key, edited = record.require("type"), record.text("ts"), record.text("edited/ts")
    subtype, thread = record.text("subtype"), record.text("thread_ts")
    if subtype == "message_deleted":
        yield Deleted(chat, record.require("deleted_ts"))
        return
    words = _read_words(record) or ("" if kind == "message" else _write(record))
    text = read_markup(words, directory.people, directory.channels)
    by_person = kind == "message" and subtype in _BY_PEOPLE
    shown = ("files", "file") if text else ("files", "file", "blocks", "attachments")
    yield ChatMessage(
        sent=read_timestamp(key),
        author=_read_author(record, directory) if by_person or subtype == "tombstone" else None,
        author_id=record.text("user"),
        text=text or None,
        kind="system" if not by_person else "media" if any(map(record.get, shown)) else "message",
        chat=chat,
        key=key,
        reply_to=thread if thread != key else None,
        reactions=record.reactions(lambda one: (name := one.text("name")) and f":{name}:"),
        edited=read_timestamp(edited) if edited else None,
        type=subtype or kind,
    )


def _read_author(record: Record, directory: _Directory) -> str:
    """Return the name of the person or bot; an id that no list names is the name."""
    user = record.text("user", "comment/user") or ""
    shown = directory.people.get(user) or record.text(*_SHOWN, "username")
    return shown or record.require("user", "comment/user", "bot_id")


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
    """Write the markup of a text as people see it: ``@name``, ``#channel`` and ``label (address)``.

    An id without a name stays after its sign.
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


def _read_words(record: Record) -> str:
    """Return what a message says, in the markup of Slack: its text, or its blocks, and messages that it forwards."""
    # What a bot writes stands in headers and sections, of which the text is a summary. What is attached by a person is
    # the preview of a link, unless it is another message.
    text, blocks = record.content("text"), record.objects("blocks")
    text = "" if text == _NOTHING else text
    if not text or any(block.get("type") != "rich_text" for block in blocks):
        text = _write_each(blocks) or text
    attached = record.objects("attachments")
    shared = (part for part in attached if not text or part.get("is_share") or part.get("is_msg_unfurl"))
    return _join([text, *map(_write, shared)])


def _join(lines: Iterable[str], by: str = "\n") -> str:
    return by.join(filter(None, lines))


def _write_each(blocks: Sequence[Record]) -> str:
    """Write blocks, a line for each of their parts; the names of buttons only if there is nothing else."""
    said = (block for block in blocks if block.get("type") != "actions")
    return _join(map(_write, said)) or _join(map(_write, blocks))


def _write(part: Record) -> str:
    """Write a block, an attachment, or a part of one: a section, a table, a list, a quote, a piece of a line."""
    kind, text = str(part.get("type")), _read_plain(part)
    if kind == "emoji":
        return f":{part.get('name')}:"
    if kind in _TARGETS:
        name, sign = _TARGETS[kind]
        target = f"{sign}{part.get(name, '')}"
        return f"<{target}|{text}>" if text else f"<{target}>"
    if kind == "text":
        for escape, character in reversed(_ESCAPES):
            text = text.replace(character, escape)
        return text
    if kind == "rich_text_list":
        indent = part.get("indent")
        begin = f"{'  ' * min(indent, 9) if isinstance(indent, int) else ''}- "
        return "\n".join(begin + _write(one) for one in part.objects("elements"))
    if kind.startswith("rich_text_"):
        return ("&gt; " if kind == "rich_text_quote" else "") + "".join(map(_write, part.objects("elements")))
    said = [_read_plain(part.get(name)) for name in ("pretext", "title", "text")]
    pairs = ((pair, pair.get("title"), pair.get("value")) for pair in part.objects("fields"))
    said += [_join(map(_read_plain, pair), ": ") for pair in pairs]
    rows = part.get("rows")
    cells = (Record(row=row).objects("row") for row in (rows if isinstance(rows, list) else []))
    said += [" | ".join(map(_write, row)) for row in cells]
    if any(said):
        return _join(said)
    places = ("elements", "blocks", "message/blocks", "message_blocks")
    inner = [one for place in places for one in part.objects(place)]
    return _write_each(inner) or _read_plain(part.get("fallback")) or _write_each(part.objects("actions"))


def _read_plain(value: Any) -> str:
    """Return a text, or that of an object with one."""
    text = value.get("text") if isinstance(value, dict) else value
    return text if isinstance(text, str) else ""


SLACK: Final = ChatFormat("slack", _find, _read)
