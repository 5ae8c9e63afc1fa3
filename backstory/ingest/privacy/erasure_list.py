"""The list that ``backstory forget`` writes: what must not be read, even if the inputs still hold it."""

from __future__ import annotations

import base64
import json
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Final, Literal, TypeAlias

import numpy as np
import polars as pl

from backstory.base.errors import WorkspaceError
from backstory.base.files.atomic import write_file
from backstory.base.ids import digest, digest_json
from backstory.ingest.chats.exports import ExportRead
from backstory.ingest.chats.opened import conversation_of
from backstory.ingest.documents.folder import DocumentRead
from backstory.ingest.documents.written import name_source
from backstory.ingest.privacy.fingerprints import (
    find_known_documents,
    find_known_messages,
    find_signed,
    pack,
    sign_documents,
    sign_messages,
    unpack,
)
from backstory.ingest.privacy.names import normalize_name
from backstory.ingest.privacy.pseudonyms import PSEUDONYM, make_pseudonym
from backstory.ingest.privacy.secret_file import fingerprint_key

KEY_SUFFIX: Final = ".key"
"""End of the name of the file beside the list that holds the key of the fingerprints."""

Kind: TypeAlias = Literal["conversation", "member", "document"]

_REASON: Final = "`backstory forget` removed it; delete the file"
_REASON_BY_TEXT: Final = "`backstory forget` removed its text under another name; delete the file"
_SALT_BYTES = 16
_KEY_BYTES = 32
_KEY_FINGERPRINT: Final = "key_fingerprint"
_TOKEN_DIGITS = 8


@dataclass(frozen=True)
class Forgotten:
    """The forgotten names and texts as hashes, so that the list itself reveals none of them.

    Real names are hashed, not pseudonyms, so that the list stays valid when the secret or the setting
    ``privacy.pseudonyms`` changes. For the same reason the fingerprints of texts have a key of their own, in a file
    beside the list: whoever has the list alone cannot try texts against it.

    Attributes:
        salt: Random bytes that make the hashes differ between workspaces.
        hashes: Hashes of conversations, members and documents.
        messages: Fingerprints of the forgotten messages (:mod:`backstory.ingest.privacy.fingerprints`), packed.
        documents: Fingerprints of the forgotten documents, packed.
        key: Key of the fingerprints; empty if there are none.
    """

    salt: str = ""
    hashes: frozenset[str] = field(default_factory=frozenset)
    messages: bytes = b""
    documents: bytes = b""
    key: bytes = field(default=b"", repr=False)

    def holds(self, kind: Kind, name: str) -> bool:
        """Check whether something was forgotten."""
        return bool(self.hashes) and self.hash(kind, name) in self.hashes

    def add(self, kind: Kind, names: Iterable[str]) -> Forgotten:
        """Return the list with further names added."""
        known = self if self.salt else replace(self, salt=secrets.token_hex(_SALT_BYTES))
        return replace(known, hashes=known.hashes | {known.hash(kind, name) for name in names})

    def add_messages(self, gone: pl.DataFrame, others: pl.DataFrame) -> Forgotten:
        """Return the list with the texts of messages added, but those that others hold at nearly the same time."""
        known = self if self.key else replace(self, key=secrets.token_bytes(_KEY_BYTES))
        added = sign_messages(gone, known.key)
        remaining = sign_messages(others.filter(find_signed(others, added, known.key)), known.key)
        is_remaining = find_signed(gone, remaining, known.key).to_numpy()
        return replace(known, messages=pack(np.concatenate([unpack(known.messages), added[~is_remaining]])))

    def add_documents(self, gone: pl.Series, others: pl.Series) -> Forgotten:
        """Return the list with the texts of documents added, but those that other documents hold, too."""
        known = self if self.key else replace(self, key=secrets.token_bytes(_KEY_BYTES))
        added = np.setdiff1d(sign_documents(gone, known.key), sign_documents(others, known.key))
        return replace(known, documents=pack(np.concatenate([unpack(known.documents), added])))

    def token(self, name: str) -> str:
        """Return the placeholder for a member's name wherever others mention it."""
        return f"forgotten-{self.hash('member', name)[:_TOKEN_DIGITS]}"

    @property
    def fingerprint(self) -> str:
        """Hash of the list; empty if nothing was forgotten."""
        if not self.hashes:
            return ""
        texts = [part.hex() for part in (self.messages, self.documents) if part]
        return digest_json([self.salt, sorted(self.hashes), *texts], length=16)

    def hash(self, kind: Kind, name: str) -> str:
        """Hash one entry as the list holds it; the name of a member is normalized first."""
        return digest([self.salt, kind, normalize_name(name) if kind == "member" else name])


def read_forgotten(path: Path) -> Forgotten:
    """Read the list of a workspace; empty if nothing was ever forgotten.

    It raises ``WorkspaceError`` if the file is not such a list.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        # A list of an earlier release holds no fingerprints.
        messages, documents = (
            base64.b64decode(record.get(name, ""), validate=True) for name in ("messages", "documents")
        )
        known = Forgotten(str(record["salt"]), frozenset(map(str, record["hashes"])), messages, documents)
    except FileNotFoundError:
        return Forgotten()
    except (ValueError, KeyError, TypeError) as error:
        raise _name_damage(path) from error
    return replace(known, key=_read_key(path)) if messages or documents else known


def read_key_fingerprint(path: Path) -> str:
    """Return the fingerprint of the key of a list; empty if there is no list, or one of an earlier release.

    It raises ``WorkspaceError`` if the file is not such a list.
    """
    try:
        return str(json.loads(path.read_text(encoding="utf-8")).get(_KEY_FINGERPRINT, ""))
    except FileNotFoundError:
        return ""
    except (ValueError, AttributeError) as error:
        raise _name_damage(path) from error


def _name_damage(path: Path) -> WorkspaceError:
    return WorkspaceError(
        f"{path} is damaged, and it lists what Backstory must not read. Restore it from a backup, or delete it and "
        "run `backstory forget` again for everything that was forgotten",
        code="damaged_record",
    )


def _read_key(path: Path) -> bytes:
    file = path.with_suffix(KEY_SUFFIX)
    try:
        return bytes.fromhex(file.read_text(encoding="ascii").strip())
    except (FileNotFoundError, ValueError) as error:
        raise WorkspaceError(
            f"{file} is missing or damaged, and Backstory cannot recognise forgotten texts without it. Restore it from "
            f"a backup, or delete {path}, too, and run `backstory forget` again for everything that was forgotten",
            code="damaged_record",
        ) from error


def write_forgotten(path: Path, forgotten: Forgotten) -> None:
    """Replace the list of a workspace, and flush it to disk."""
    record: dict[str, object] = {"salt": forgotten.salt, "hashes": sorted(forgotten.hashes)}
    if forgotten.key:
        _write_private(path.with_suffix(KEY_SUFFIX), forgotten.key.hex())
        record[_KEY_FINGERPRINT] = fingerprint_key(forgotten.key)
        record["messages"] = base64.b64encode(forgotten.messages).decode()
        record["documents"] = base64.b64encode(forgotten.documents).decode()
    _write_private(path, json.dumps(record, indent=1))


def _write_private(path: Path, text: str) -> None:
    write_file(path, f"{text}\n".encode(), mode=0o600)


def leave_out(read: ExportRead, forgotten: Forgotten, folder: str) -> ExportRead:
    """Drop forgotten conversations and the messages of forgotten members from what was read.

    ``folder``: the folder of exports as ``sources`` names it. It returns the remaining data. ``unread_authors``
    includes all whose messages go, so that mentions of them are found. Files of a forgotten conversation are
    ``ignored`` in ``sources``, with the reason, and so are those of which every message is recognised by its text; the
    reason of a file that holds others counts them.
    """
    if not forgotten.hashes:
        return read
    conversations = [name for name in _distinct(read.messages, "conversation_id") if _has(forgotten, name)]
    members = list_forgotten_members(read.names, forgotten)
    is_gone = pl.col("conversation_id").is_in(conversations)
    files = set(read.messages.filter(is_gone)["source"])
    files |= {name for name in _distinct(read.quarantine, "source") if _has(forgotten, conversation_of(name))}
    others = set(read.messages.filter(~is_gone)["source"])  # exports of several chats, of which some are read
    files -= others
    prefix = PurePosixPath(folder)
    paths = {str(prefix / name) for name in files}
    paths |= {
        name
        for name in read.sources.filter(pl.col("status") != "ignored")["source"]
        if _has(forgotten, conversation_of(str(PurePosixPath(name).relative_to(prefix))))
    }
    paths -= {str(prefix / name) for name in others}
    rests = pl.col("author").is_in(members).fill_null(value=False)
    left = replace(
        read,
        messages=read.messages.filter(~is_gone & ~rests),
        quarantine=read.quarantine.filter(~pl.col("source").is_in(list(files))),
        sources=_ignore(read.sources, sorted(paths)),
        unread_authors=read.unread_authors.union(
            members, read.messages.filter(is_gone)["author"].drop_nulls()
        ),
    )
    return _leave_out_known(left, forgotten, prefix) if forgotten.messages else left


def _leave_out_known(read: ExportRead, forgotten: Forgotten, prefix: PurePosixPath) -> ExportRead:
    """Drop the messages that are recognised by their text, wherever they stand."""
    is_known = find_known_messages(read.messages, unpack(forgotten.messages), forgotten.key)
    if not is_known.any():
        return read
    dropped, remaining = read.messages.filter(is_known)["source"], read.messages.filter(~is_known)
    is_gone = ~dropped.is_in(remaining["source"].implode())
    gone = dropped.filter(is_gone).unique().to_list()
    sources = _ignore(read.sources, [_name_file(prefix, file) for file in gone], _REASON_BY_TEXT)
    why = ": `backstory forget` removed them, and they are recognised by their text"
    return replace(
        read,
        messages=remaining,
        unread_authors=read.unread_authors.union(read.messages.filter(is_known)["author"].drop_nulls()),
        quarantine=read.quarantine.filter(~pl.col("source").is_in(gone)),
        sources=note_left_out(sources, dropped.filter(~is_gone), prefix, why),
    )


def note_left_out(sources: pl.DataFrame, files: pl.Series, prefix: PurePosixPath, why: str) -> pl.DataFrame:
    """Add to the reason of each file how many of its messages are left out, given the file of each of them."""
    counts = {_name_file(prefix, file): count for file, count in files.value_counts().iter_rows()}
    count = pl.col("source").replace_strict(counts, default=None, return_dtype=pl.Int64)
    note = pl.format(f"{{}} of its messages are left out{why}", count)
    noted = pl.concat_str("reason", note, separator="; ", ignore_nulls=True)
    return sources.with_columns(reason=pl.when(count.is_not_null()).then(noted).otherwise("reason"))


def _name_file(prefix: PurePosixPath, file: str) -> str:
    return f"{prefix / file}{'/' if file.endswith('/') else ''}"


def leave_out_documents(read: DocumentRead, forgotten: Forgotten, folder: str) -> DocumentRead:
    """Drop forgotten documents, with all their revisions; their files are ``ignored`` in ``sources``.

    A document is recognised by its name, or by its whole text.

    ``folder``: the folder of documents as ``sources`` names it.
    """
    uris = [uri for uri in _distinct(read.documents, "uri") if forgotten.holds("document", uri)]
    copies: list[str] = []
    if forgotten.documents:
        served = read.documents.filter((pl.col("status") == "ok") & ~pl.col("uri").is_in(uris))
        is_known = find_known_documents(served["text"], unpack(forgotten.documents), forgotten.key)
        copies = served.filter(is_known)["uri"].to_list()
    if not uris and not copies:
        return read
    sources = _ignore(read.sources, [name_source(folder, uri) for uri in uris])
    return replace(
        read,
        documents=read.documents.filter(~pl.col("uri").is_in([*uris, *copies])),
        sources=_ignore(sources, [name_source(folder, uri) for uri in copies], _REASON_BY_TEXT),
    )


def list_forgotten_members(names: Iterable[str], forgotten: Forgotten) -> list[str]:
    """Return the given names that were forgotten."""
    return [name for name in names if forgotten.holds("member", name)]


def hide_members(
    frame: pl.DataFrame,
    columns: Sequence[str],
    members: Sequence[str],
    secret: bytes | None,
    forgotten: Forgotten,
) -> pl.DataFrame:
    """Replace names of forgotten members in messages of others, and in names of files and conversations."""
    if not forgotten.hashes:
        return frame
    present = {name: forgotten.token(name) for name in _list_present_pseudonyms(frame, columns, forgotten)}
    named = {
        name if secret is None else make_pseudonym(normalize_name(name), secret): forgotten.token(name)
        for name in members
    }
    tokens = present | named
    if not tokens:
        return frame
    if secret is None:
        return frame.with_columns(_replace_words(frame[name], tokens) for name in columns)
    return frame.with_columns(
        pl.col(name).str.replace_many(list(tokens), list(tokens.values()), leftmost=True) for name in columns
    )


def _replace_words(texts: pl.Series, tokens: Mapping[str, str]) -> pl.Series:
    """Replace names in any case, but none inside a longer word: no "Ann" in a channel."""
    names = sorted(tokens, key=lambda name: -len(name))
    words = "|".join(f"({re.escape(name)})" for name in names)
    pattern = re.compile(rf"(?<![^\W_])(?:{words})(?![^\W_])", re.IGNORECASE)

    def write(found: re.Match[str]) -> str:
        return tokens[names[(found.lastindex or 1) - 1]]

    return pl.Series(texts.name, [text and pattern.sub(write, text) for text in texts], dtype=pl.String)


def drop_members(messages: pl.DataFrame, forgotten: Forgotten) -> pl.DataFrame:
    """Drop the messages of forgotten members of whom only the pseudonym is known."""
    pseudonyms = _list_present_pseudonyms(messages, ("author",), forgotten)
    return (
        messages.filter(~pl.col("author").is_in(pseudonyms).fill_null(value=False))
        if pseudonyms
        else messages
    )


def _list_present_pseudonyms(frame: pl.DataFrame, columns: Sequence[str], forgotten: Forgotten) -> list[str]:
    if not forgotten.hashes:
        return []
    texts = pl.concat([frame[name].rename("text") for name in columns])
    found = texts.str.extract_all(PSEUDONYM).explode().drop_nulls().unique().sort()
    return list_forgotten_members(found, forgotten)


def _ignore(sources: pl.DataFrame, paths: Sequence[str], reason: str = _REASON) -> pl.DataFrame:
    """Mark files as skipped, and remove all facts about their content."""
    is_passed = pl.col("source").is_in(paths)
    said = {"status": pl.lit("ignored"), "reason": pl.lit(reason), "rows": pl.lit(0), "unread": pl.lit(0)}
    retained = ("source", "folder", *said)
    return sources.with_columns(
        pl.when(is_passed)
        .then((said[name] if name in said else pl.lit(None)).cast(dtype))
        .otherwise(pl.col(name))
        .alias(name)
        for name, dtype in sources.schema.items()
        if name in said or name not in retained
    )


def _has(forgotten: Forgotten, conversation: str) -> bool:
    return forgotten.holds("conversation", conversation)


def _distinct(frame: pl.DataFrame, column: str) -> list[str]:
    return frame[column].unique(maintain_order=True).to_list()
