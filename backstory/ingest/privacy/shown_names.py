"""Names of plants and birds for people, which readers see in place of keyed pseudonyms.

Each person prefers the words of a list in an order of its own, derived from the pseudonym. The person who was seen
first in a conversation takes the first word; everyone later takes the first that is free. So whoever joins renames
nobody, and an older message that arrives late renames only people who prefer the same word. A word that could be taken
for a real name is not used; a person who has it loses it when somebody of that name joins.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import count, repeat
from typing import Final

import regex

from backstory.base.ids import digest
from backstory.ingest.privacy.forms import fold, is_unspaced
from backstory.ingest.privacy.pseudonyms import find_naming_texts

DEFAULT_LANGUAGE: Final = "en"
"""Language of the words for a conversation whose language is not known, or has no list."""

_LEAST_SHARED_LETTERS: Final = 4
"""Fewest letters of a word or a part of a name that make it resemble a longer one which holds it."""
_LEAST_NUMBER: Final = 2
_NUMBERS: Final = 98
_PARTS: Final = regex.compile(r"[\p{L}\p{M}\p{N}]+")


@cache
def load_words() -> Mapping[str, tuple[str, ...]]:
    """Read the words by the ISO 639-1 code of their language."""
    shipped = files("backstory.ingest.privacy").joinpath("shown_words.json").read_text(encoding="utf-8")
    return {language: tuple(words.split()) for language, words in json.loads(shipped).items()}


def list_usable_words(language: str, names: Iterable[str]) -> list[str]:
    """List the words of a language that nobody can take for one of the names.

    It returns the words in their order, without those that are found as a name, and without those that equal a part of
    a name, differ from it in one letter, or hold it or are held by it.
    """
    from rapidfuzz.distance import Indel  # a search needs no words
    from rapidfuzz.process import cdist

    names = list(names)
    words = load_words().get(language, load_words()[DEFAULT_LANGUAGE])
    parts = sorted({letters for name in names for part in _PARTS.findall(name) if (letters := fold(part))})
    changes = cdist(list(map(fold, words)), parts, scorer=Indel.distance, score_cutoff=2)
    # A name may also be written in other forms, such as with another spelling of an umlaut.
    found = find_naming_texts([text for word in words for text in (word, f"@{word}")], names)
    return [
        word
        for word, letters in zip(words, changes, strict=True)
        if found.isdisjoint((word, f"@{word}"))
        and not any(map(_resemble, repeat(fold(word)), parts, letters.tolist()))
    ]


def _resemble(word: str, part: str, changes: int) -> bool:
    """Return whether a word may be taken for a part of a name, or the reverse, from which some changes lead to it."""
    shorter, longer = sorted((word, part), key=len)
    is_long = len(longer) >= _LEAST_SHARED_LETTERS
    differs_in_one = is_long and changes <= 2 and len(longer) - len(shorter) <= 1
    is_held = shorter in longer and (len(shorter) >= _LEAST_SHARED_LETTERS or is_unspaced(shorter))
    return word == part or differs_in_one or is_held


def assign_names(
    people: Sequence[str], words: Sequence[str], agreed: Mapping[str, str], taken: Iterable[str] = ()
) -> dict[str, str]:
    """Give each person of a conversation a name of its own.

    It returns a name by pseudonym: the chosen one, a word, or a word with a number after all words are taken. Without
    words, only the chosen ones.
    """
    names = {person: agreed[person] for person in people if person in agreed}
    used = {*taken, *names.values()}
    for person in people:
        if person in names or not words:
            continue
        preferred = sorted(words, key=lambda word: digest([person, word]))
        name = next(name for name in _list_candidates(person, preferred) if name not in used)
        names[person] = name
        used.add(name)
    return names


def _list_candidates(person: str, preferred: Sequence[str]) -> Iterable[str]:
    yield from preferred
    for attempt in count():
        numbers = _NUMBERS * (1 + attempt // 8)
        number = _LEAST_NUMBER + int(digest([person, str(attempt)], length=8), 16) % numbers
        yield f"{preferred[attempt % len(preferred)]} {number}"
