"""The chat exports in the form in which the table ``messages`` holds them: without forgotten people and real names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from backstory.base.errors import ContractError
from backstory.base.ids import PSEUDONYM_PREFIX, digest, digest_json
from backstory.ingest.chats.archive import hash_archive
from backstory.ingest.chats.export_files import ExportFile, find_exports
from backstory.ingest.chats.exports import ExportRead, replace_sources
from backstory.ingest.chats.message_ids import assign_message_ids
from backstory.ingest.chats.opened import conversation_of
from backstory.ingest.privacy.erasure_list import (
    drop_members,
    hide_members,
    leave_out,
    list_forgotten_members,
    read_forgotten,
)
from backstory.ingest.privacy.leaks import find_real_names
from backstory.ingest.privacy.names import normalize_name
from backstory.ingest.privacy.opt_outs import People, leave_out_people, read_opt_outs
from backstory.ingest.privacy.personal_data import scrub
from backstory.ingest.privacy.pseudonyms import (
    Pseudonyms,
    make_pseudonym,
    pseudonymize_messages,
    pseudonymize_sources,
)
from backstory.ingest.privacy.secret_file import is_unmade
from backstory.pipeline.incremental.inputs import code_version, hash_dependencies
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.catalog import Entry

EXPORT_SOURCES: Final = "conversations"
"""Partition of the table ``sources`` for the files in the folder of exports."""


@dataclass(frozen=True)
class Reading:
    """The messages of the exports in the form of the tables.

    Attributes:
        messages: Rows as the table ``messages`` holds them.
        origins: ``file`` (path below the folder of exports) and ``conversation``, with real names, and the ``source``
            and ``conversation_id`` of its messages in the table; one row per pair.
        sources: Rows of ``sources``.
        quarantine: Rows of ``quarantine``.
        names: Real names of people; empty if the tables hold real names.
        opted_out: As in :class:`backstory.ingest.chats.exports.ExportRead`, with conversations and authors as in
            ``messages``. A row without a conversation is of a person whom ``privacy.exclude`` leaves out of all of
            them, even if no export holds a message of theirs.
        archive: New content of the archive of kept conversations; None to leave the archive unchanged.
        emptied: Conversations of which the archive's new content holds no message any more.
    """

    messages: pl.DataFrame
    origins: pl.DataFrame
    sources: pl.DataFrame
    quarantine: pl.DataFrame
    names: Sequence[str]
    opted_out: pl.DataFrame
    archive: pl.DataFrame | None = None
    emptied: tuple[str, ...] = ()


def exports_fingerprint(workspace: Workspace) -> str:
    """Hash the chat exports as they are now, the settings that read them, and what else decides what is read."""
    return fingerprint_messages(workspace, find_exports(workspace.chats_dir))


def fingerprint_messages(workspace: Workspace, files: Sequence[ExportFile]) -> str:
    """Hash everything that the stage of the messages reads, for given files."""
    archived, left_out = hash_archive(workspace.archive), read_forgotten(workspace.forgotten).fingerprint
    hashes = [file.fingerprint for file in files]
    opted_out = read_opt_outs(workspace.opt_outs).fingerprint
    return digest(
        [hash_dependencies(workspace, "messages"), archived, left_out, opted_out, *hashes], length=16
    )


def read_chats(workspace: Workspace) -> tuple[ExportRead, tuple[ExportFile, ...]]:
    """Read the exports without forgotten conversations and members, and without people who opted out.

    What was read has real names; the files are as they were after they were read.
    """
    settings = workspace.settings.conversations
    read, files = workspace.last_reading.read(workspace.chats_dir, settings)
    left = leave_out(read, read_forgotten(workspace.forgotten), settings.folder)
    return leave_out_opted_out(workspace, left), files


def leave_out_opted_out(workspace: Workspace, read: ExportRead) -> ExportRead:
    """Drop the messages of people who opted out by the settings of a workspace or by a command in a chat."""
    privacy = workspace.settings.privacy
    has_secret = privacy.pseudonyms and not is_unmade(workspace.secret, workspace.tables)
    names_pseudonym = any(name.startswith(PSEUDONYM_PREFIX) for name in privacy.exclude)
    secret = workspace.load_secret() if has_secret and names_pseudonym else None
    folder = workspace.settings.conversations.folder
    return leave_out_people(read, privacy.exclude, read_opt_outs(workspace.opt_outs), secret, folder)


def drop_opted_out(messages: pl.DataFrame, opted_out: pl.DataFrame) -> pl.DataFrame:
    """Drop stored messages of people who are out of a conversation; see :class:`Reading`."""
    numbered = messages.with_row_index("row")
    gone = find_opted_out(numbered, opted_out.filter("is_out"))["row"]
    return numbered.filter(~pl.col("row").is_in(gone.implode())).drop("row")


def find_opted_out(messages: pl.DataFrame, people: pl.DataFrame) -> pl.DataFrame:
    """Return the messages whose authors are out of their conversation.

    A null ``conversation_id`` in ``people`` stands for all conversations.
    """
    everywhere = set(map(normalize_name, people.filter(pl.col("conversation_id").is_null())["author"]))
    authors = messages["author"].drop_nulls().unique()
    excluded = [author for author in authors if normalize_name(author) in everywhere]
    of_excluded = pl.col("author").is_in(excluded).fill_null(value=False)
    in_chat = people.filter(pl.col("conversation_id").is_not_null())
    return pl.concat(
        [
            messages.filter(of_excluded),
            messages.filter(~of_excluded).join(in_chat, on=["conversation_id", "author"], how="semi"),
        ]
    )


def scrub_messages(workspace: Workspace, messages: pl.DataFrame) -> pl.DataFrame:
    """Replace the contact and bank data in texts that ``privacy.scrub`` lists; ids stay."""
    privacy = workspace.settings.privacy
    return messages.with_columns(scrub(messages["text"], privacy.scrub, privacy.phone_region))


def put_as_stored(workspace: Workspace, read: ExportRead) -> Reading:
    """Assign messages their ids, and replace real names.

    A message that still holds a real name is a ``ContractError``.
    """
    messages, quarantine, sources = read.messages, read.quarantine, read.sources
    secret = None
    if workspace.settings.privacy.pseudonyms:
        messages, quarantine, sources = _pseudonymize(workspace, read)
        secret = workspace.load_secret()
    forgotten = read_forgotten(workspace.forgotten)
    members = list_forgotten_members(read.names, forgotten)
    messages = hide_members(messages, ("conversation_id", "text", "source"), members, secret, forgotten)
    quarantine = hide_members(quarantine, ("source",), members, secret, forgotten)
    sources = hide_members(sources, ("source", "reason"), members, secret, forgotten)
    origins = messages.select("source", "conversation_id").with_columns(
        read.messages["source"].alias("file"), read.messages["conversation_id"].alias("conversation")
    )
    numbered = assign_message_ids(drop_members(messages, forgotten))
    return Reading(
        messages=scrub_messages(workspace, numbered),  # ids come first, so that no setting of it changes them
        origins=origins.unique(maintain_order=True),
        sources=sources,
        quarantine=quarantine,
        names=read.names.to_list() if secret else (),
        opted_out=pl.concat(
            [
                hide_members(_name_opted_out(read, secret), ("conversation_id",), members, secret, forgotten),
                _list_excluded(read, workspace.settings.privacy.exclude, secret),
            ]
        ),
    )


def name_conversations(workspace: Workspace, read: ExportRead) -> dict[str, str]:
    """Name the conversations of exports as tables do, without the messages.

    Before the first run makes the key of the pseudonyms, a conversation that is called by a person keeps its name.
    """
    chats = read.messages.select("conversation_id").unique()
    secret = None
    if workspace.settings.privacy.pseudonyms:
        if is_unmade(workspace.secret, workspace.tables):
            return {}
        secret = workspace.load_secret()
    named = chats if secret is None else pseudonymize_sources(chats, read.names, secret)
    forgotten = read_forgotten(workspace.forgotten)
    members = list_forgotten_members(read.names, forgotten)
    named = hide_members(named, ("conversation_id",), members, secret, forgotten)
    return dict(zip(chats["conversation_id"], named["conversation_id"], strict=True))


def _name_opted_out(read: ExportRead, secret: bytes | None) -> pl.DataFrame:
    """Return ``opted_out`` with conversations and authors as the tables name them."""
    if secret is None or read.opted_out.is_empty():
        return read.opted_out
    text, kind, source = (pl.lit(value, pl.String) for value in (None, "message", ""))
    rows = read.opted_out.with_columns(text=text, kind=kind, source=source)
    named = pseudonymize_messages(rows, secret, aliases=read.aliases, other_names=read.names)
    return named.select(read.opted_out.columns)


def _list_excluded(read: ExportRead, entries: Sequence[str], secret: bytes | None) -> pl.DataFrame:
    """List the people of ``privacy.exclude`` by name, since only the archive may hold what they wrote."""
    people: set[str] = set()
    if entries and secret is not None:
        pseudonyms = Pseudonyms(read.messages, secret, aliases=read.aliases, other_names=read.unread_authors)
        for entry in entries:
            # A name that no export holds any more is that of the person who wrote under exactly this name.
            people |= {pseudonyms.of(entry), make_pseudonym(normalize_name(entry), secret)}
        people |= {entry for entry in entries if entry.startswith(PSEUDONYM_PREFIX)}
    elif entries:
        known = People(read)
        people = {person for entry in entries for person in (known.identify(entry), normalize_name(entry))}
    rows = [(None, person, True, 0) for person in sorted(people)]
    return pl.DataFrame(rows, schema=read.opted_out.schema, orient="row")


def _pseudonymize(workspace: Workspace, read: ExportRead) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    secret = workspace.load_secret()
    names = read.names
    pseudonymous = pseudonymize_messages(
        read.messages, secret, aliases=read.aliases, other_names=read.unread_authors
    )
    breaches = find_real_names(pseudonymous, names)
    if not breaches.is_empty():
        columns = ", ".join(sorted(breaches["column"].unique()))
        raise ContractError(
            f"{len(breaches)} cells still hold a real name (column {columns}); nothing was written. Set "
            "`privacy: {pseudonyms: false}` only if the chat is public",
            code="privacy",
        )
    quarantine = pseudonymize_sources(read.quarantine, names, secret)
    sources = _number_equal_sources(pseudonymize_sources(read.sources, names, secret))
    reasons = replace_sources(sources["reason"], read.sources["source"], sources["source"])
    return pseudonymous, quarantine, sources.with_columns(reasons)


def _number_equal_sources(sources: pl.DataFrame) -> pl.DataFrame:
    """Number files that get the same name because they spell one person's name in two ways."""
    number = pl.int_range(1, pl.len() + 1).over("source")
    return sources.with_columns(
        pl.when(number == 1).then("source").otherwise(pl.format("{} ({})", "source", number)).alias("source")
    )


_FILES: Final = "exports_read"


def hash_exports(workspace: Workspace, files: Sequence[ExportFile]) -> str:
    """Hash the exports and how they are read, but not which messages are archived or forgotten."""
    return digest([hash_reading(workspace), *(_sign(workspace, file) for file in files)])


def hash_reading(workspace: Workspace) -> str:
    """Hash everything except an export's bytes that decides how its messages are read."""
    settings = workspace.settings
    no_reading = {"folder", "removals", "read_seconds", "read_megabytes"}
    how = settings.conversations.model_dump(mode="json", exclude=no_reading)
    for override in how["overrides"].values():
        del override["removals"]
    privacy = settings.privacy.model_dump(mode="json")
    return digest([code_version("messages"), digest_json(how), digest_json(privacy)], length=16)


def list_unchanged(workspace: Workspace, reading: Reading, files: Sequence[ExportFile]) -> list[str]:
    """Return the sources, as named in the table, that are byte-identical to the last complete run."""
    known = workspace.catalog.read(_FILES)
    same = [
        file.source
        for file in files
        if (entry := known.get(_key(file))) is not None and entry.inputs == _sign(workspace, file)
    ]
    return reading.origins.filter(pl.col("file").is_in(same))["source"].to_list()


def are_stored_as_read_now(workspace: Workspace) -> bool:
    """Check whether the exports of the last complete run were read with the present settings and code."""
    how = hash_reading(workspace)
    entries = workspace.catalog.read(_FILES).values()
    return bool(entries) and all(entry.content == how for entry in entries)


def forget_changed(workspace: Workspace, files: Sequence[ExportFile]) -> None:
    """Record before the first write that the tables will no longer match files that have changed since."""
    known = workspace.catalog.read(_FILES)
    signatures = {_key(file): _sign(workspace, file) for file in files}
    workspace.catalog.forget(
        _FILES, [key for key, entry in known.items() if signatures.get(key) != entry.inputs]
    )


def record_files(workspace: Workspace, files: Sequence[ExportFile], partitions: Sequence[str]) -> None:
    """Record after the last write which files the tables match, if every partition with messages was written."""
    if set(workspace.tables.keys("messages")) <= set(partitions):
        how = hash_reading(workspace)
        entries = {_key(file): Entry(_sign(workspace, file), how, 0) for file in files if file.sha256}
        workspace.catalog.record(_FILES, entries)


def _sign(workspace: Workspace, file: ExportFile) -> str:
    settings = workspace.settings.conversations.override(file.source, conversation_of(file.source))
    return f"{file.sha256} {settings.removals}"


def _key(file: ExportFile) -> str:
    return digest([file.source], length=16)  # names of files can be names of people
