"""The list that ``backstory forget`` writes: what must not be read, even if the inputs still hold it."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Final, Literal, TypeAlias

import polars as pl

from backstory.base.errors import WorkspaceError
from backstory.base.files.atomic import write_file
from backstory.base.ids import digest, digest_json
from backstory.ingest.chats.export_files import conversation_of
from backstory.ingest.chats.exports import ExportRead
from backstory.ingest.documents.folder import DocumentRead
from backstory.ingest.documents.written import name_source
from backstory.ingest.privacy.names import normalize_name
from backstory.ingest.privacy.pseudonyms import PSEUDONYM, make_pseudonym
from backstory.text.people import is_pseudonym

Kind: TypeAlias = Literal["conversation", "member", "document"]
_Entry: TypeAlias = Literal[Kind, "content"]

_REASON: Final = "`backstory forget` removed it; delete the file"
_SALT_BYTES: Final = 16
_TOKEN_DIGITS: Final = 8


@dataclass(frozen=True)
class Forgotten:
    """The forgotten names and files as hashes, so that the list itself reveals none of them.

    Real names are hashed, not pseudonyms, so that the list stays valid when the secret or the setting
    ``privacy.pseudonyms`` changes.

    Attributes:
        salt: Random bytes that make the hashes differ between workspaces.
        hashes: Hashes of conversations, members and documents, and of the contents of files.
    """

    salt: str = ""
    hashes: frozenset[str] = field(default_factory=frozenset)

    def holds(self, kind: _Entry, name: str) -> bool:
        """Check whether something was forgotten."""
        return bool(self.hashes) and self.hash(kind, name) in self.hashes

    def list_held(self, kind: _Entry, names: Iterable[str]) -> list[str]:
        """Return those of some names that were forgotten, each once."""
        return [name for name in dict.fromkeys(names) if self.holds(kind, name)]

    def add(self, kind: _Entry, names: Iterable[str]) -> Forgotten:
        """Return the list with further names added; the name of a content is the hash of its bytes."""
        known = self if self.salt else replace(self, salt=secrets.token_hex(_SALT_BYTES))
        return replace(known, hashes=known.hashes | {known.hash(kind, name) for name in names})

    def token(self, name: str) -> str:
        """Return the placeholder for a member's name wherever others mention it."""
        return f"forgotten-{self.hash('member', name)[:_TOKEN_DIGITS]}"

    @property
    def fingerprint(self) -> str:
        """Hash of the list; empty if nothing was forgotten."""
        return digest_json([self.salt, sorted(self.hashes)], length=16) if self.hashes else ""

    def hash(self, kind: _Entry, name: str) -> str:
        """Hash one entry as the list holds it; the name of a member is normalized first."""
        return digest([self.salt, kind, normalize_name(name) if kind == "member" else name])


def read_forgotten(path: Path) -> Forgotten:
    """Read the list of a workspace; empty if nothing was ever forgotten.

    It raises ``WorkspaceError`` if the file is not such a list.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        return Forgotten(str(record["salt"]), frozenset(map(str, record["hashes"])))
    except FileNotFoundError:
        return Forgotten()
    except (ValueError, KeyError, TypeError) as error:
        raise WorkspaceError(
            f"{path} is damaged, and it lists what Backstory must not read. Restore it from a backup, or delete it and "
            "run `backstory forget` again for everything that was forgotten",
            code="damaged_record",
        ) from error


def write_forgotten(path: Path, forgotten: Forgotten) -> None:
    """Replace the list of a workspace, and flush it to disk."""
    record = {"salt": forgotten.salt, "hashes": sorted(forgotten.hashes)}
    write_file(path, f"{json.dumps(record, indent=1)}\n".encode(), mode=0o600)


def leave_out(read: ExportRead, forgotten: Forgotten, folder: str) -> ExportRead:
    """Drop forgotten conversations and the messages of forgotten members from what was read.

    ``folder``: the folder of exports as ``sources`` names it. It returns the remaining data. ``unread_authors``
    includes all whose messages go, so that mentions of them are found. Files of a forgotten conversation, and copies of
    such files, are ``ignored`` in ``sources``, with the reason.
    """
    if not forgotten.hashes:
        return read
    conversations = forgotten.list_held("conversation", read.messages["conversation_id"].unique())
    copies = [file.source for file in read.files if forgotten.holds("content", file.sha256)]
    is_gone = pl.col("conversation_id").is_in(conversations) | pl.col("source").is_in(copies)
    members = forgotten.list_held("member", read.names)
    is_by_member = pl.col("author").is_in(members).fill_null(value=False)
    gone = read.messages.filter(is_gone)
    others = set(read.messages.filter(~is_gone)["source"])  # exports of several chats, of which some are read
    whole = {*gone["source"], *copies} - others
    prefix = f"{PurePosixPath(folder)}/"

    def is_forgotten(file: str) -> bool:
        return file in whole or (
            file not in others and forgotten.holds("conversation", conversation_of(file))
        )

    present = read.sources.filter(pl.col("status") != "ignored")["source"]
    unread = list(filter(is_forgotten, read.quarantine["source"].unique()))
    return replace(
        read,
        messages=read.messages.filter(~is_gone & ~is_by_member),
        quarantine=read.quarantine.filter(~pl.col("source").is_in(unread)),
        sources=_ignore(read.sources, [name for name in present if is_forgotten(name.removeprefix(prefix))]),
        unread_authors=read.unread_authors.union(members, gone["author"].drop_nulls()),
    )


def leave_out_documents(read: DocumentRead, forgotten: Forgotten, folder: str) -> DocumentRead:
    """Drop forgotten documents and copies of their files, with all revisions; the files are ``ignored`` in ``sources``.

    ``folder``: the folder of documents as ``sources`` names it.
    """
    if not forgotten.hashes:
        return read
    contents = forgotten.list_held("content", read.documents["content_hash"])
    is_copy = (pl.col("status") == "ok") & pl.col("content_hash").is_in(contents)
    copies = read.documents.filter(is_copy)["uri"]
    uris = {*copies, *forgotten.list_held("document", read.documents["uri"])}
    return replace(
        read,
        documents=read.documents.filter(~pl.col("uri").is_in(list(uris))),
        sources=_ignore(read.sources, [name_source(folder, uri) for uri in uris]),
    )


def hide_members(
    frame: pl.DataFrame,
    columns: Sequence[str],
    members: Sequence[str],
    secret: bytes | None,
    forgotten: Forgotten,
) -> pl.DataFrame:
    """Replace names of forgotten members in messages of others, and in names of files and conversations.

    They are found in any case, but no name inside a longer word: no "Ann" in a channel. Pseudonyms are found anywhere,
    since they also stand for names inside of words.
    """
    tokens = {name: forgotten.token(name) for name in _list_present_pseudonyms(frame, columns, forgotten)}
    for name in members:
        written = name if secret is None else make_pseudonym(normalize_name(name), secret)
        tokens[written] = forgotten.token(name)
    if not tokens:
        return frame
    names = sorted(tokens, key=lambda name: -len(name))
    words = (
        f"({name})" if is_pseudonym(name) else rf"(?<![^\W_])({re.escape(name)})(?![^\W_])" for name in names
    )
    pattern = re.compile("|".join(words), re.IGNORECASE)

    def write(found: re.Match[str]) -> str:
        return tokens[names[(found.lastindex or 1) - 1]]

    return frame.with_columns(
        pl.Series(name, [text and pattern.sub(write, text) for text in frame[name]], dtype=pl.String)
        for name in columns
    )


def drop_members(messages: pl.DataFrame, forgotten: Forgotten) -> pl.DataFrame:
    """Drop the messages of forgotten members of whom only the pseudonym is known."""
    pseudonyms = _list_present_pseudonyms(messages, ("author",), forgotten)
    return messages.filter(~pl.col("author").is_in(pseudonyms).fill_null(value=False))


def _list_present_pseudonyms(frame: pl.DataFrame, columns: Sequence[str], forgotten: Forgotten) -> list[str]:
    if not forgotten.hashes:
        return []
    texts = pl.concat([frame[name].rename("text") for name in columns])
    found = texts.str.extract_all(PSEUDONYM).explode().drop_nulls().unique().sort()
    return forgotten.list_held("member", found)


def _ignore(sources: pl.DataFrame, paths: Collection[str]) -> pl.DataFrame:
    """Mark files as skipped, and remove all facts about their content."""
    said = {"status": pl.lit("ignored"), "reason": pl.lit(_REASON), "rows": pl.lit(0), "unread": pl.lit(0)}
    return sources.with_columns(
        pl.when(pl.col("source").is_in(list(paths)))
        .then(said.get(name, pl.lit(None)).cast(dtype))
        .otherwise(pl.col(name))
        .alias(name)
        for name, dtype in sources.schema.items()
        if name not in ("source", "folder")
    )
