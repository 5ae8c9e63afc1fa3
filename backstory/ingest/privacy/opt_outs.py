"""People whose messages no table holds: named by the setting ``privacy.exclude``, or by their own word in a chat."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Final

import polars as pl
from pydantic import BaseModel, ValidationError

from backstory.base.errors import WorkspaceError
from backstory.base.files.atomic import write_file
from backstory.base.ids import PSEUDONYM_PREFIX, digest
from backstory.ingest.chats.exports import Command, ExportRead
from backstory.ingest.privacy.names import normalize_name
from backstory.ingest.privacy.pseudonyms import make_finder, make_pseudonym, pseudonymize_messages

_SALT_BYTES: Final = 16


class OptOutRecord(BaseModel, frozen=True):
    """Who is out of which chat, as hashes, so that the list itself reveals no name.

    Attributes:
        salt: Random bytes that make the hashes differ between workspaces.
        moments: When each person wrote the command, by the hash of chat and person.
    """

    salt: str
    moments: dict[str, datetime]

    @property
    def fingerprint(self) -> str:
        """Hash of the list; empty if nobody is out of a chat by a command."""
        return digest([self.model_dump_json()], length=16) if self.moments else ""

    def find(self, chat: str, person: str) -> datetime | None:
        """Return when a person opted out of a chat; None if the list does not say that they did."""
        return self.moments.get(self.hash(chat, person))

    def update(self, commands: Iterable[Command]) -> OptOutRecord:
        """Return the list after further commands: one to be out adds its author, one to be in removes them."""
        known = OptOutRecord(salt=self.salt or secrets.token_hex(_SALT_BYTES), moments=self.moments)
        given = {known.hash(command.chat, command.person): command for command in commands}
        moments = self.moments | {key: command.moment for key, command in given.items() if command.is_out}
        left = {key: moments[key] for key in sorted(moments) if key not in given or given[key].is_out}
        return OptOutRecord(salt=known.salt, moments=left)

    def hash(self, chat: str, person: str) -> str:
        """Hash one entry as the list holds it."""
        return digest([self.salt, chat, person])


def read_opt_outs(path: Path) -> OptOutRecord:
    """Read the list of a workspace; empty if nobody ever opted out in a chat.

    It raises ``WorkspaceError`` if the file is not such a list.
    """
    try:
        return OptOutRecord.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return OptOutRecord(salt="", moments={})
    except ValidationError as error:
        raise WorkspaceError(
            f"{path} is damaged, and it lists who opted out in a chat. Restore it from a backup, or delete it. "
            "Deleting it ends every opt-out whose command `#backstory off` no export holds any more",
            code="damaged_record",
        ) from error


def write_opt_outs(path: Path, record: OptOutRecord) -> None:
    """Replace the list of a workspace, and flush it to disk."""
    write_file(path, f"{record.model_dump_json(indent=1)}\n".encode(), mode=0o600)


_COMMAND: Final = r"(?i)^\s*#backstory\s+(on|off)\s*$"
_IN_CHAT: Final = ["conversation_id", "person"]


def leave_out_people(
    read: ExportRead, names: Sequence[str], record: OptOutRecord, secret: bytes | None, folder: str
) -> ExportRead:
    """Drop the messages of people who opted out, and the commands by which they did.

    A person in ``names`` is left out of all conversations. A message ``#backstory off`` leaves all messages of its
    author out of its conversation, earlier and later ones, until a later message ``#backstory on``: the last of them
    counts, also when no export holds it any more.

    ``folder``: the folder of exports as ``sources`` names it. It returns the remaining data, with ``opted_out``,
    ``unknown_people`` and ``commands``. The reasons in ``sources`` count what was left out.
    """
    is_written = (pl.col("kind") == "message") & pl.col("author").is_not_null()
    command = pl.when(is_written).then(pl.col("text").str.extract(_COMMAND).str.to_lowercase())
    if not names and not record.moments and read.messages.select(command).to_series().is_null().all():
        return read
    finder = make_finder(read.messages, read.aliases, read.unread_authors)
    person_of = {author: finder.person(author) for author in read.messages["author"].drop_nulls().unique()}
    of_pseudonym = (
        {} if secret is None else {make_pseudonym(one, secret): one for one in map(finder.person, read.names)}
    )
    wanted = [of_pseudonym.get(name, finder.person(name)) for name in names]
    person = pl.col("author").replace_strict(person_of, default=None, return_dtype=pl.String)
    marked = read.messages.with_columns(person=person, command=command)
    last = _find_last_commands(marked, record)
    out = last.filter("is_out").select(*_IN_CHAT, is_out=pl.lit(value=True)).unique()
    marked = marked.join(out, on=_IN_CHAT, how="left", maintain_order="left").with_columns(
        pl.col("is_out").fill_null(value=False) | pl.col("person").is_in(wanted).fill_null(value=False)
    )
    is_dropped = pl.col("is_out") | pl.col("command").is_not_null()
    dropped = marked.filter(is_dropped)
    counts = dropped.group_by("conversation_id", "author", "is_out", maintain_order=True)
    known = set(person_of.values())
    return replace(
        read,
        messages=marked.filter(~is_dropped).drop("person", "command", "is_out"),
        sources=_note_left_out(read.sources, dropped["source"], PurePosixPath(folder)),
        unread_authors=read.unread_authors | frozenset(dropped["author"]),
        opted_out=counts.agg(messages=pl.len().cast(pl.Int64)),
        unknown_people=tuple(number for number, found in enumerate(wanted, start=1) if found not in known),
        commands=tuple(
            Command(*row) for row in last.select("chat", "person", "timestamp", "is_out").iter_rows()
        ),
    )


def _note_left_out(sources: pl.DataFrame, files: pl.Series, folder: PurePosixPath) -> pl.DataFrame:
    """Add to the reason of each file how many of its messages are left out, given the file of each of them."""
    counts = {
        f"{folder / file}{'/' if file.endswith('/') else ''}": count
        for file, count in files.value_counts().iter_rows()
    }
    count = pl.col("source").replace_strict(counts, default=None, return_dtype=pl.Int64)
    why = "since their authors opted out (`privacy.exclude` or `#backstory off`)"
    note = pl.format(f"{{}} of its messages are left out, {why}", count)
    noted = pl.concat_str("reason", note, separator="; ", ignore_nulls=True)
    return sources.with_columns(reason=pl.when(count.is_not_null()).then(noted).otherwise("reason"))


def _find_last_commands(marked: pl.DataFrame, record: OptOutRecord) -> pl.DataFrame:
    """Find the command that counts for each person in each conversation, of those read now and those recorded.

    ``marked``: messages with their ``person`` and ``command``. It returns ``conversation_id``, ``chat``, ``person``,
    ``timestamp`` and ``is_out``, with a row per chat of a conversation.
    """
    chat = pl.coalesce("chat", "conversation_id").alias("chat")
    places = marked.select("conversation_id", chat, "person").drop_nulls().unique(maintain_order=True)
    moments = [record.find(*row) for row in places.select("chat", "person").iter_rows()]
    recorded = places.select(
        *_IN_CHAT,
        pl.Series("timestamp", moments, dtype=marked.schema["timestamp"]),
        is_out=pl.lit(value=True),
    ).drop_nulls("timestamp")
    written = marked.drop_nulls("command").select(*_IN_CHAT, "timestamp", is_out=pl.col("command") == "off")
    # Of one moment, a command that was read counts more than the record of one.
    commands = pl.concat([recorded, written]).sort("timestamp", maintain_order=True)
    last = commands.unique(_IN_CHAT, keep="last", maintain_order=True)
    return places.join(last, on=_IN_CHAT, maintain_order="left")


def name_opted_out(read: ExportRead, excluded: Sequence[str], secret: bytes | None) -> pl.DataFrame:
    """Return ``opted_out`` with conversations and authors as the tables name them: with a secret, by pseudonyms.

    A row without a conversation is of a person who is ``excluded`` from all of them, by name, since only the archive
    may hold what they wrote.
    """
    named = read.opted_out
    # A name that no export holds any more is that of the person who wrote under exactly this name.
    finder = make_finder(read.messages, read.aliases, read.unread_authors)
    people = {*map(finder.person, excluded), *map(normalize_name, excluded)}
    if secret is not None:
        is_pseudonym = (name for name in excluded if name.startswith(PSEUDONYM_PREFIX))
        people = {*(make_pseudonym(person, secret) for person in people), *is_pseudonym}
        text, kind, source = (pl.lit(value, pl.String) for value in (None, "message", ""))
        rows = named.with_columns(text=text, kind=kind, source=source)
        rows = pseudonymize_messages(rows, secret, aliases=read.aliases, other_names=read.names)
        named = rows.select(named.columns)
    everywhere = [(None, person, True, 0) for person in sorted(people)]
    return pl.concat([named, pl.DataFrame(everywhere, schema=named.schema, orient="row")])


def drop_opted_out(messages: pl.DataFrame, opted_out: pl.DataFrame) -> pl.DataFrame:
    """Drop stored messages of people who are out of a conversation, as :func:`name_opted_out` names them."""
    gone = find_opted_out(messages, opted_out.filter("is_out"))
    return messages.join(gone, on="message_id", how="anti", maintain_order="left")


def find_opted_out(messages: pl.DataFrame, people: pl.DataFrame) -> pl.DataFrame:
    """Return the messages whose authors are out of their conversation.

    A null ``conversation_id`` in ``people`` stands for all conversations.
    """
    everywhere = set(map(normalize_name, people.filter(pl.col("conversation_id").is_null())["author"]))
    authors = messages["author"].drop_nulls().unique()
    excluded = [author for author in authors if normalize_name(author) in everywhere]
    of_excluded = pl.col("author").is_in(excluded).fill_null(value=False)
    in_chat = messages.filter(~of_excluded).join(people, on=["conversation_id", "author"], how="semi")
    return pl.concat([messages.filter(of_excluded), in_chat])
