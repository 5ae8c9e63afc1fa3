"""Keyed pseudonyms in place of names, before anything else sees a message."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import logging
import os
import re
import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import polars as pl

from backstory.errors import WorkspaceError
from backstory.privacy.group_members import find_members
from backstory.privacy.names import NameFinder, replace_names

PSEUDONYM_PREFIX: Final = "member-"

_PSEUDONYM = f"{PSEUDONYM_PREFIX}[0-9a-f]{{10}}"
_PSEUDONYM_DIGITS = 10
_SECRET_BYTES = 32
_IDENTIFIERS = ("conversation_id", "source")
_BREACH_SCHEMA = pl.Schema({"column": pl.String(), "message_id": pl.String()})

_logger = logging.getLogger(__name__)


def load_secret(path: Path) -> bytes:
    """Read the secret of a workspace; the first call makes it.

    The file appears at once and complete, readable by its owner only. Processes that call this at the same
    time agree on one secret.

    Args:
        path: Where the secret lies.

    Returns:
        32 bytes.

    Raises:
        WorkspaceError: The file is not a secret that this function wrote.
    """
    try:
        return _read_secret(path)
    except FileNotFoundError:
        _create_secret(path)
        return _read_secret(path)


def make_pseudonym(person: str, secret: bytes) -> str:
    """Name a person by a keyed hash.

    Args:
        person: The normalized name.
        secret: The key, without which the name cannot be found by trying.

    Returns:
        ``member-`` and the first ten hexadecimal digits of HMAC-SHA256 (RFC 2104).
    """
    return PSEUDONYM_PREFIX + hmac.digest(secret, person.encode(), hashlib.sha256).hex()[:_PSEUDONYM_DIGITS]


def pseudonymize_messages(
    frame: pl.DataFrame,
    secret: bytes,
    *,
    aliases: Mapping[str, str] | None = None,
    other_names: Iterable[str] = (),
) -> pl.DataFrame:
    """Replace names by pseudonyms: authors, mentions, and names in texts, conversations and sources.

    What counts as a name in a text is said in :mod:`backstory.privacy.names`. Names are those of all authors of the
    frame, so all conversations should be passed together. In lines of the app, names of members who never
    wrote are replaced where the line says what they did. Someone who is spoken of, but neither writes nor is
    mentioned with ``@``, cannot be known as a name and stays.

    Args:
        frame: Messages with ``author``, ``text``, ``kind``, ``conversation_id`` and ``source``.
        secret: The key of the pseudonyms.
        aliases: Further names of authors, each with the author whose pseudonym it becomes.
        other_names: Further names of people, who wrote no message of the frame.

    Returns:
        The frame with the same rows and columns.
    """
    aliases = aliases or {}
    app_texts = frame.filter(kind="system")["text"].drop_nulls().unique()
    authors = frame["author"].drop_nulls().unique().sort()
    finder = NameFinder([*authors, *aliases, *other_names], find_members(app_texts))
    name = _Namer(finder, secret, aliases)
    by_author = frame.with_columns(
        pl.col("author").replace_strict(
            {author: name(author) for author in authors}, default=None, return_dtype=pl.String
        ),
        _replace_in_texts(frame, finder, name),
    )
    # A file keeps a name of its own where two people's exports become one conversation.
    return _replace_in_identifiers(by_author, finder, _Namer(finder, secret, {}))


def pseudonymize_sources(frame: pl.DataFrame, names: Iterable[str], secret: bytes) -> pl.DataFrame:
    """Replace names in the conversations and sources of a table, as :func:`pseudonymize_messages` does.

    Args:
        frame: A table with ``source``, ``conversation_id`` or both, for example the quarantine.
        names: Real names of all authors.
        secret: The key of the pseudonyms.

    Returns:
        The frame with the same rows and columns.
    """
    finder = NameFinder(names)
    return _replace_in_identifiers(frame, finder, _Namer(finder, secret, {}))


def find_real_names(messages: pl.DataFrame, names: Iterable[str]) -> pl.DataFrame:
    """Find what pseudonymization must not have left.

    Args:
        messages: A table with any of ``author``, ``text``, ``conversation_id`` and ``source``. Texts whose
            ``kind`` is ``system`` are searched as lines of the app.
        names: Real names of all authors.

    Returns:
        One row per cell that holds a name: ``column``, and ``message_id`` if the table has it, else null. The
        name itself is not repeated.
    """
    finder = NameFinder(names)
    table = messages.with_row_index("position")
    if "message_id" not in table.columns:
        table = table.with_columns(message_id=pl.lit(None, pl.String))
    breaches = [pl.DataFrame(schema=_BREACH_SCHEMA)]

    def report(column: str, held: pl.Expr) -> None:
        breaches.append(table.filter(held).select(pl.lit(column).alias("column"), "message_id"))

    if "author" in table.columns:
        # Whatever is not a pseudonym is a name, also one that nobody gave.
        report("author", ~pl.col("author").str.contains(f"^{_PSEUDONYM}$"))
    if "text" in table.columns:
        held = [
            position
            for pattern, rows in _rows_to_search(_without_pseudonyms(table, "text"), finder)
            for position, text in rows.select("position", "text").iter_rows()
            if pattern.search(text)
        ]
        report("text", pl.col("position").is_in(held))
    for column in _IDENTIFIERS:
        if column in table.columns:
            cleaned = _without_pseudonyms(table, column)
            values = cleaned.filter(
                _is_any(column, cleaned, lambda text: bool(finder.in_identifier.search(text)))
            )
            report(column, pl.col("position").is_in(values["position"].to_list()))
    return pl.concat(breaches)


def _read_secret(path: Path) -> bytes:
    text = path.read_text(encoding="ascii", errors="replace").strip()
    try:
        secret = bytes.fromhex(text)
    except ValueError:
        secret = b""
    if len(secret) != _SECRET_BYTES:
        raise WorkspaceError(
            f"{path} is not a secret of {2 * _SECRET_BYTES} hexadecimal digits; restore it from a backup, or "
            "remove it to give everyone another pseudonym"
        )
    if path.stat().st_mode & 0o077:
        _logger.warning("%s can be read by others; run `chmod 600 %s`", path, path)
    return secret


def _create_secret(path: Path) -> None:
    """Publish a secret under its name unless another process was first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{secrets.token_hex(_SECRET_BYTES)}\n")
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        Path(temporary).unlink()


class _Namer:
    """Gives the pseudonym of a name as written, the same for all names of a person."""

    def __init__(self, finder: NameFinder, secret: bytes, aliases: Mapping[str, str]) -> None:
        self._finder = finder
        self._secret = secret
        self._people = {finder.person(alias): finder.person(name) for alias, name in aliases.items()}

    def __call__(self, written: str) -> str:
        person = self._finder.person(written)
        return make_pseudonym(self._people.get(person, person), self._secret)


def _replace_in_texts(frame: pl.DataFrame, finder: NameFinder, name: Callable[[str], str]) -> pl.Series:
    """Give the texts with pseudonyms, in the order of the frame."""
    table = frame.with_row_index("position")
    replaced = [
        pl.DataFrame(
            {
                "position": rows["position"],
                "replaced": replace_names(rows["text"], pattern, name),
            },
            schema={"position": table.schema["position"], "replaced": pl.String},
        )
        for pattern, rows in _rows_to_search(table, finder)
    ]
    joined = table.join(pl.concat(replaced), on="position", how="left", maintain_order="left")
    return joined.select(pl.coalesce("replaced", "text").alias("text"))["text"]


def _replace_in_identifiers(
    frame: pl.DataFrame, finder: NameFinder, name: Callable[[str], str]
) -> pl.DataFrame:
    for column in _IDENTIFIERS:
        if column in frame.columns:
            values = frame[column].drop_nulls().unique().to_list()
            written = replace_names(values, finder.in_identifier, name)
            frame = frame.with_columns(pl.col(column).replace(values, written))
    return frame


def _rows_to_search(
    table: pl.DataFrame, finder: NameFinder
) -> Iterator[tuple[re.Pattern[str], pl.DataFrame]]:
    """Give the rows whose text can hold a name, with the pattern that finds it."""
    has_text = pl.col("text").is_not_null()
    by_app = pl.col("kind") == "system" if "kind" in table.columns else pl.lit(value=False)
    yield finder.in_app_line, table.filter(has_text, by_app)
    yield finder.in_message, table.filter(has_text, ~by_app, finder.may_be_named())


def _without_pseudonyms(table: pl.DataFrame, column: str) -> pl.DataFrame:
    """Blank pseudonyms, whose letters could be somebody's name."""
    return table.with_columns(pl.col(column).str.replace_all(_PSEUDONYM, "\0"))


def _is_any(column: str, table: pl.DataFrame, holds: Callable[[str], bool]) -> pl.Expr:
    return pl.col(column).is_in([value for value in table[column].drop_nulls().unique() if holds(value)])
