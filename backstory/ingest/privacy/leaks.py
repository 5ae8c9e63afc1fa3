"""Finds names that pseudonymization missed.

Each text is searched as the replacement searches it, which shows what was written since, and once more by a few lines
that share nothing with the replacement, which show a fault of it: for the words of a full name, one after the other.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable
from functools import lru_cache

import polars as pl

from backstory.ingest.privacy.folding import fold
from backstory.ingest.privacy.names import BLANK, NOTHING, NameFinder, Place
from backstory.ingest.privacy.pseudonyms import IDENTIFIERS, PSEUDONYM, list_emoji


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
    return pl.concat(
        [
            pl.DataFrame(schema={"column": pl.String, "message_id": pl.String}),
            *(
                table.filter(is_named).select(pl.lit(column).alias("column"), "message_id")
                for column, is_named in breaches
                if column in table.columns
            ),
        ]
    )


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
