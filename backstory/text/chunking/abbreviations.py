"""Full stops that end an abbreviation, an initial, an ordinal or an item's number, and no sentence.

A chunk is cut before its language is known, and a chat mixes languages, so the abbreviations of all languages count
together. Where the same letters are a word of another language, the list that says less about them is theirs.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import regex

from backstory.text.stemmers import list_all_stop_words

_WORDS_BEFORE: Final = regex.compile(
    r"(?<![\p{L}\p{M}\p{N}])(?:ad )?(?:[\p{L}\p{M}ªº\-]{1,6}\.[ \u00a0\u202f]?){0,4}[\p{L}\p{M}ªº§№\-]{1,8}\Z"
)
_ORDINAL: Final = regex.compile(r"(?<![\p{L}\p{N}.,:])\p{Nd}{1,2}\Z")
_ITEM_NUMBER: Final = regex.compile(r"(?:\A|\n)[ \t>]*\p{Nd}{1,9}\Z")
_PART_AFTER: Final = regex.compile(r"([\p{L}\p{M}ªº\-]{1,6})\.")
_WORD_AFTER: Final = regex.compile(r"[\p{L}\p{M}'’]+")
_SPACES: Final = regex.compile(r"[ \u00a0\u202f]")
_OPENING: Final = "\"'“”‘’„«»([*_"
_LONGEST_PART: Final = 7
"""Letters of the longest part of an abbreviation."""
_LONGEST: Final = 48
"""Characters before a full stop that can belong to an abbreviation."""


class _Lists(NamedTuple):
    """The lists of all languages in small letters; the parts of an abbreviation are joined by full stops."""

    never_last: frozenset[str]
    """Abbreviations after which the sentence goes on, whatever comes next."""
    rarely_last: frozenset[str]
    """Abbreviations after which the sentence goes on with a small letter or a number."""
    beginnings: frozenset[str]
    """The first parts of both."""
    before_name: frozenset[str]
    """Abbreviations before a name, if they begin with a capital letter; in small letters most are words."""
    before_number: frozenset[str]
    """Abbreviations after which a number belongs to the sentence."""
    after_ordinal: frozenset[str]
    """Words that may follow an ordinal with a full stop in spite of a capital letter, such as "3. Mai"."""
    parts: frozenset[str]
    """The parts of all abbreviations."""


def goes_on(text: str, stop: int, after: int) -> bool:
    """Return whether a sentence goes on after a full stop, an ellipsis, or a quotation that ends with a mark.

    ``stop``: offset after the marks at the end of a word; only spaces lie between it and ``after``.
    """
    mark = text[stop - 1]
    if mark in "!?":
        return False  # many chats have no capital letters
    if mark == "." and _is_whole_word(text[max(stop - _LONGEST_PART - 2, 0) : stop - 1]):
        return False
    following = text[after : after + 3].lstrip(_OPENING)[:1]
    if mark != "." or text[stop - 2 : stop] == "..":
        return following.islower()  # as in: “No way!” said Ann
    before = text[max(stop - _LONGEST, 0) : stop - 1]
    words = _WORDS_BEFORE.search(before)
    if words is not None:
        return _abbreviates(words[0], following, text, after)
    if _ITEM_NUMBER.search(before):
        return True
    is_ordinal = following.islower() or _read_word(text, after) in _read_lists().after_ordinal
    return is_ordinal and _ORDINAL.search(before) is not None


def _is_whole_word(before: str) -> bool:
    """Return at small cost whether the letters before a full stop are certainly no abbreviation, as most are."""
    *_, word = before.split() or [""]
    return len(word) > 1 and word.isalpha() and word.casefold() not in _read_lists().parts


def _abbreviates(words: str, following: str, text: str, after: int) -> bool:
    """Return whether the words before a full stop are an abbreviation with which the sentence goes on."""
    written = _SPACES.sub("", words).split(".")
    parts = [part.casefold() for part in written]
    names = {".".join(parts[place:]) for place in range(len(parts))}
    lists = _read_lists()
    if not names.isdisjoint(lists.never_last):
        return True
    if written[-1][0].isupper() and parts[-1] in lists.before_name:
        return following.isupper() and not _begins_a_sentence(text, after)
    rest = _PART_AFTER.match(text, after)
    if rest and not lists.beginnings.isdisjoint(f"{name}.{rest[1].casefold()}" for name in names):
        return True
    if following.isdecimal() and parts[-1] in lists.before_number:
        return True
    if not names.isdisjoint(lists.rarely_last):
        return following.islower() or following.isdecimal()
    initials = [part for part in written if len(part) == 1]
    if initials == written and len(written) > 1 and (following.islower() or following.isdecimal()):
        return True
    is_initial = len(written[-1]) == 1 and written[-1].isupper() and written != ["I"]
    return is_initial and following.isupper() and not _begins_a_sentence(text, after)


def _begins_a_sentence(text: str, after: int) -> bool:
    """Return whether the next word is one that hardly begins a name, such as "The"."""
    return _read_word(text, after) in list_all_stop_words()


def _read_word(text: str, after: int) -> str:
    word = _WORD_AFTER.match(text, after)
    return word[0].casefold() if word else ""


@cache
def _read_lists() -> _Lists:
    record = json.loads(Path(__file__).with_name("abbreviations.json").read_text(encoding="utf-8"))
    never, rarely = (
        {_SPACES.sub("", name) for names in record[kind].values() for name in names.split("|")}
        for kind in ("never_last", "rarely_last")
    )
    name, number, ordinal = (
        record[kind].split() for kind in ("before_name", "before_number", "after_ordinal")
    )
    split = [each.split(".") for each in never | rarely]
    beginnings = {".".join(parts[:count]) for parts in split for count in range(2, len(parts) + 1)}
    # The first part of an abbreviation that is written with spaces stands alone before its full stop, too.
    parts = {*name, *number, *(part for parts in split for part in parts)}
    return _Lists(*map(frozenset, (never, rarely, beginnings, name, number, ordinal, parts)))
