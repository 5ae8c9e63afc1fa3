"""What was read of one export: its messages, its unread records, its people, and its row of the table ``sources``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import polars as pl

from backstory.base.errors import ReadError
from backstory.base.ids import digest
from backstory.ingest.chats.formats.table_values import read_text
from backstory.ingest.chats.items import (
    Changed,
    Chat,
    ChatMessage,
    Deleted,
    Item,
    Person,
    Reacted,
    Unread,
    Wordless,
)
from backstory.ingest.chats.json_stream import BrokenJsonError
from backstory.ingest.chats.times import KNOWN_YEAR, local_to_utc
from backstory.text.encoding import UTF8

ROW_SCHEMA: Final = pl.Schema(
    {
        "timestamp": pl.Datetime("us", "UTC"),
        "seq": pl.Int64(),
        "author": pl.String(),
        "text": pl.String(),
        "kind": pl.String(),
        "edited": pl.Boolean(),
    }
)
"""Columns of the messages of every reader."""

_REACTION_TYPE: Final = pl.Struct({"emoji": pl.String(), "count": pl.Int64()})

CHAT_SCHEMA: Final = pl.Schema(
    {
        "chat": pl.String(),
        "key": pl.String(),
        "reply_key": pl.String(),
        "reactions": pl.List(pl.Struct({"emoji": pl.String(), "count": pl.Int64()})),
        "edited_at": pl.Datetime("us", "UTC"),
    }
)
"""Further columns of readers of platforms that give ids to chats and messages: key of the chat, of the message in it
and of the message that it answers (all null without ids), reactions, and time of the last edit."""

_ROWS_AT_ONCE: Final = 50_000
_MOST_PEOPLE: Final = 10**9
_MOMENTS: Final = ("timestamp", "edited_at")
_LOCAL: Final = "_local"
_WHOLE: Final = pl.Schema({**ROW_SCHEMA, **CHAT_SCHEMA})
_BUILT: Final = pl.Schema(
    {
        **{name: dtype for name, dtype in _WHOLE.items() if name not in ("seq", "reactions")},
        **{name + _LOCAL: pl.Datetime("us") for name in _MOMENTS},
    }
)
_CHANGES: Final = pl.Schema(
    {
        **dict.fromkeys(("key", "author"), pl.String()),
        "changed": pl.Datetime("us", "UTC"),
        f"changed{_LOCAL}": pl.Datetime("us"),
        **dict.fromkeys(("changed_text", "changed_kind"), pl.String()),
    }
)
_NO_ORIGINAL: Final = (
    "it changes a message that the file does not hold; export the chat from an earlier date, or put the "
    "record of that message into the same file"
)


@dataclass(kw_only=True)
class Export:
    """The content of one export, and the status of its file.

    Attributes:
        rows: Messages in the columns of ``ROW_SCHEMA``, ``seq`` from 0 in the order of the source, the author null for
            a line written by the app; also the columns of ``CHAT_SCHEMA``, or none of them.
        unread: ``line`` (from 1; 0 for the whole file) and ``reason`` of each unreadable line. A reason never quotes
            the line, since the line may contain a name.
        encoding, date_order, timezone: How it was read; None for what the format itself tells.
        chats: Names of conversations by the keys in the column ``chat``.
        aliases: Further names of authors, each with the author whose name it is.
        people: Names of people who may have written nothing.
        ids: Ids of people by their names, of platforms that give ids to people whose names may be alike.
        wordless: Number of records by kind that were not read, since they hold no words.
        deleted: Keys of chats and messages in them that the platform deleted, whichever export holds them.
        source: Path relative to the folder of exports.
        status, reason, format: As in the table ``sources``; the status of media is ``media`` until their chat is known.
        sha256: Hash of the bytes that were read; None if nothing could be, so that no message depends on them.
        latest_year: Latest year in which a message can have been sent.
        code: Code of the error of a refused file.
    """

    rows: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=ROW_SCHEMA))
    unread: pl.DataFrame = field(default_factory=lambda: unread_frame({}))
    encoding: str | None = None
    date_order: str | None = None
    timezone: str | None = None
    chats: Mapping[str, str] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    people: frozenset[str] = frozenset()
    ids: Mapping[str, str] = field(default_factory=dict)
    wordless: Mapping[str, int] = field(default_factory=dict)
    deleted: frozenset[tuple[str, str]] = frozenset()
    source: str = ""
    status: str = "read"
    reason: str | None = None
    format: str | None = None
    sha256: str | None = None
    latest_year: int = KNOWN_YEAR
    code: str | None = None


def collect_items(items: Iterable[Item], timezone: str) -> Export:
    """Collect what a chat reader reads, in the columns of ``ROW_SCHEMA`` and ``CHAT_SCHEMA``.

    A later record of the same message replaces an earlier one. If the file breaks off, what was read before is kept,
    and the place is unread. Unread records have their number in the export, from 1, as line. If a setting is missing,
    the error names all people so far.
    """
    collected = _Collected()
    try:
        for item in items:
            collected.add(item)
    except BrokenJsonError as error:
        collected.add(Unread(f"{error}; the rest was not read"))
    except ReadError as error:
        if error.authors is None:
            raise
        raise ReadError(
            str(error), frozenset(collected.people) | collected.aliases.keys(), code=error.code
        ) from error
    return collected.parse(timezone)


def split_aliases(claimed: Mapping[str, Set[str]]) -> tuple[dict[str, str], frozenset[str]]:
    """Return the further names of one person, each with the name as author, and those of several people."""
    aliases = {alias: min(names) for alias, names in claimed.items() if len(names) == 1}
    return aliases, frozenset(claimed.keys() - aliases.keys())


def tell_apart(name: str, identifier: str, ids: dict[str, str]) -> str:
    """Return the name of a person among others: whoever comes later under a name has a part of the id behind it."""
    if ids.setdefault(name, identifier) == identifier:
        return name
    told = f"{name} ({digest([identifier], length=6)})"
    ids[told] = identifier
    return told


class _Collected:
    """The items so far, the messages among them as tables, which need a fraction of the memory of objects."""

    def __init__(self) -> None:
        self.people: set[str] = set()
        self.aliases: dict[str, set[str]] = {}
        self._frames: list[pl.DataFrame] = []
        self._rows: list[tuple[Any, ...]] = []
        self._records = self._messages = 0
        self._counts: list[tuple[int, str, int]] = []
        self._unread: dict[int, str] = {}
        self._deleted: set[tuple[str | None, str]] = set()
        self._changes: list[tuple[Any, ...]] = []
        self._reactions: dict[str, Reacted] = {}
        self._chats: dict[str, str] = {}
        self._ids: dict[str, str] = {}
        self._wordless: Counter[str] = Counter()

    def add(self, item: Item) -> None:
        """Add an item; a chat or a person may come again and again."""
        if isinstance(item, ChatMessage):
            self._add_message(item, is_change=False)
        elif isinstance(item, Person):
            name = self._tell_apart(item.name, item.identifier)
            self.people.add(name)
            for alias in item.aliases:
                if alias != item.name:
                    self.aliases.setdefault(alias, set()).add(name)
        elif isinstance(item, Chat):
            self._chats[item.key] = item.name
        elif isinstance(item, Wordless):
            self._wordless[item.kind] += 1
        elif isinstance(item, Reacted):
            self._reactions[item.identifier] = item
        elif isinstance(item, Changed):
            self._add_message(item.message, is_change=True)
        elif isinstance(item, Deleted):
            self._records += 1
            self._deleted.add((item.chat, item.key))
            self._reactions.pop(item.key, None)
        else:
            self._add_unread(item.reason)

    def _add_unread(self, reason: str) -> None:
        self._records += 1
        self._unread[self._records] = reason

    def _tell_apart(self, name: str, identifier: str | None) -> str:
        return name if identifier is None else tell_apart(name, identifier, self._ids)

    def _add_message(self, message: ChatMessage, *, is_change: bool) -> None:
        try:
            author = (read_text(message.author, "author") or "").strip() or None
            author = author and self._tell_apart(author, message.author_id)
            text = read_text(message.text, "text")
        except ValueError as error:
            self._add_unread(str(error))
            return
        sent, sent_local = _split(message.sent)
        if is_change:
            self._changes.append((message.key, author, sent, sent_local, text, message.kind))
            return
        self._records += 1
        edited, edited_local = _split(message.edited)
        self._rows.append(
            (
                *(sent, author, text, message.kind, message.is_edited),
                *(message.chat, message.key, message.reply_to, edited),
                *(sent_local, edited_local),
            )
        )
        self._counts += ((self._messages, emoji, count) for emoji, count in message.reactions)
        self._messages += 1
        if len(self._rows) == _ROWS_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        columns = zip(*self._rows, strict=True) if self._rows else [()] * len(_BUILT)
        self._frames.append(pl.DataFrame(dict(zip(_BUILT, columns, strict=True)), schema=_BUILT))
        self._rows = []

    def parse(self, timezone: str) -> Export:
        """Make the result of all items."""
        self._flush()
        counted = _join_reactions(pl.concat(self._frames).with_row_index("row"), "row", self._counts)
        built = counted.with_columns(reactions=pl.col("joined").fill_null([])).drop("row", "joined")
        changes = pl.DataFrame(self._changes, schema=_CHANGES, orient="row")
        local = [*(built[f"{name}{_LOCAL}"] for name in _MOMENTS), changes[f"changed{_LOCAL}"]]
        is_local = any(moments.is_not_null().any() for moments in local)
        # A later record of a message replaces an earlier one; messages without a key are all different.
        is_former = pl.col("key").is_not_null() & ~pl.struct("chat", "key").is_last_distinct()
        rows = self._change(
            _to_utc(built, timezone, _MOMENTS).filter(~is_former), _to_utc(changes, timezone, ["changed"])
        )
        # Reactions that the export lists one by one count in place of those that it counts.
        emoji = Counter((one.key, one.emoji) for one in self._reactions.values() if one.emoji)
        rows = _join_reactions(rows, "key", [(*chosen, count) for chosen, count in emoji.items()])
        of_people = pl.when(pl.col("kind") != "system").then("joined")
        rows = rows.with_columns(reactions=pl.coalesce(of_people, "reactions"))
        rows = mark_deleted(rows, self._deleted)
        rows = rows.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias("seq"))
        aliases, shared = split_aliases(self.aliases)
        return Export(
            rows=rows.select(_WHOLE.names()),
            unread=unread_frame(self._unread),
            encoding=UTF8,
            timezone=timezone if is_local else None,
            chats=self._chats,
            aliases=aliases,
            people=shared.union(self.people),
            ids=self._ids,
            wordless=dict(self._wordless),
            deleted=frozenset((chat, key) for chat, key in self._deleted if chat is not None),
        )

    def _change(self, rows: pl.DataFrame, changes: pl.DataFrame) -> pl.DataFrame:
        """Give messages the form that their authors gave them last; a change of no message is unread."""
        if changes.is_empty():
            return rows
        present = {*rows["key"], *(key for _, key in self._deleted)}
        for _ in set(changes["key"]) - present:
            self._add_unread(_NO_ORIGINAL)
        last = changes.sort("changed", maintain_order=True).unique(["key", "author"], keep="last")
        found = rows.join(last, on=["key", "author"], how="left", maintain_order="left")
        is_changed = pl.col("changed").is_not_null() & (pl.col("kind") != "system")
        return found.with_columns(
            edited=is_changed | pl.col("edited"),
            edited_at=pl.when(is_changed).then("changed").otherwise("edited_at"),
            text=pl.when(is_changed).then("changed_text").otherwise("text"),
            kind=pl.when(is_changed).then("changed_kind").otherwise("kind"),
        )


def _join_reactions(rows: pl.DataFrame, on: str, counts: list[tuple[Any, str, int]]) -> pl.DataFrame:
    """Add the reactions by a column as ``joined``, null where there is none; their numbers are those of people."""
    schema = {on: rows.schema[on], "emoji": pl.String(), "count": pl.Int64()}
    possible = [found for found in counts if 0 < found[2] <= _MOST_PEOPLE]
    frame = pl.DataFrame(possible, schema=pl.Schema(schema), orient="row")
    joined = frame.group_by(on, maintain_order=True).agg(joined=pl.struct("emoji", "count"))
    return rows.join(joined, on=on, how="left", maintain_order="left")


def _split(moment: datetime | None) -> tuple[datetime | None, datetime | None]:
    """Return a time that states its zone first, any other second."""
    return (moment, None) if moment is None or moment.tzinfo else (None, moment)


def _to_utc(rows: pl.DataFrame, timezone: str, moments: Iterable[str]) -> pl.DataFrame:
    return rows.with_columns(
        pl.col(name).fill_null(local_to_utc(rows[name + _LOCAL], timezone, in_order=False))
        for name in moments
    )


def mark_deleted(rows: pl.DataFrame, deleted: Set[tuple[str | None, str]]) -> pl.DataFrame:
    """Take the text from deleted messages, and make them lines of the app, as a deleted message of WhatsApp is."""
    if not deleted:
        return rows
    listed = pl.DataFrame(
        sorted(deleted, key=str), schema={"chat": pl.String, "key": pl.String}, orient="row"
    )
    is_deleted = pl.struct("chat", "key").is_in(listed.to_struct().implode())
    return rows.with_columns(
        text=pl.when(is_deleted).then(None).otherwise("text"),
        kind=pl.when(is_deleted).then(pl.lit("system")).otherwise("kind"),
        reactions=pl.when(is_deleted).then(pl.lit([], CHAT_SCHEMA["reactions"])).otherwise("reactions"),
    )


def unread_frame(unread: dict[int, str]) -> pl.DataFrame:
    """Build the frame of unread lines, sorted by line, from a mapping of line to reason."""
    return pl.DataFrame(sorted(unread.items()), schema={"line": pl.Int64, "reason": pl.String}, orient="row")


def complete_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """Add the columns of ``CHAT_SCHEMA`` that messages lack: nulls, and no reaction."""
    absent = {name: pl.lit(None, dtype) for name, dtype in CHAT_SCHEMA.items() if name not in rows.columns}
    if "reactions" in absent:
        absent["reactions"] = pl.lit([], CHAT_SCHEMA["reactions"])
    return rows.with_columns(**absent).select(_WHOLE.names())
