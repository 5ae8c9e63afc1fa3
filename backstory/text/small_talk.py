"""Small talk: texts without content, such as greetings, thanks, assent, laughter, emoji and media placeholders.

Such a text asks for nothing, so no document can serve it. A text is small talk if the words of one language, together
with those that all languages share, make up all of it.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Final

import regex

from backstory.text.stemmers import find_stemmer, list_stop_words

_EXPRESSIONS_FILE: Final = Path(__file__).with_name("small_talk.json")
_EVERY: Final = -1
"""The bits of all languages."""
_LONGEST_CALL: Final = 8

_ACCENTED: Final = regex.compile(r"([\p{Latin}\p{Greek}])\p{Mn}+")
# Signs that are no words: a placeholder in brackets, a mark in a transcript, an emoji by name, a mention.
_SIGNS: Final = re.compile(r"^\s*<[^<>\n]{2,60}>\s*$|\{\w+\}|:[a-z0-9_+-]+:|(?<!\S)@\w+")
_INVISIBLE: Final = regex.compile(r"[\p{Default_Ignorable_Code_Point}\u0640]+")
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

_Units = tuple[str, ...]


def find_small_talk(texts: Sequence[str | None], names: Iterable[str] = ()) -> list[bool]:
    """Find the texts that have no content.

    A text has content if a word is neither in the list of its language nor a name of an author. A text mixes one
    language with what all languages share, such as "ok" and "lol". A greeting or thanks may address someone: "Thanks,
    Ana". Emoji and punctuation say nothing, and neither does a clock time or a number of two digits in a text that has
    words.
    """
    named = {word: _EVERY for name in names for word in _split(name) if not word.isnumeric()}
    known = {**_list_words(), **named} if named else _list_words()
    split = [[] if text is None else _split(_SIGNS.sub(" ", text)) for text in texts]
    found = [_is_covered(units, known) for units in split]
    return [
        small or _addresses_someone(text or "", units, known)
        for small, text, units in zip(found, texts, split, strict=True)
    ]


def _split(text: str) -> list[str]:
    """Split a text into words and numbers; each character of a script without spaces stands alone."""
    if text.isascii():
        return _ASCII_UNITS.findall(text.lower())
    folded = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text).casefold())
    bare = _ACCENTED.sub(r"\1", unicodedata.normalize("NFD", folded))
    return _UNITS.findall(unicodedata.normalize("NFC", bare))


@dataclass(frozen=True)
class _Expressions:
    """Words and phrases without content.

    Attributes:
        everywhere: Those that all languages share.
        calls: Those of each language that go with a name, as in "thanks, Ana".
        others: All others of each language. Its stop words, where there are any, count besides.
    """

    everywhere: Sequence[str]
    calls: Mapping[str, Sequence[str]]
    others: Mapping[str, Sequence[str]]


@cache
def _read_expressions() -> _Expressions:
    record = json.loads(_EXPRESSIONS_FILE.read_text(encoding="utf-8"))
    languages = record["languages"]
    return _Expressions(
        everywhere=record["everywhere"],
        calls={language: lists["calls"] for language, lists in languages.items()},
        others={language: lists["others"] for language, lists in languages.items()},
    )


def _list_phrases(expressions: Iterable[str]) -> Iterator[_Units]:
    return filter(None, (tuple(_split(each)) for each in expressions))


@cache
def _list_words() -> dict[str, int]:
    """List the words of all languages, each with its languages as bits."""
    return {units[0]: bits for units, bits in _list_expressions().items() if len(units) == 1}


@cache
def _list_expressions() -> dict[_Units, int]:
    """List the words and phrases of all languages, each with its languages as bits."""
    found: defaultdict[_Units, int] = defaultdict(int)
    expressions = _read_expressions()
    for place, (language, calls) in enumerate(expressions.calls.items()):
        stop_words = sorted(list_stop_words(find_stemmer(language)))
        for units in _list_phrases(chain(calls, expressions.others[language], stop_words)):
            found[units] |= 1 << place
    found.update((units, _EVERY) for units in _list_phrases(expressions.everywhere))
    return dict(found)


@cache
def _list_continuations() -> dict[str, tuple[tuple[_Units, int], ...]]:
    """List the phrases of several words by their first word."""
    found = defaultdict(list)
    for units, bits in _list_expressions().items():
        if len(units) > 1:
            found[units[0]].append((units, bits))
    return {first: tuple(phrases) for first, phrases in found.items()}


@cache
def _list_calls() -> frozenset[_Units]:
    """List the words and phrases that a name may follow."""
    return frozenset(chain.from_iterable(map(_list_phrases, _read_expressions().calls.values())))


def _find_languages(unit: str, known: dict[str, int]) -> int:
    """Find the languages in which a word has no content, as bits; also as it is written without stretched letters."""
    bits = known.get(unit)
    if bits is None:
        bits = _EVERY if _CLOCK.fullmatch(unit) else 0
        if not bits and len(unit) <= _LONGEST_LAUGHTER:
            forms = (_STRETCHED.sub(r"\1\1", unit), _STRETCHED.sub(r"\1", unit))
            if any(_LAUGHTER.fullmatch(form) for form in (unit, *forms)):
                bits = _EVERY
            elif forms[0] != unit:
                bits = known.get(forms[0], 0) | known.get(forms[1], 0)
    return bits


def _is_covered(units: Sequence[str], known: dict[str, int]) -> bool:
    """Tell whether the expressions of one language make up all words."""
    if len(units) == 1 and units[0].isnumeric():
        return False
    continuations = _list_continuations()
    # The languages whose expressions make up all words before each place.
    covered = [_EVERY] + [0] * len(units)
    last = 0
    for place, unit in enumerate(units):
        here = covered[place]
        if not here:
            if last <= place:
                return False
            continue
        if reached := here & _find_languages(unit, known):
            covered[place + 1] |= reached
            last = max(last, place + 1)
        for phrase, bits in continuations.get(unit, ()):
            end = place + len(phrase)
            if here & bits and tuple(units[place:end]) == phrase:
                covered[end] |= here & bits
                last = max(last, end)
    return covered[-1] != 0


def _addresses_someone(text: str, units: Sequence[str], known: dict[str, int]) -> bool:
    """Tell whether a text without a question is small talk beside one capitalised word, as in "Thanks, Ana"."""
    if not 1 < len(units) <= _LONGEST_CALL or any(mark in text for mark in "?？؟"):
        return False
    calls = _list_calls()
    for place, unit in enumerate(units):
        if unit in known or not _is_capitalised(unit, text):
            continue
        before, after = units[:place], units[place + 1 :]
        greets = any(tuple(before[-count:]) in calls for count in range(1, min(4, len(before)) + 1))
        thanks = any(tuple(after[:count]) in calls for count in range(1, min(4, len(after)) + 1))
        if greets or thanks:
            return _is_covered([*before, *after], known)
    return False


def _is_capitalised(unit: str, text: str) -> bool:
    return any(word[0].isupper() and unit in _split(word) for word in text.split())
