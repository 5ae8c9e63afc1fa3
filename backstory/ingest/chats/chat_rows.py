"""The items of a chat reader -> the rows of an export, in memory that grows only with the messages themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from datetime import datetime
from typing import Any, Final

import polars as pl

from backstory.base.ids import digest
from backstory.ingest.chats.chat_format import Chat, ChatMessage, Deleted, Item, Person, Unread, Wordless
from backstory.ingest.chats.formats.table_values import read_text
from backstory.ingest.chats.json_stream import BrokenJsonError
from backstory.ingest.chats.reader import CHAT_SCHEMA, ROW_SCHEMA, ParsedExport, unread_frame
from backstory.ingest.chats.times import local_to_utc
from backstory.text.encoding import UTF8

_ROWS_AT_ONCE: Final = 50_000
_MOST_PEOPLE: Final = 10**9
_MOMENTS: Final = ("timestamp", "edited_at")
_LOCAL: Final = "_local"
_BUILT: Final = pl.Schema(
    {
        **{name: dtype for name, dtype in {**ROW_SCHEMA, **CHAT_SCHEMA}.items() if name != "seq"},
        **{name + _LOCAL: pl.Datetime("us") for name in _MOMENTS},
    }
)


def collect_items(items: Iterable[Item], timezone: str) -> ParsedExport:
    """Collect what a chat reader reads.

    A later record of the same message replaces an earlier one. If the file breaks off, what was read before is kept,
    and the place is unread.

    It returns the messages, in the columns of ``ROW_SCHEMA`` and ``CHAT_SCHEMA``; unread records have their number in
    the export, from 1, as line.
    """
    collected = _Collected()
    try:
        for item in items:
            collected.add(item)
    except BrokenJsonError as error:
        collected.add(Unread(f"{error}; the rest was not read"))
    return collected.parse(timezone)


def split_aliases(claimed: Mapping[str, Set[str]]) -> tuple[dict[str, str], frozenset[str]]:
    """Separate further names of one person from those of several people, which say nothing about who is meant.

    It returns further names of one person, each mapped to the name as author; further names of several people.
    """
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
        self._frames: list[pl.DataFrame] = []
        self._rows: list[tuple[Any, ...]] = []
        self._records = 0
        self._unread: dict[int, str] = {}
        self._deleted: set[tuple[str | None, str]] = set()
        self._chats: dict[str, str] = {}
        self._people: set[str] = set()
        self._aliases: dict[str, set[str]] = {}
        self._ids: dict[str, str] = {}
        self._wordless: Counter[str] = Counter()

    def add(self, item: Item) -> None:
        """Add an item."""
        if isinstance(item, Chat):
            self._chats[item.key] = item.name
        elif isinstance(item, Person):
            name = self._tell_apart(item.name, item.identifier)
            self._people.add(name)
            for alias in item.aliases:
                if alias != item.name:
                    self._aliases.setdefault(alias, set()).add(name)
        elif isinstance(item, Wordless):
            self._wordless[item.kind] += 1
        else:
            self._records += 1
            if isinstance(item, ChatMessage):
                self._add_message(item)
            elif isinstance(item, Deleted):
                self._deleted.add((item.chat, item.key))
            else:
                self._unread[self._records] = item.reason

    def _tell_apart(self, name: str, identifier: str | None) -> str:
        return name if identifier is None else tell_apart(name, identifier, self._ids)

    def _add_message(self, message: ChatMessage) -> None:
        try:
            author = (read_text(message.author, "author") or "").strip() or None
            text = read_text(message.text, "text")
        except ValueError as error:
            self._unread[self._records] = str(error)
            return
        if author is not None:
            author = self._tell_apart(author, message.author_id)
        sent, sent_local = _split(message.sent)
        edited, edited_local = _split(message.edited)
        self._rows.append(
            (
                *(sent, author, text, message.kind, message.is_edited),
                *(message.chat, message.key, message.reply_to, _count(message.reactions), edited),
                *(sent_local, edited_local),
            )
        )
        if len(self._rows) == _ROWS_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        columns = zip(*self._rows, strict=True) if self._rows else iter([()] * len(_BUILT))
        series = [
            pl.Series(name, values, dtype=dtype)
            for (name, dtype), values in zip(_BUILT.items(), columns, strict=True)
        ]
        self._frames.append(pl.DataFrame(series))
        self._rows = []

    def parse(self, timezone: str) -> ParsedExport:
        """Make the result of all items."""
        self._flush()
        built = pl.concat(self._frames)
        is_local = any(built[f"{name}{_LOCAL}"].is_not_null().any() for name in _MOMENTS)
        # A later record of a message replaces an earlier one; messages without a key are all different.
        is_former = pl.col("key").is_not_null() & ~pl.struct("chat", "key").is_last_distinct()
        rows = _mark_deleted(_to_utc(built, timezone), self._deleted).filter(~is_former)
        rows = rows.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias("seq"))
        aliases, shared = split_aliases(self._aliases)
        return ParsedExport(
            rows=rows.select(*ROW_SCHEMA, *CHAT_SCHEMA),
            unread=unread_frame(self._unread),
            encoding=UTF8,
            timezone=timezone if is_local else None,
            chats=self._chats,
            aliases=aliases,
            people=shared.union(self._people),
            ids=self._ids,
            wordless=dict(self._wordless),
        )


def _count(reactions: Iterable[tuple[str, int]]) -> list[dict[str, str | int]]:
    """Return the reactions with a number of people that can be one."""
    return [{"emoji": emoji, "count": count} for emoji, count in reactions if 0 < count <= _MOST_PEOPLE]


def _split(moment: datetime | None) -> tuple[datetime | None, datetime | None]:
    """Return a time that states its zone first, any other second."""
    return (moment, None) if moment is None or moment.tzinfo else (None, moment)


def _to_utc(rows: pl.DataFrame, timezone: str) -> pl.DataFrame:
    return rows.with_columns(
        pl.col(name).fill_null(local_to_utc(rows[name + _LOCAL], timezone, in_order=False))
        for name in _MOMENTS
    ).drop(f"{name}{_LOCAL}" for name in _MOMENTS)


def _mark_deleted(rows: pl.DataFrame, deleted: set[tuple[str | None, str]]) -> pl.DataFrame:
    """Take the text from deleted messages, and make them lines of the app, as a deleted message of WhatsApp is."""
    if not deleted:
        return rows
    listed = pl.DataFrame(
        sorted(deleted, key=str), schema={"chat": pl.String, "key": pl.String}, orient="row"
    )
    is_deleted = pl.struct("chat", "key").is_in(listed.to_struct().implode())
    return rows.with_columns(
        pl.when(is_deleted).then(None).otherwise("text").alias("text"),
        pl.when(is_deleted).then(pl.lit("system")).otherwise("kind").alias("kind"),
        pl.when(is_deleted)
        .then(pl.lit([], CHAT_SCHEMA["reactions"]))
        .otherwise("reactions")
        .alias("reactions"),
    )
