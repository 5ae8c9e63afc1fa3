"""Finds names that pseudonymization missed.

Each text is searched as the replacement searches it, which shows what was written since, and once more by a few lines
that share nothing with the replacement, which show a fault of it: for the words of a full name, one after the other.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import Final

import polars as pl

from backstory.ingest.privacy.folding import fold
from backstory.ingest.privacy.names import BLANK, NameFinder, Place
from backstory.ingest.privacy.pseudonyms import IDENTIFIERS, PSEUDONYM, list_emoji

_NOTHING: Final = "\0"
"""A text that is in none; Polars refuses an empty list of texts to search for."""
_BREACH_SCHEMA: Final = pl.Schema({"column": pl.String(), "message_id": pl.String()})


def find_naming_texts(texts: Iterable[str], names: Iterable[str], agreed: Collection[str] = ()) -> set[str]:
    """Return those of the texts that hold a real name."""
    names = tuple(names)
    distinct = pl.Series("text", texts, pl.String).unique()
    is_named = _search(_hide(distinct, agreed), _make_finder(names), "message")
    if agreed:
        # Without its `@`, a mention of somebody by the first name alone is none.
        whole = _hide(distinct, [name for name in agreed if " " in name]).str.replace_all("[@＠﹫]", " ")
        parts = set(map(fold, agreed))
        longer = tuple(
            name for name in names if any(part != fold(name) and part in fold(name) for part in parts)
        )
        is_named |= _search(whole, _make_finder(longer), "message")
    return set(distinct.filter(is_named))


def _hide(texts: pl.Series, names: Collection[str]) -> pl.Series:
    written = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    return texts.str.replace_all(rf"\b(?:{written})\b", BLANK) if names else texts


def find_real_names(messages: pl.DataFrame, names: Iterable[str]) -> pl.DataFrame:
    """Find names that pseudonymization missed.

    ``messages``: a table with any of ``author``, ``text``, ``reactions``, ``conversation_id`` and ``source``. Texts
    whose ``kind`` is ``system`` are searched as lines of the app. It returns one row per cell that holds a name:
    ``column``, and ``message_id``, null if the table has none. The name itself is not included.
    """
    finder = _make_finder(tuple(names))
    usual = {"message_id": pl.lit(None, pl.String), "kind": pl.lit("message")}
    table = messages.with_columns(usual[name].alias(name) for name in usual if name not in messages.columns)
    breaches = [pl.DataFrame(schema=_BREACH_SCHEMA)]

    def report(column: str, is_breach: pl.Series) -> None:
        breaches.append(table.filter(is_breach).select(pl.lit(column).alias("column"), "message_id"))

    if "author" in table.columns:
        # An author that is not a pseudonym is a name, even if it is not in ``names``.
        report("author", (~table["author"].str.contains(f"^{PSEUDONYM}$")).fill_null(value=False))
    if "text" in table.columns:
        is_app_line = (table["kind"] == "system").fill_null(value=False)
        report("text", _search(table["text"].set(~is_app_line, None), finder, "app line"))
        report("text", _search(table["text"].set(is_app_line, None), finder, "message"))
    if "reactions" in table.columns:
        emoji = list_emoji(table)
        holding = emoji.filter(_search(emoji, finder, "identifier")).implode()
        named = pl.col("reactions").list.eval(pl.element().struct.field("emoji").is_in(holding)).list.any()
        report("reactions", table.select(named.fill_null(value=False)).to_series())
    for column in IDENTIFIERS:
        if column in table.columns:
            values = table[column].drop_nulls().unique()
            holding = values.filter(_search(values, finder, "identifier"))
            report(column, table[column].is_in(holding.implode()).fill_null(value=False))
    return pl.concat(breaches)


@lru_cache(maxsize=4)
def _make_finder(names: tuple[str, ...]) -> NameFinder:
    """Make the finder of names; kept, since a run searches each table for the same names."""
    return NameFinder(names)


def _search(texts: pl.Series, finder: NameFinder, place: Place) -> pl.Series:
    """Return for each text whether it holds a name."""
    # Pseudonyms are removed first, because their letters could be somebody's name.
    bare = texts.str.replace_all(PSEUDONYM, BLANK)
    selected = finder.may_hold(bare, place)
    found = [
        is_selected and bool(finder.find(text, place))
        for text, is_selected in zip(bare, selected, strict=True)
    ]
    return pl.Series(found, dtype=pl.Boolean) | _search_plainly(bare, finder)


def _search_plainly(texts: pl.Series, finder: NameFinder) -> pl.Series:
    """Return for each text whether it holds the words of a full name, by no code that the replacement has."""
    names = _spell_plainly(pl.Series(finder.full_names, dtype=pl.String))
    words = [name for name in names if " " in name.strip()]
    last = {unicodedata.normalize(form, name.split()[-1]) for name in words for form in ("NFC", "NFD")}
    likely = texts.filter(texts.str.to_lowercase().str.contains_any([_NOTHING, *last]))
    held = likely.filter(_spell_plainly(likely).str.contains_any([_NOTHING, *words]))
    return texts.is_in(held.implode())


def _spell_plainly(texts: pl.Series) -> pl.Series:
    """Return the words of texts in small letters, with one space before, between and after them.

    Emoji and ``@`` count as letters, as in a name: `Anna Lind` is not `Anna🌸 Lind`.
    """
    small = texts.str.normalize("NFC").str.to_lowercase().str.replace_all(r"\p{Cf}", "")
    return " " + small.str.replace_all(r"[^\p{L}\p{M}\p{N}\p{So}@]+", " ").str.strip_chars() + " "
