"""What no table holds although the inputs do: what was forgotten, and the messages of people who opted out.

``backstory forget`` writes a list of the first. People opt out by the setting ``privacy.exclude``, or by their own word
in a chat, which a second list records, since later exports may lack it.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Final, Literal, Self, TypeAlias

import polars as pl
from pydantic import BaseModel, ValidationError

from backstory.base.errors import WorkspaceError
from backstory.base.files.atomic import write_file
from backstory.base.ids import PSEUDONYM_PREFIX, digest, digest_json
from backstory.ingest.chats.export_files import conversation_of
from backstory.ingest.chats.exports import ExportRead
from backstory.ingest.documents.files import name_source
from backstory.ingest.documents.reader import DocumentRead
from backstory.ingest.privacy.names import NOTHING, NameFinder, normalize_name
from backstory.ingest.privacy.pseudonyms import PSEUDONYM, make_finder, make_pseudonym, replace_in_identifiers

Kind: TypeAlias = Literal["conversation", "member", "document"]

_FORGOTTEN: Final = "`backstory forget` removed it; delete the file"
_COMMAND: Final = r"(?i)^\s*#backstory\s+(on|off)\s*$"
_IN_CHAT: Final = ["conversation_id", "person"]
_IN_PLACE: Final = [*_IN_CHAT, "place"]


class _Record(BaseModel, frozen=True):
    """A list of a workspace in a file, as salted hashes, so that the list itself reveals no name."""

    salt: str = ""

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the list; empty without a file. It raises ``WorkspaceError`` if the file is not such a list."""
        if not path.exists():
            return cls()
        with suppress(ValidationError):
            record = cls.model_validate_json(path.read_bytes())
            if record.model_fields_set == {*cls.model_fields}:
                return record
        raise WorkspaceError(
            f"{path} is damaged. Restore it from a backup. If you delete it, whatever it alone excludes is read again",
            code="damaged_record",
        )

    def write(self, path: Path) -> None:
        """Replace the list in the file, and flush it to disk."""
        write_file(path, f"{self.model_dump_json(indent=1)}\n".encode(), mode=0o600)

    @property
    def fingerprint(self) -> str:
        """Hash of the list."""
        return digest_json(self.model_dump(mode="json"), length=16)

    def hash(self, *entry: str) -> str:
        """Hash one entry as the list holds it."""
        return digest([self.salt, *entry])

    def _salted(self) -> Self:
        return self if self.salt else self.model_copy(update={"salt": secrets.token_hex(16)})


class Forgotten(_Record, frozen=True):
    """The forgotten conversations, members and documents.

    Real names are hashed, not pseudonyms, so that the list stays valid when the secret or the setting
    ``privacy.pseudonyms`` changes.
    """

    hashes: tuple[str, ...] = ()

    def list_held(self, kind: Kind, names: Iterable[str]) -> list[str]:
        """Return those of some names that were forgotten, each once."""
        held = set(self.hashes)
        return [name for name in dict.fromkeys(names) if held and self.hash_name(kind, name) in held]

    def add(self, kind: Kind, names: Iterable[str]) -> Forgotten:
        """Return the list with further names added."""
        known = self._salted()
        hashes = {*known.hashes, *(known.hash_name(kind, name) for name in names)}
        return known.model_copy(update={"hashes": tuple(sorted(hashes))})

    def token(self, name: str) -> str:
        """Return the placeholder for a member's name wherever others mention it."""
        return f"forgotten-{self.hash_name('member', name)[:8]}"

    def hash_name(self, kind: Kind, name: str) -> str:
        """Hash one entry as the list holds it; the name of a member is normalized first."""
        return self.hash(kind, normalize_name(name) if kind == "member" else name)


class OptOuts(_Record, frozen=True):
    """When each person wrote the command to be out of a chat, by the hash of chat and person."""

    moments: dict[str, datetime] = {}

    def update(self, commands: Iterable[tuple[str, str, datetime, bool]]) -> OptOuts:
        """Return the list after further commands: one to be out adds its author, one to be in removes them."""
        known = self._salted()
        moments = dict(self.moments)
        for chat, person, moment, is_out in commands:
            key = known.hash(chat, person)
            moments.pop(key, None)
            if is_out:
                moments[key] = moment
        return known.model_copy(update={"moments": dict(sorted(moments.items()))})


def leave_out(read: ExportRead, forgotten: Forgotten, folder: str) -> ExportRead:
    """Drop forgotten conversations and the messages of forgotten members from what was read.

    ``folder``: the folder of exports as ``sources`` names it. It returns the remaining data. ``unread_authors``
    includes all whose messages go, so that mentions of them are found. Files of a forgotten conversation are
    ``ignored`` in ``sources``, with the reason.
    """
    members = forgotten.list_held("member", read.names)
    conversations = forgotten.list_held("conversation", read.messages["conversation_id"].unique())
    is_gone = pl.col("conversation_id").is_in(conversations)
    gone, left = read.messages.filter(is_gone), read.messages.filter(~is_gone)
    prefix = f"{PurePosixPath(folder)}/"
    present = read.sources.filter(pl.col("status") != "ignored")["source"].str.strip_prefix(prefix)
    named = {file: conversation_of(file) for file in (*present, *read.quarantine["source"].unique())}
    held = forgotten.list_held("conversation", named.values())
    # An export of several chats is read on without the forgotten one.
    files = {*gone["source"], *(file for file, name in named.items() if name in held)} - {*left["source"]}
    return replace(
        read,
        messages=_drop(left, "author", members),
        quarantine=_drop(read.quarantine, "source", files),
        sources=_ignore(read.sources, [f"{prefix}{file}" for file in files]),
        unread_authors=read.unread_authors.union(members, gone["author"].drop_nulls()),
    )


def leave_out_documents(read: DocumentRead, forgotten: Forgotten, folder: str) -> DocumentRead:
    """Drop forgotten documents with all revisions; the files are ``ignored`` in ``sources``.

    ``folder``: the folder of documents as ``sources`` names it.
    """
    uris = forgotten.list_held("document", read.documents["uri"])
    sources = _ignore(read.sources, [name_source(folder, uri) for uri in uris])
    return replace(read, documents=_drop(read.documents, "uri", uris), sources=sources)


def _drop(rows: pl.DataFrame, column: str, values: Collection[str]) -> pl.DataFrame:
    return rows.filter(~pl.col(column).is_in(list(values)).fill_null(value=False))


def _ignore(sources: pl.DataFrame, paths: Collection[str]) -> pl.DataFrame:
    """Mark files as skipped, and remove all facts about their content."""
    said = {"status": "ignored", "reason": _FORGOTTEN, "rows": 0, "unread": 0}
    is_named = pl.col("source").is_in(list(paths))
    return sources.with_columns(
        pl.when(is_named).then(pl.lit(said.get(name), dtype)).otherwise(name).alias(name)
        for name, dtype in sources.schema.items()
        if name not in ("source", "folder")
    )


def hide_members(
    frame: pl.DataFrame,
    columns: Sequence[str],
    members: Sequence[str],
    secret: bytes | None,
    forgotten: Forgotten,
) -> pl.DataFrame:
    """Replace names of forgotten members in messages of others, and in names of files and conversations.

    Pseudonyms are found anywhere, since they also stand for names inside of words.
    """
    if not forgotten.hashes:
        return frame
    texts = pl.concat([frame[name].rename("text") for name in columns])
    present = texts.str.extract_all(PSEUDONYM).explode().drop_nulls().unique().sort()
    tokens = {name: forgotten.token(name) for name in forgotten.list_held("member", present)}
    if secret is not None:
        tokens |= {make_pseudonym(normalize_name(name), secret): forgotten.token(name) for name in members}
    finder = NameFinder(members if secret is None else ())
    hidden = {NOTHING: NOTHING} | tokens

    def hide(texts: pl.Series) -> pl.Series:
        # Only the names of files lose their escapes: in a text, they are part of an address.
        read = texts.str.replace_all("%", "%25", literal=True) if texts.name == "text" else texts
        written = finder.replace(read, "identifier", forgotten.token)
        return texts.zip_with(written == read, written).str.replace_many([*hidden], [*hidden.values()])

    return frame.with_columns(hide(frame[name]) for name in columns)


def drop_members(messages: pl.DataFrame, forgotten: Forgotten) -> pl.DataFrame:
    """Drop the messages of forgotten members of whom only the pseudonym is known."""
    return _drop(messages, "author", forgotten.list_held("member", messages["author"].drop_nulls().unique()))


def leave_out_people(
    read: ExportRead, names: Sequence[str], record: OptOuts, secret: bytes | None, folder: str
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
    people = map(finder.person, read.names if secret else ())
    of_pseudonym = {make_pseudonym(person, secret or b""): person for person in people}
    wanted = [of_pseudonym.get(name, finder.person(name)) for name in names]
    person = pl.col("author").replace_strict(person_of, default=None, return_dtype=pl.String)
    place = pl.coalesce("chat", "conversation_id")
    marked = read.messages.with_columns(person=person, command=command, place=place)
    last = _find_last_commands(marked, record)
    said = last.select(*_IN_PLACE, "is_out")
    is_out = pl.coalesce("is_out", False) | pl.col("person").is_in(wanted).fill_null(value=False)
    marked = marked.join(said, on=_IN_PLACE, how="left", maintain_order="left").with_columns(is_out=is_out)
    is_dropped = pl.col("is_out") | pl.col("command").is_not_null()
    dropped = marked.filter(is_dropped)
    counts = dropped.group_by("conversation_id", "author", "is_out", maintain_order=True)
    unknown = (number for number, one in enumerate(wanted, start=1) if one not in {*person_of.values()})
    return replace(
        read,
        messages=marked.filter(~is_dropped).select(read.messages.columns),
        sources=_note_left_out(read.sources, dropped["source"], folder),
        unread_authors=read.unread_authors | frozenset(dropped["author"]),
        opted_out=counts.agg(messages=pl.len().cast(pl.Int64)),
        unknown_people=tuple(unknown),
        commands=tuple(last.select("place", "person", "timestamp", "is_out").rows()),
    )


def _note_left_out(sources: pl.DataFrame, files: pl.Series, folder: str) -> pl.DataFrame:
    """Add to the reason of each file how many of its messages are left out, given the file of each of them."""
    counts = {f"{PurePosixPath(folder)}/{file}": count for file, count in files.value_counts().iter_rows()}
    count = pl.col("source").replace_strict(counts, default=None, return_dtype=pl.Int64)
    why = "since their authors opted out (`privacy.exclude` or `#backstory off`)"
    note = pl.format(f"{{}} of its messages are left out, {why}", count)
    noted = pl.concat_str("reason", note, separator="; ", ignore_nulls=True)
    return sources.with_columns(reason=pl.when(count.is_not_null()).then(noted).otherwise("reason"))


def _find_last_commands(marked: pl.DataFrame, record: OptOuts) -> pl.DataFrame:
    """Find the command that counts for each person in each conversation, of those read now and those recorded."""
    places = marked.select(_IN_PLACE).drop_nulls().unique(maintain_order=True)
    moments = [record.moments.get(record.hash(*row)) for row in places.select("place", "person").iter_rows()]
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
        authors = {name: make_pseudonym(finder.person(name), secret) for name in named["author"].unique()}
        named = replace_in_identifiers(named.with_columns(pl.col("author").replace(authors)), finder, secret)
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
    in_chat = messages.join(people, on=["conversation_id", "author"], how="semi")
    found = pl.concat([messages.filter(pl.col("author").is_in(excluded)), in_chat])
    return found.unique("message_id", maintain_order=True)
