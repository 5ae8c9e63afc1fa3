"""Replaces names by keyed pseudonyms, before any other step reads a message.

The people of a chat are who writes in it, and members of a group in the lines that the app writes: who added whom, who
left, who changed something.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

import polars as pl

from backstory.base.ids import PSEUDONYM_PREFIX
from backstory.ingest.privacy.names import NameFinder

PSEUDONYM: Final = f"{PSEUDONYM_PREFIX}[0-9a-f]{{10}}"
"""Pattern of a pseudonym."""
IDENTIFIERS: Final = ("conversation_id", "source")
"""Columns that hold names of files and conversations."""
UNNAMED_EMOJI: Final = ":emoji:"
"""Stands for a custom emoji whose name holds that of a person."""

_PSEUDONYM_DIGITS = 10


def make_pseudonym(person: str, secret: bytes) -> str:
    """Make a person's pseudonym by a keyed hash.

    It returns ``member-`` and the first ten hexadecimal digits of HMAC-SHA256 (RFC 2104).
    """
    return PSEUDONYM_PREFIX + hmac.digest(secret, person.encode(), hashlib.sha256).hex()[:_PSEUDONYM_DIGITS]


def make_finder(messages: pl.DataFrame, aliases: Mapping[str, str], other_names: Iterable[str]) -> NameFinder:
    """Return the finder of the people of some exports, under whatever name an export writes them.

    ``messages``: messages with ``author``, ``text`` and ``kind``.
    """
    app_texts = messages.filter(kind="system")["text"].drop_nulls().unique()
    names = [*messages["author"].drop_nulls().unique(), *aliases, *other_names]
    return NameFinder(names, find_members(app_texts), aliases)


def pseudonymize_messages(
    frame: pl.DataFrame,
    secret: bytes,
    *,
    aliases: Mapping[str, str] | None = None,
    other_names: Iterable[str] = (),
) -> pl.DataFrame:
    """Replace names by pseudonyms: authors, mentions, and names in texts, conversations and sources.

    :mod:`backstory.ingest.privacy.names` defines what counts as a name in a text. Names are those of all authors of the
    frame, so pass all conversations together. In lines of the app, names of members who never wrote are replaced if the
    line says what they did. The name of someone who neither writes nor is mentioned with ``@`` cannot be recognized,
    and stays.

    ``frame``: messages with ``author``, ``text``, ``kind``, ``conversation_id`` and ``source``; also ``reactions`` if
    the messages have any.
    """
    finder = make_finder(frame, aliases or {}, other_names)
    write = partial(make_pseudonym, secret=secret)
    by_name = {name: write(finder.person(name)) for name in frame["author"].drop_nulls().unique()}
    author = pl.col("author").replace_strict(by_name, default=None, return_dtype=pl.String)
    by_app, texts = (frame["kind"] == "system").fill_null(value=False), frame["text"]
    in_messages = finder.replace(texts.set(by_app, None), "message", write)
    in_app_lines = finder.replace(texts.set(~by_app, None), "app line", write)
    written = frame.with_columns(author, in_app_lines.zip_with(by_app, in_messages))
    # Two merged exports are one conversation, but each keeps its own file name.
    return _replace_in_identifiers(_hide_in_reactions(written, finder), finder, secret)


def pseudonymize_sources(frame: pl.DataFrame, names: Iterable[str], secret: bytes) -> pl.DataFrame:
    """Replace names in the conversations and sources of a table, as :func:`pseudonymize_messages` does.

    ``frame``: a table with ``source``, ``conversation_id`` or both, for example the quarantine.
    """
    return _replace_in_identifiers(frame, NameFinder(names), secret)


def _hide_in_reactions(frame: pl.DataFrame, finder: NameFinder) -> pl.DataFrame:
    """Replace custom emoji that are named after somebody by one that is not."""
    if "reactions" not in frame.columns:
        return frame
    emoji = list_emoji(frame)
    named = emoji.filter(emoji != finder.replace(emoji, "identifier", lambda _: "")).to_list()
    element = pl.element().struct
    shown = element.field("emoji").replace(named, [UNNAMED_EMOJI] * len(named))
    hidden = pl.col("reactions").list.eval(pl.struct(shown, element.field("count")))
    return frame.with_columns(hidden) if named else frame


def list_emoji(frame: pl.DataFrame) -> pl.Series:
    """Return the different emoji among the reactions of messages."""
    reactions = frame["reactions"].explode().drop_nulls()
    return reactions.struct.field("emoji").drop_nulls().unique().sort()


def _replace_in_identifiers(frame: pl.DataFrame, finder: NameFinder, secret: bytes) -> pl.DataFrame:
    for column in IDENTIFIERS:
        if column in frame.columns:
            values = frame[column].drop_nulls().unique()
            written = finder.replace(values, "identifier", partial(make_pseudonym, secret=secret))
            frame = frame.with_columns(pl.col(column).replace(values, written))
    return frame


# `…` stands for further names, `*` for any text. Searched as plain texts, since regular expressions with two open parts
# take quadratic time on a long line.
_PHRASES: Final = tuple(
    f" {phrase.strip()}"
    for phrase in """
    added … | removed … | left | was added | was removed | is now an admin | pinned a message | joined using *
    created this group* | created group* | changed the * | changed this * | changed their * | changed to *
    turned on * | turned off * | hat … hinzugefügt | hat … entfernt | hat die Gruppe * | hat den * geändert
    ist * beigetreten | wurde hinzugefügt | wurde entfernt | adicionou … | removeu … | saiu | criou o grupo*
    criou este grupo* | mudou * | alterou * | entrou usando * | añadió a … | agregó a … | eliminó a … | salió
    fue añadido | fue añadida | creó el grupo* | creó este grupo* | cambió * | se unió * | a ajouté … | a retiré …
    a supprimé … | est parti | est partie | a été ajouté | a été ajoutée | a quitté * | a créé * | a changé *
    a rejoint * | ha aggiunto … | ha rimosso … | è stato aggiunto | è stata aggiunta | è stato aggiunta
    è stata aggiunto | ha abbandonato* | ha creato * | ha cambiato *
    """.replace("\n", "|").split("|")
    if phrase.strip()
)
"""What the app writes after the name of a person."""
_OPEN: Final = re.compile("([…*])")
_BETWEEN_NAMES: Final = re.compile(r",\s+|\s(?:and|und|e|y|et)\s")
_NO_NAMES: Final = frozenset(
    ["", *re.findall(r"\w+", "you your du dich sie você tú tu te ti vous hai someone admin")]
)
_NO_NAME_BEGINNINGS: Final = tuple(
    f"{word} " for word in re.findall(r"\w+", "this the your diese die este esta ce questo an")
)


def find_members(app_lines: Iterable[str]) -> list[str]:
    """Find names of people in the lines that the app writes into a group."""
    members = set[str]()
    for text in app_lines:
        line = text.strip().partition("\n")[0].removesuffix(".")
        if not line.casefold().startswith(_NO_NAME_BEGINNINGS):
            names = min(
                filter(None, (_match(line, phrase) for phrase in _PHRASES)), default=[], key=_length_of_first
            )
            members.update(name.strip() for name in names if name.strip().casefold() not in _NO_NAMES)
    return sorted(members)


def _match(line: str, phrase: str) -> list[str]:
    """Return the names of a line of the form of a phrase; none if it has another form."""
    verb, *open_end = _OPEN.split(phrase)
    ending = open_end[-1] if open_end else verb
    if not line.endswith(ending):
        return []
    rest = line.removesuffix(ending)
    place = rest.find(verb, 1) if open_end else len(rest)
    if place < 1:
        return []
    return [rest[:place], *(_BETWEEN_NAMES.split(rest[place + len(verb) :]) if "…" in open_end else [])]


def _length_of_first(names: list[str]) -> int:
    return len(names[0])
