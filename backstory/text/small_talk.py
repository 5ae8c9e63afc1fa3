"""Small talk: texts without content, such as greetings, thanks, assent, laughter, emoji and media placeholders.

Such a text asks for nothing, so no document can serve it. A text is small talk if the words of one language, together
with those that all languages share, make up all of it.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

import regex

from backstory.text.words import find_stemmer, fold, list_stop_words, strip_accents

_EXPRESSIONS_FILE: Final = Path(__file__).with_name("small_talk.json")
_EVERY: Final = -1
"""The bits of all languages."""
_LONGEST_CALL: Final = 8
_LONGEST_PHRASE: Final = 16
"""More words than any expression has; each character of a script without spaces is one."""

# Signs that are no words: a placeholder in brackets, a mark in a transcript, an emoji by name, a mention.
_SIGNS: Final = re.compile(r"^\s*<[^<>\n]{2,60}>\s*$|\{\w+\}|:[a-z0-9_+-]+:|(?<!\S)@\w+")
_TATWEEL: Final = "\u0640"
"""A sign that stretches Arabic words."""
_UNSPACED: Final = (
    r"[[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]&&[\p{L}\p{M}\p{N}]]"
)
_UNITS: Final = regex.compile(
    rf"{_UNSPACED}|[[\p{{L}}\p{{M}}]--{_UNSPACED}]+|\p{{N}}+(?:[.,:]\p{{N}}+)*", regex.VERSION1
)
_ASCII_UNITS: Final = re.compile(r"[a-z]+|[0-9]+(?:[.,:][0-9]+)*")
_STRETCHED: Final = re.compile(r"(.)\1{2,}")
_LAUGHTER: Final = re.compile(
    r"b?w?a?(?:h+[aeiou]){2,}h*|(?:[aeiou]h){2,}[aeiou]?|(?:j[aei]){2,}j?|k{2,}|w{2,}|(?:wk){2,}w?|(?:rs){2,}|lo+l+|"
    r"(?:х[аи]){2,}х?|(?:χα){2,}|ه{2,}|[ㅋㅎㅠㅜ]+|h+m+|m+h*m*|a+h+|o+h+|x+d+|[あえおわ]"
)
_LONGEST_LAUGHTER: Final = 60
_CLOCK: Final = re.compile(r"\d{1,2}(?::\d\d)?")

_Units: TypeAlias = tuple[str, ...]
"""The words of an expression."""
_Expressions: TypeAlias = dict[_Units, int]
"""Expressions without content, with their languages as bits."""


def find_small_talk(texts: Sequence[str | None], names: Iterable[str] = ()) -> list[bool]:
    """Find the texts that have no content: their words are in the list of one language, or names of authors.

    A text mixes one language with what all languages share, such as "ok" and "lol". A greeting or thanks may address
    someone: "Thanks, Ana". Emoji, punctuation, and a clock time or a number of two digits beside words say nothing.
    """
    named: _Expressions = {(word,): _EVERY for name in names for word in _split(name) if not word.isnumeric()}
    known = {**_read_expressions()[0], **named}
    found = []
    for text in texts:
        units = _split(_SIGNS.sub(" ", text or ""))
        found.append(_is_covered(units, known) or _addresses_someone(text or "", units, known))
    return found


def _split(text: str) -> list[str]:
    """Split a text into words and numbers; each character of a script without spaces stands alone."""
    if text.isascii():
        return _ASCII_UNITS.findall(text.lower())
    return _UNITS.findall(strip_accents(fold(text).replace(_TATWEEL, "")))


@cache
def _read_expressions() -> tuple[_Expressions, set[_Units]]:
    """Read the expressions without content, and those that go with a name, as in "thanks, Ana".

    Stop words of a language count as its own.
    """
    record = json.loads(_EXPRESSIONS_FILE.read_text(encoding="utf-8"))
    languages: _Expressions = defaultdict(int)
    all_calls: set[_Units] = set()
    for place, (language, lists) in enumerate(record["languages"].items()):
        calls = _list_phrases(lists["calls"])
        all_calls |= calls
        for units in calls | _list_phrases([*lists["others"], *list_stop_words(find_stemmer(language))]):
            languages[units] |= 1 << place
    languages.update(dict.fromkeys(_list_phrases(record["everywhere"]), _EVERY))
    return languages, all_calls


def _list_phrases(expressions: Iterable[str]) -> set[_Units]:
    return {tuple(_split(each)) for each in expressions} - {()}


def _find_languages(unit: str, known: _Expressions) -> int:
    """Find the languages in which a word has no content, as bits; also as it is written without stretched letters."""
    if (unit,) in known:
        return known[unit,]
    forms = [unit, _STRETCHED.sub(r"\1\1", unit), _STRETCHED.sub(r"\1", unit)]
    is_laughter = len(unit) <= _LONGEST_LAUGHTER and any(map(_LAUGHTER.fullmatch, forms))
    if is_laughter or _CLOCK.fullmatch(unit):
        return _EVERY
    return known.get((forms[1],), 0) | known.get((forms[2],), 0)


def _is_covered(units: Sequence[str], known: _Expressions) -> bool:
    """Tell whether the expressions of one language make up all words."""
    if len(units) == 1 and units[0].isnumeric():
        return False
    # The languages whose expressions make up all words before each place.
    covered = [_EVERY] + [0] * len(units)
    for place, unit in enumerate(units):
        if not (here := covered[place]):
            continue
        covered[place + 1] |= here & _find_languages(unit, known)
        for end in range(place + 2, min(place + _LONGEST_PHRASE, len(units)) + 1):
            covered[end] |= here & known.get(tuple(units[place:end]), 0)
    return covered[-1] != 0


def _addresses_someone(text: str, units: Sequence[str], known: _Expressions) -> bool:
    """Tell whether a text without a question is small talk beside one capitalised word, as in "Thanks, Ana"."""
    if not 1 < len(units) <= _LONGEST_CALL or any(mark in text for mark in "?？؟"):
        return False
    _, calls = _read_expressions()
    for place, unit in enumerate(units):
        is_capitalised = any(word[0].isupper() and unit in _split(word) for word in text.split())
        if (unit,) in known or not is_capitalised:
            continue
        before, after = units[:place], units[place + 1 :]
        greets = any(tuple(before[-count:]) in calls for count in range(1, min(4, len(before)) + 1))
        thanks = any(tuple(after[:count]) in calls for count in range(1, min(4, len(after)) + 1))
        if greets or thanks:
            return _is_covered([*before, *after], known)
    return False
