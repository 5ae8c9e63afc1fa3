"""Replaces names by keyed pseudonyms, before any other step reads a message, and finds names that this missed.

The people of a chat are who writes in it, and members of a group in the lines that the app writes: who added whom, who
left, who changed something. The search for what is left reads each text as the replacement does, which shows what was
written since, and once more by a few lines that share nothing with it, which show a fault of it: for the words of a
full name, one after the other.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache, partial
from typing import Final

import polars as pl

from backstory.base.ids import PSEUDONYM_PREFIX
from backstory.ingest.privacy.forms import fold
from backstory.ingest.privacy.names import BLANK, NOTHING, NameFinder, Place

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
_PHRASES: Final = "|".join(re.split(r" \| |\n", _VERBS.strip()))
_LINE: Final = re.compile(f"(.+?) (?:{_PHRASES.replace('*', '.*').replace('…', '(.+)')})")
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


@lru_cache(maxsize=4)  # a run searches each table for the same names
def _make_finder(names: tuple[str, ...]) -> NameFinder:
    return NameFinder(names)


def find_naming_texts(
    texts: Iterable[str], names: Iterable[str], agreed: Collection[str] = (), place: Place = "message"
) -> set[str]:
    """Return those of the texts that hold a real name, but one that its person has ``agreed`` to."""
    finder, allowed = _make_finder(tuple(names)), set(map(fold, agreed))
    distinct = pl.Series("text", texts, pl.String).unique()
    # Pseudonyms are removed first, because their letters could be somebody's name.
    bare = distinct.str.replace_all(PSEUDONYM, BLANK)
    found = [
        may_hold
        and any(fold(text[name.start : name.end]) not in allowed for name in finder.find(text, place))
        for text, may_hold in zip(bare, finder.may_hold(bare, place), strict=True)
    ]
    words = [name for name in finder.full_names if fold(name) not in allowed]
    return set(distinct.filter(pl.Series(found, dtype=pl.Boolean) | _hold_words(bare, words)).drop_nulls())


def find_real_names(messages: pl.DataFrame, names: Iterable[str]) -> pl.DataFrame:
    """Find names that pseudonymization missed.

    ``messages``: a table with any of ``author``, ``text``, ``reactions``, ``conversation_id`` and ``source``. Texts
    whose ``kind`` is ``system`` are searched as lines of the app. It returns one row per cell that holds a name:
    ``column``, and ``message_id``, null if the table has none. The name itself is not included.
    """
    names = tuple(names)
    usual = {"message_id": pl.lit(None, pl.String), "kind": pl.lit("message")}
    table = messages.with_columns(usual[name].alias(name) for name in usual if name not in messages.columns)
    by_app = (pl.col("kind") == "system").fill_null(value=False)
    # An author that is not a pseudonym is a name, even if it is not in ``names``.
    breaches = [("author", ~pl.col("author").str.contains(f"^{PSEUDONYM}$"))]
    searched: list[tuple[str, Place, pl.Expr]] = [("text", "app line", by_app), ("text", "message", ~by_app)]
    searched += [(column, "identifier", pl.lit(value=True)) for column in ("reactions", *IDENTIFIERS)]
    for column, place, is_meant in searched:
        if column == "reactions" and column in table.columns:
            held = list(find_naming_texts(list_emoji(table), names, place=place))
            emoji = pl.element().struct.field("emoji")
            breaches.append((column, pl.col(column).list.eval(emoji.is_in(held)).list.any()))
        elif column in table.columns:
            held = list(find_naming_texts(table.filter(is_meant)[column], names, place=place))
            breaches.append((column, is_meant & pl.col(column).is_in(held)))
    found = [
        table.filter(is_named).select(pl.lit(column).alias("column"), "message_id")
        for column, is_named in breaches
        if column in table.columns
    ]
    return pl.concat([pl.DataFrame(schema={"column": pl.String, "message_id": pl.String}), *found])


def _hold_words(texts: pl.Series, names: Iterable[str]) -> pl.Series:
    """Return for each text whether it holds the words of a full name, by no code that the replacement has."""
    spelled = _spell_plainly(pl.Series(names, dtype=pl.String))
    words = [name for name in spelled if " " in name.strip()]
    last = {unicodedata.normalize(form, name.split()[-1]) for name in words for form in ("NFC", "NFD")}
    likely = texts.filter(texts.str.to_lowercase().str.contains_any([NOTHING, *last]))
    return texts.is_in(likely.filter(_spell_plainly(likely).str.contains_any([NOTHING, *words])).implode())


def _spell_plainly(texts: pl.Series) -> pl.Series:
    """Return the words of texts in small letters, with one space before, between and after them.

    Emoji and ``@`` count as letters, as in a name: `Anna Lind` is not `Anna🌸 Lind`.
    """
    small = texts.str.normalize("NFC").str.to_lowercase().str.replace_all(r"\p{Cf}", "")
    return " " + small.str.replace_all(r"[^\p{L}\p{M}\p{N}\p{So}@]+", " ").str.strip_chars() + " "
