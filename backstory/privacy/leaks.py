"""Finds names that pseudonymization missed, by a different method than the replacement.

The replacement works word by word. Here each name is a pattern over the letters of the whole text, so characters
between two letters of a name do not hide it. The two methods share only the folding of letters
(:mod:`backstory.privacy.folding`) and the list of names.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final

import polars as pl
import regex

from backstory.privacy.folding import UNSPACED, decode, fold
from backstory.privacy.names import (
    ANY_PHONE,
    ISOLATED_MENTION,
    NUMBER_MENTION,
    NameFinder,
    Place,
)
from backstory.privacy.pseudonyms import IDENTIFIERS, PSEUDONYM, list_emoji
from backstory.privacy.vocabulary import Condition

_BREACH_SCHEMA = pl.Schema({"column": pl.String(), "message_id": pl.String()})
_BLANK: Final = "\ufffc"  # separates the texts on both sides of a removed pseudonym
_MENTION_GAP: Final = re.compile(r"(?<=@)~\s*")
_UNSEEN: Final = regex.compile(r"\p{Cf}")
_JOINT: Final = regex.compile(
    r"(?<=\p{Ll})(?=\p{Lu})|(?<=\p{Lu})(?=\p{Lu}\p{Ll})"
    r"|(?<=[\p{Lu}\p{Ll}])(?=[\p{Lt}\p{Lm}\p{Lo}])|(?<=[\p{Lt}\p{Lm}\p{Lo}])(?=[\p{Lu}\p{Ll}])"
    r"|(?<=\p{L})(?=\p{N})|(?<=\p{N})(?=\p{L})"
)
_ALONE: Final = regex.compile(rf"(?=[{UNSPACED}])(?!\p{{M}})\X|\p{{So}}|(?=@)")


def find_real_names(messages: pl.DataFrame, names: Iterable[str]) -> pl.DataFrame:
    """Find names that pseudonymization missed.

    Args:
        messages: A table with any of ``author``, ``text``, ``reactions``, ``conversation_id`` and ``source``. Texts
            whose ``kind`` is ``system`` are searched as lines of the app.
        names: Real names of all authors.

    Returns:
        One row per cell that holds a name: ``column``, and ``message_id``, null if the table has none. The name itself
        is not included.
    """
    finder = NameFinder(names)
    table = messages
    if "message_id" not in messages.columns:
        table = messages.with_columns(message_id=pl.lit(None, pl.String))
    breaches = [pl.DataFrame(schema=_BREACH_SCHEMA)]

    def report(column: str, rows: pl.DataFrame, held: pl.Series) -> None:
        breaches.append(rows.filter(held).select(pl.lit(column).alias("column"), "message_id"))

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


def _search(texts: pl.Series, finder: NameFinder, place: Place) -> pl.Series:
    """Say for each text whether it holds a name."""
    # Pseudonyms are removed first, because their letters could be somebody's name.
    blanked = texts.str.replace_all(PSEUDONYM, _BLANK)
    vocabulary = finder.vocabulary(place).names
    rows: set[int] = set()
    if vocabulary:
        for row, digraphs, letters in _hits(blanked, sorted(vocabulary)):
            if row not in rows and _is_held(blanked[row], digraphs, letters, vocabulary[letters]):
                rows.add(row)
    if place == "identifier" and finder.buried:
        rows.update(row for row, _, _ in _hits(blanked, finder.buried))
    certain = f"{ISOLATED_MENTION}|{NUMBER_MENTION}" + (f"|{ANY_PHONE}" if place == "app line" else "")
    held = pl.Series([row in rows for row in range(len(texts))], dtype=pl.Boolean)
    if place != "identifier":
        held |= blanked.str.contains(certain).fill_null(value=False)
    numbers = finder.phones.may_hold(blanked)
    return held | pl.Series(
        [bool(may and finder.phones.is_held(text)) for text, may in zip(blanked, numbers, strict=True)],
        dtype=pl.Boolean,
    )


def _hits(texts: pl.Series, names: list[str]) -> Iterator[tuple[int, bool, str]]:
    """Give row, spelling and name for every place where the letters of a name follow each other."""
    for digraphs in (False, True):
        folded = [None if text is None else fold(text, digraphs=digraphs) for text in texts]
        found = pl.Series(folded, dtype=pl.String).str.extract_many(names, overlapping=True)
        hits = pl.DataFrame({"letters": found}).with_row_index("row").explode("letters").drop_nulls().unique()
        for row, letters in hits.sort("row", "letters").select("row", "letters").iter_rows():
            yield row, digraphs, letters


def _is_held(text: str, digraphs: bool, letters: str, conditions: Iterable[Condition]) -> bool:
    for condition in conditions:
        spelled = _spell_out(text, digraphs=digraphs, keep_case=condition.cased is not None)
        if _pattern(condition.cased or letters, condition.joints).search(spelled):
            return True
    return False


def _spell_out(text: str, *, digraphs: bool, keep_case: bool) -> str:
    """Give the letters of a text, with a space at every possible word boundary."""
    plain = _MENTION_GAP.sub("", _UNSEEN.sub("", decode(text)).replace("＠", "@").replace("﹫", "@"))
    parted = _JOINT.sub(" ", unicodedata.normalize("NFC", plain))
    alone = _ALONE.sub(lambda match: f" {match.group()} " if match.group() else " ", parted)
    return "".join(
        fold(part, digraphs=digraphs, keep_case=keep_case)
        or ("" if unicodedata.category(part)[0] == "M" else " ")
        for part in alone
    )


def _pattern(letters: str, joints: frozenset[int]) -> re.Pattern[str]:
    parts = [r"(?<![^ @])"]
    for count, letter in enumerate(letters, start=1):
        gap = "" if letter == "@" or count == len(letters) else " +" if count in joints else " *"
        parts.append(re.escape(letter) + gap)
    return re.compile("".join([*parts, r"(?![^ @])"]))
