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


def make_pseudonym(person: str, secret: bytes) -> str:
    """Make a person's pseudonym: ``member-`` and the first ten hexadecimal digits of HMAC-SHA256 (RFC 2104)."""
    return PSEUDONYM_PREFIX + hmac.digest(secret, person.encode(), hashlib.sha256).hex()[:10]


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

    Names are those of all authors of the frame, so pass all conversations together. In lines of the app, names of
    members who never wrote are replaced if the line says what they did.

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
    return replace_in_identifiers(_hide_in_reactions(written, finder), finder, secret)


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


def replace_in_identifiers(frame: pl.DataFrame, finder: NameFinder, secret: bytes) -> pl.DataFrame:
    """Replace names in the conversations and sources of a table that has any."""
    for column in set(IDENTIFIERS).intersection(frame.columns):
        values = frame[column].drop_nulls().unique()
        written = finder.replace(values, "identifier", partial(make_pseudonym, secret=secret))
        frame = frame.with_columns(pl.col(column).replace(values, written))
    return frame


_VERBS: Final = r"""
added … | removed … | left | was added | was removed | is now an admin | pinned a message | joined using *
turned o(?:n|ff) * | created group* | created this group* | changed t(?:he|his|heir|o) * | wurde hinzugefügt
wurde entfernt | hat … hinzugefügt | hat … entfernt | hat die Gruppe * | hat den * geändert | ist * beigetreten
adicionou … | removeu … | saiu | criou (?:este|o) grupo* | mudou * | alterou * | entrou usando * | añadió a …
agregó a … | eliminó a … | salió | fue añadid[ao] | creó (?:este|el) grupo* | cambió * | se unió * | a ajouté …
a retiré … | a supprimé … | est partie? | a été ajoutée? | a quitté * | a créé * | a changé * | a rejoint *
ha aggiunto … | ha rimosso … | ha abbandonato* | è stat[ao] aggiunt[ao] | ha creato * | ha cambiato *
"""
"""What the app writes after the name of a person; `…` stands for further names, `*` for any text."""
_PHRASES: Final = (
    _VERBS.strip().replace("\n", "|").replace(" | ", "|").replace("*", ".*").replace("…", "(.+)")
)
_LINE: Final = re.compile(f"(.+?) (?:{_PHRASES})")
_READ_OF_LINE: Final = 2_000
"""Characters of a line; on a long one, a pattern with two open parts takes quadratic time."""
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
        match = _LINE.fullmatch(line[:_READ_OF_LINE])
        if match and not line.casefold().startswith(_NO_NAME_BEGINNINGS):
            person, *others = filter(None, match.groups())
            names = [person, *(name for other in others for name in _BETWEEN_NAMES.split(other))]
            members.update(name.strip() for name in names if name.strip().casefold() not in _NO_NAMES)
    return sorted(members)
