"""Finds names that pseudonymization missed, by a different method than the replacement.

The replacement works word by word. Here each name is a pattern over the letters of the whole text, so characters
between two letters of a name do not hide it. The two methods share only the views of a text
(:mod:`backstory.ingest.privacy.views`), the folding of letters (:mod:`backstory.ingest.privacy.folding`) and the list
of names.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from typing import Final

import polars as pl
import regex

from backstory.ingest.privacy.folding import UNSPACED, fold
from backstory.ingest.privacy.forms import Condition, Written
from backstory.ingest.privacy.names import (
    ANY_PHONE,
    BLANK,
    ISOLATED_MENTION,
    NUMBER_MENTION,
    NameFinder,
    Place,
)
from backstory.ingest.privacy.pseudonyms import IDENTIFIERS, PSEUDONYM, list_emoji
from backstory.ingest.privacy.views import spread_views

_BREACH_SCHEMA = pl.Schema({"column": pl.String(), "message_id": pl.String()})
_CUT: Final = "\0"
"""Put where a word may begin or end: no letter and no space."""
_MENTION_GAP: Final = re.compile(r"(?<=@)~\s*")
_CERTAIN: Final = re.compile(f"{ISOLATED_MENTION}|{NUMBER_MENTION}")
_CERTAIN_IN_APP_LINE: Final = re.compile(f"{_CERTAIN.pattern}|{ANY_PHONE}")
_UNSEEN: Final = regex.compile(r"\p{Cf}")
_JOINT: Final = regex.compile(
    r"(?<=\p{Ll})(?=\p{Lu})|(?<=\p{Lu})(?=\p{Lu}\p{Ll})"
    r"|(?<=[\p{Lu}\p{Ll}])(?=[\p{Lt}\p{Lm}\p{Lo}])|(?<=[\p{Lt}\p{Lm}\p{Lo}])(?=[\p{Lu}\p{Ll}])"
    r"|(?<=\p{L})(?=\p{N})|(?<=\p{N})(?=\p{L})"
)
_ALONE: Final = regex.compile(rf"(?=[{UNSPACED}])(?!\p{{M}})\X|\p{{So}}|(?=@)")


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
    views, rows = spread_views(texts.str.replace_all(PSEUDONYM, BLANK))
    matching = {rows[view] for view in _search_views(views, finder, place)}
    return pl.Series([row in matching for row in range(len(texts))], dtype=pl.Boolean)


def _search_views(texts: pl.Series, finder: NameFinder, place: Place) -> set[int]:
    """Return the places of the texts that hold a name."""
    numbers = finder.phones.may_hold(texts)
    rows = {row for row in numbers if finder.phones.occurs_in(texts[row])}
    if vocabulary := finder.vocabulary(place).names:
        for row, found in _hits(texts, sorted(vocabulary)):
            spelled = _SpelledOut(texts[row])
            if any(spelled.holds(letters, vocabulary[letters]) for letters in found):
                rows.add(row)
    if place == "identifier" and finder.buried:
        rows.update(row for row, _ in _hits(texts, finder.buried))
    if place != "identifier":
        certain = _CERTAIN if place == "message" else _CERTAIN_IN_APP_LINE
        rows.update(row for row, text in enumerate(texts) if text is not None and certain.search(text))
    return rows


def _hits(texts: pl.Series, names: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield each text in which the letters of names follow each other, and these names."""
    folded = pl.Series([None if text is None else fold(text) for text in texts], dtype=pl.String)
    for row, letters in enumerate(folded.str.extract_many(names, overlapping=True).to_list()):
        if letters:
            yield row, list(dict.fromkeys(letters))


class _SpelledOut:
    """The letters of a text, with a space at every possible word boundary."""

    def __init__(self, text: str) -> None:
        plain = _MENTION_GAP.sub("", _UNSEEN.sub("", text).replace("＠", "@").replace("﹫", "@"))
        parted = _JOINT.sub(_CUT, unicodedata.normalize("NFC", plain))
        self._text = _ALONE.sub(
            lambda match: f"{_CUT}{match.group()}{_CUT}" if match.group() else _CUT, parted
        )
        letters, places = list[str](), list[int]()
        for place, character in enumerate(self._text):
            folded = fold(character) or ("" if unicodedata.category(character)[0] == "M" else " ")
            letters.append(folded)
            places += [place] * len(folded)
        self._letters, self._places = "".join(letters), places

    def holds(self, letters: str, conditions: Collection[Condition]) -> bool:
        """Return whether the text holds the letters of a name in one of these conditions."""
        pattern, start = _pattern(letters), 0
        while found := pattern.search(self._letters, start):
            if Condition() in conditions:
                return True
            written = self._read(found)
            if any(written.meets(condition) for condition in conditions):
                return True
            start = found.start() + 1
        return False

    def _read(self, found: re.Match[str]) -> Written:
        places, ends = list[tuple[int, int]](), set[int]()
        for at in range(found.start(), found.end()):
            if self._letters[at] == " ":
                ends.add(len(places))
            else:
                places.append((self._places[at], self._places[at] + 1))
        return Written(self._text, places, frozenset({*ends, len(places)}))


def _pattern(letters: str) -> re.Pattern[str]:
    parts = (re.escape(letter) + ("" if letter == "@" else " *") for letter in letters[:-1])
    return re.compile("".join([r"(?<![^ @])", *parts, re.escape(letters[-1]), r"(?![^ @])"]))
