"""One export: the items that its reader reads, and what they make: messages, people, and its row of ``sources``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TypeAlias

import polars as pl

from backstory.base.errors import ReadError
from backstory.base.ids import digest
from backstory.ingest.chats.json_stream import BrokenJsonError, Record
from backstory.ingest.chats.times import KNOWN_YEAR, count_microseconds
from backstory.text.encoding import UTF8

_UNFIT: Final = re.compile(r"[\s\x00-\x1f\x7f]+")
_LONGEST_NAME: Final = 80
_HALF_LETTER: Final = re.compile("[\ud800-\udfff]")
_TYPE: Final = re.compile(r"[\w.-]{1,60}", re.ASCII)
_MOST_TYPES: Final = 20
"""Types that are counted by their names, which a file of another origin may fill with anything."""


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat of an export, before its messages.

    ``key``: platform and id, the same in every export. ``name``: that of its conversation; see :func:`name_chat`.
    """

    key: str
    name: str


@dataclass(frozen=True, slots=True)
class Person:
    """Someone whom the export names, by the name as an author, whether or not they wrote.

    ``identifier``: id of the account, if the platform gives ids to people whose names may be alike.
    """

    name: str
    aliases: tuple[str, ...] = ()
    identifier: str | None = None


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message.

    Attributes:
        sent: Time of sending; without a time zone, a time on the clock of the export.
        author: Name as the export shows it; None for lines of the app.
        text: Text with mentions as ``@name``; None for media without a caption.
        kind: ``message``, ``media`` or ``system``.
        chat: Key of the chat; None if the export names none, so that its file is the conversation.
        key: Id of the message, the same in every export that holds it; None if the platform has none.
        reply_to: Key of the message in this chat that it answers.
        reactions: Emoji (of a custom one ``:name:``) and how many people chose it.
        edited: Time of the last change, if there was one; in the form of ``sent``.
        author_id: Id of the author, as that of a :class:`Person`.
        is_change: Whether it is a later form, sent then, of the message with the key; the last one counts.
        type: That of the platform, by which it is counted if it has no text, is no media, and tells of no deletion.
    """

    sent: datetime
    author: str | None
    text: str | None
    kind: str = "message"
    chat: str | None = None
    key: str | None = None
    reply_to: str | None = None
    reactions: tuple[tuple[str, int], ...] = ()
    edited: datetime | None = None
    author_id: str | None = None
    is_change: bool = False
    type: str | None = None


@dataclass(frozen=True, slots=True)
class Reacted:
    """A reaction to the message with a key; no emoji takes back what was chosen before.

    ``identifier``: key of the reaction: a later one with the same replaces it, and it may be deleted.
    """

    key: str
    emoji: str
    identifier: str


@dataclass(frozen=True, slots=True)
class Deleted:
    """A message of an export was deleted on the platform: no table holds it, wherever the export does."""

    chat: str | None
    key: str


@dataclass(frozen=True, slots=True)
class Unread:
    """A record that cannot be read, with the reason, which never quotes the record."""

    reason: str


@dataclass(frozen=True, slots=True)
class Wordless:
    """A record in which nobody says anything, such as a vote; its kinds are counted."""

    kind: str


Item: TypeAlias = Chat | Person | ChatMessage | Reacted | Deleted | Unread | Wordless


def name_chat(name: str | None, identifier: str) -> str:
    """Name the conversation of a chat by its name, if it has one, and its id, so that two never have one name."""
    parts = (_UNFIT.sub(" ", part or "").strip()[:_LONGEST_NAME].strip() for part in (name, identifier))
    return "-".join(filter(None, parts)) or "chat"


def read_each(
    records: Iterable[Any], read: Callable[[Record], Iterable[Item]], *, place: str = ""
) -> Iterator[Item]:
    """Read records one by one; one for which ``read`` raises ``ValueError`` is unread for that reason."""
    for number, record in enumerate(records, start=1):
        try:
            if not isinstance(record, Record):
                raise ValueError("the record is no object")  # noqa: TRY004 - the value is data of the file
            yield from read(record)
        except ValueError as error:
            yield Unread(f"{place and f'record {number} of {place}: '}{error}")


def read_text(value: object, column: str) -> str | None:
    """Read an author or a message; numbers are converted to text.

    It raises ``ValueError`` if the value is a list or an object, or not valid Unicode.
    """
    text = None if value is None else str(value)
    if isinstance(value, list | dict) or (text and not text.isascii() and _HALF_LETTER.search(text)):
        raise ValueError(f"the column {column} holds a list, an object, or half of a surrogate pair")
    return text


_REACTIONS: Final = pl.List(pl.Struct({"emoji": pl.String(), "count": pl.Int64()}))
ROW_SCHEMA: Final = pl.Schema(
    {
        "timestamp": pl.Datetime("us", "UTC"),
        "seq": pl.Int64(),
        "author": pl.String(),
        "text": pl.String(),
        "kind": pl.String(),
        "edited": pl.Boolean(),
        "chat": pl.String(),
        "key": pl.String(),
        "reply_key": pl.String(),
        "reactions": _REACTIONS,
        "edited_at": pl.Datetime("us", "UTC"),
    }
)
"""Columns of messages: ``seq`` counts from 0 in the order of the source, and the author is null for a line written by
the app. Platforms that give ids to chats and messages have keys of the chat, of the message in it and of the message
that it answers; other exports have nulls."""

_ROWS_AT_ONCE: Final = 50_000
_MOST_PEOPLE: Final = 10**9
_NO_ORIGINAL: Final = "it changes a message that the file does not hold; export the chat from an earlier date"


@dataclass(frozen=True)
class ExportFile:
    """A file that affects the messages read from a folder of exports, by its path there.

    ``sha256`` is the hash of the bytes, of a folder of those of its parts; it is empty if the file is not read. No
    message of the file can have been sent after ``latest_year``.
    """

    source: str
    sha256: str = ""
    latest_year: int = KNOWN_YEAR


@dataclass(kw_only=True)
class Export:
    """The content of one export, and the status of its file.

    Attributes:
        rows: Messages in the columns of ``ROW_SCHEMA``.
        unread: Why lines could not be read, by their numbers from 1. A reason never quotes the line, since the line may
            contain a name.
        encoding, date_order, timezone: How it was read; None for what the format itself tells.
        chats: Names of conversations by the keys in the column ``chat``.
        aliases: Further names of authors, each with the authors whose name it is.
        people: Names of people who may have written nothing.
        ids: Ids of people by their names, of platforms that give ids to people whose names may be alike.
        wordless: Number of records by kind in which nobody says anything.
        deleted: Keys of chats and messages in them that the platform deleted, whichever export holds them.
        source: Path relative to the folder of exports.
        status, reason, format: As in the table ``sources``; the status of media is ``media`` until their chat is known.
        file: The file as it was read; None if nothing could be, so that no message depends on it.
        code: Code of the error of a refused file.
    """

    rows: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=ROW_SCHEMA))
    unread: dict[int, str] = field(default_factory=dict)
    encoding: str | None = None
    date_order: str | None = None
    timezone: str | None = None
    chats: dict[str, str] = field(default_factory=dict)
    aliases: dict[str, set[str]] = field(default_factory=dict)
    people: set[str] = field(default_factory=set)
    ids: dict[str, str] = field(default_factory=dict)
    wordless: Counter[str] = field(default_factory=Counter)
    deleted: set[tuple[str | None, str]] = field(default_factory=set)
    source: str = ""
    status: str = "read"
    reason: str | None = None
    format: str | None = None
    file: ExportFile | None = None
    code: str | None = None


def collect_items(items: Iterable[Item], timezone: str) -> Export:
    """Collect what a chat reader reads.

    A later record of the same message replaces an earlier one. If the file breaks off, what was read before is kept,
    and the place is unread. Unread records have their number in the export, from 1, as line. If a setting is missing,
    the error names all people so far.
    """
    collected = _Collected(timezone)
    try:
        for item in items:
            collected.add(item)
    except BrokenJsonError as error:
        collected.add(Unread(f"{error}; the rest was not read"))
    except ReadError as error:
        if error.authors is not None:
            error.authors = frozenset(collected.export.people | collected.export.aliases.keys())
        raise
    return collected.finish()


def tell_apart(name: str, identifier: str | None, ids: dict[str, str]) -> str:
    """Return the name of a person among others: whoever comes later under a name has a part of the id behind it."""
    if identifier is None or ids.setdefault(name, identifier) == identifier:
        return name
    told = f"{name} ({digest([identifier], length=6)})"
    ids[told] = identifier
    return told


class _Collected:
    """The items so far, the messages among them as tables, which need a fraction of the memory of objects."""

    def __init__(self, timezone: str) -> None:
        self.export = Export(encoding=UTF8)
        self._timezone = timezone
        self._frames: list[pl.DataFrame] = []
        self._rows: list[tuple[Any, ...]] = []
        self._records = 0
        self._reactions: dict[str, Reacted] = {}

    def add(self, item: Item) -> None:
        """Add an item; a chat or a person may come again and again."""
        export = self.export
        match item:
            case ChatMessage():
                self._add_message(item)
            case Person():
                name = tell_apart(item.name, item.identifier, export.ids)
                export.people.add(name)
                for alias in item.aliases:
                    if alias != item.name:
                        export.aliases.setdefault(alias, set()).add(name)
            case Chat():
                export.chats[item.key] = item.name
            case Wordless():
                self._records += 1
                is_listed = item.kind in export.wordless or len(export.wordless) < _MOST_TYPES
                export.wordless[item.kind if is_listed and _TYPE.fullmatch(item.kind) else "another"] += 1
            case Reacted():
                self._reactions[item.identifier] = item
            case Deleted():
                self._records += 1
                export.deleted.add((item.chat, item.key))
                self._reactions.pop(item.key, None)
            case Unread():
                self._records += 1
                export.unread[self._records] = item.reason

    def _add_message(self, message: ChatMessage) -> None:
        try:
            author = (read_text(message.author, "author") or "").strip() or None
            text = read_text(message.text, "text") or None
            if author is None and message.kind != "system":
                raise ValueError("there is no author")
            sent = count_microseconds(message.sent, self._timezone)
            edited = message.edited and count_microseconds(message.edited, self._timezone)
        except (ValueError, OverflowError) as error:
            self.add(Unread(str(error)))
            return
        # A deleted message has an author.
        is_wordless = text is None and (message.kind == "message" or author is None)
        if is_wordless and message.type is not None:
            self.add(Wordless(message.type))
            return
        if message.sent.tzinfo is None:
            self.export.timezone = self._timezone
        author = author and tell_apart(author, message.author_id, self.export.ids)
        counts = [{"emoji": one, "count": of} for one, of in message.reactions if 0 < of <= _MOST_PEOPLE]
        said = (sent, None, author, text, message.kind, edited is not None)
        self._rows.append(
            (*said, message.chat, message.key, message.reply_to, counts, edited, message.is_change)
        )
        self._records += not message.is_change
        if len(self._rows) == _ROWS_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        self._frames.append(pl.DataFrame(self._rows, {**ROW_SCHEMA, "is_change": pl.Boolean()}, orient="row"))
        self._rows = []

    def finish(self) -> Export:
        """Make the result of all items."""
        self._flush()
        written = pl.concat(self._frames)
        # A later record of a message replaces an earlier one; messages without a key are all different.
        is_last = pl.col("key").is_null() | pl.struct("chat", "key", "is_change").is_last_distinct()
        rows = self._change(written.filter(is_last, ~pl.col("is_change")), written.filter("is_change"))
        # Reactions that the export lists one by one count in place of those that it counts.
        chosen = Counter((one.key, one.emoji) for one in self._reactions.values() if one.emoji)
        schema = {"key": pl.String, "emoji": pl.String, "count": pl.Int64}
        counted = pl.DataFrame([(*one, number) for one, number in chosen.items()], schema, orient="row")
        listed = counted.group_by("key", maintain_order=True).agg(listed=pl.struct("emoji", "count"))
        of_people = pl.when(pl.col("kind") != "system").then("listed")
        rows = rows.join(listed, on="key", how="left", maintain_order="left").with_columns(
            seq=pl.int_range(pl.len(), dtype=pl.Int64), reactions=pl.coalesce(of_people, "reactions")
        )
        self.export.rows = mark_deleted(rows.select(ROW_SCHEMA.names()), self.export.deleted)
        return self.export

    def _change(self, rows: pl.DataFrame, changes: pl.DataFrame) -> pl.DataFrame:
        """Give messages the form that their authors gave them last; a change of no message is unread."""
        for _ in {*changes["key"]} - {*rows["key"], *(key for _, key in self.export.deleted)}:
            self.add(Unread(_NO_ORIGINAL))
        last = changes.sort("timestamp", maintain_order=True).unique(["key", "author"], keep="last")
        last = last.select("key", "author", "timestamp", "text", "kind")
        found = rows.join(last, on=["key", "author"], how="left", suffix="_now", maintain_order="left")
        is_changed = pl.col("timestamp_now").is_not_null() & (pl.col("kind") != "system")
        return found.with_columns(
            edited=is_changed | pl.col("edited"),
            edited_at=pl.when(is_changed).then("timestamp_now").otherwise("edited_at"),
            text=pl.when(is_changed).then("text_now").otherwise("text"),
            kind=pl.when(is_changed).then("kind_now").otherwise("kind"),
        )


def mark_deleted(rows: pl.DataFrame, deleted: Set[tuple[str | None, str]]) -> pl.DataFrame:
    """Take the text from deleted messages, and make them lines of the app, as a deleted message of WhatsApp is."""
    listed = pl.DataFrame([*deleted], {"chat": pl.String, "key": pl.String}, orient="row")
    is_deleted = pl.struct("chat", "key").is_in(listed.to_struct().implode())
    return rows.with_columns(
        text=pl.when(~is_deleted).then("text"),
        kind=pl.when(is_deleted).then(pl.lit("system")).otherwise("kind"),
        reactions=pl.when(is_deleted).then(pl.lit([], _REACTIONS)).otherwise("reactions"),
    )


def complete_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """Return messages in the columns of ``ROW_SCHEMA``; those that they lack are null, without any reaction."""
    every = pl.concat([pl.DataFrame(schema=ROW_SCHEMA), rows], how="diagonal")
    return every.select(ROW_SCHEMA.names()).with_columns(
        pl.col("reactions").fill_null(pl.lit([], _REACTIONS))
    )
