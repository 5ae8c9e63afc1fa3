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

_BREACH_SCHEMA: Final = pl.Schema({"column": pl.String(), "message_id": pl.String()})


def find_naming_texts(texts: Iterable[str], names: Iterable[str], agreed: Collection[str] = ()) -> set[str]:
    """Return those of the texts that hold a real name."""
    names = list(names)
    distinct = pl.Series("text", texts, pl.String).unique()
    found = _find_texts(distinct, _hide(distinct, agreed), names)
    if agreed:
        # Without its `@`, a mention of somebody by the first name alone is none.
        whole = _hide(distinct, [name for name in agreed if " " in name]).str.replace_all("[@＠﹫]", " ")
        longer = [name for name in names if any(_is_part(part, name) for part in agreed)]
        found |= _find_texts(distinct, whole, longer)
    return found


def _find_texts(texts: pl.Series, searched: pl.Series, names: list[str]) -> set[str]:
    return set(texts.filter(_search(searched, _make_finder(tuple(names)), "message")))


def _hide(texts: pl.Series, names: Collection[str]) -> pl.Series:
    if not names:
        return texts
    written = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    return texts.str.replace_all(rf"\b(?:{written})\b", BLANK)


def _is_part(part: str, name: str) -> bool:
    return fold(part) != fold(name) and fold(part) in fold(name)


def find_real_names(messages: pl.DataFrame, names: Iterable[str]) -> pl.DataFrame:
    """Find names that pseudonymization missed.

    ``messages``: a table with any of ``author``, ``text``, ``reactions``, ``conversation_id`` and ``source``. Texts
    whose ``kind`` is ``system`` are searched as lines of the app. It returns one row per cell that holds a name:
    ``column``, and ``message_id``, null if the table has none. The name itself is not included.
    """
    if messages.is_empty():
        return pl.DataFrame(schema=_BREACH_SCHEMA)
    finder = _make_finder(tuple(names))
    table = messages
    if "message_id" not in messages.columns:
        table = messages.with_columns(message_id=pl.lit(None, pl.String))
    breaches = [pl.DataFrame(schema=_BREACH_SCHEMA)]

    def report(column: str, rows: pl.DataFrame, is_breach: pl.Series) -> None:
        if is_breach.any():
            breaches.append(rows.filter(is_breach).select(pl.lit(column).alias("column"), "message_id"))

    if "author" in table.columns:
        # An author that is not a pseudonym is a name, even if it is not in ``names``.
        strangers = ~table["author"].str.contains(f"^{PSEUDONYM}$")
        report("author", table, strangers.fill_null(value=False))
    if "text" in table.columns:
        by_app = pl.col("kind") == "system" if "kind" in table.columns else pl.lit(value=False)
        app_lines, messages = table.filter(by_app), table.filter(~by_app)
        report("text", app_lines, _search(app_lines["text"], finder, "app line"))
        report("text", messages, _search(messages["text"], finder, "message"))
    if "reactions" in table.columns:
        emoji = list_emoji(table)
        holding = emoji.filter(_search(emoji, finder, "identifier")).implode()
        named = pl.col("reactions").list.eval(pl.element().struct.field("emoji").is_in(holding)).list.any()
        report("reactions", table, table.select(named.fill_null(value=False)).to_series())
    for column in IDENTIFIERS:
        if column in table.columns:
            values = table[column].unique()
            holding = values.filter(_search(values, finder, "identifier")).drop_nulls()
            report(column, table, table[column].is_in(holding.implode()).fill_null(value=False))
    return pl.concat(breaches)


@lru_cache(maxsize=4)
def _make_finder(names: tuple[str, ...]) -> NameFinder:
    """Make the finder of names; kept, since a run searches each table for the same names."""
    return NameFinder(names)


def _search(texts: pl.Series, finder: NameFinder, place: Place) -> pl.Series:
    """Return for each text whether it holds a name."""
    if texts.is_empty():
        return pl.Series(dtype=pl.Boolean)
    # Pseudonyms are removed first, because their letters could be somebody's name.
    bare = texts.str.replace_all(PSEUDONYM, BLANK)
    selected = finder.may_hold(bare, place).arg_true()
    rows = {row for row in selected if finder.find(bare[row], place)} | _search_plainly(bare, finder)
    return pl.Series([row in rows for row in range(len(bare))], dtype=pl.Boolean)


def _search_plainly(texts: pl.Series, finder: NameFinder) -> set[int]:
    """Find the texts that hold the words of a full name, by no code that the replacement has."""
    names = pl.Series(finder.full_names, dtype=pl.String)
    words = [name for name in _spell_plainly(names) if " " in name.strip()]
    last = {unicodedata.normalize(form, name.split()[-1]) for name in words for form in ("NFC", "NFD")}
    if not words:
        return set()
    rows = texts.str.to_lowercase().str.contains_any(sorted(last)).arg_true()
    return set(rows.filter(_spell_plainly(texts[rows]).str.contains_any(words)))


def _spell_plainly(texts: pl.Series) -> pl.Series:
    """Return the words of texts in small letters, with one space before, between and after them.

    Emoji and ``@`` count as letters, as in a name: `Anna Lind` is not `Anna🌸 Lind`.
    """
    small = texts.str.normalize("NFC").str.to_lowercase().str.replace_all(r"\p{Cf}", "")
    return " " + small.str.replace_all(r"[^\p{L}\p{M}\p{N}\p{So}@]+", " ").str.strip_chars() + " "
