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
from itertools import count
from typing import Final

import regex

from backstory.base.ids import digest
from backstory.ingest.privacy.folding import fold, is_unspaced
from backstory.ingest.privacy.leaks import find_naming_texts

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


@cache
def _fold_words(language: str) -> Mapping[str, tuple[str, frozenset[str]]]:
    """Return the letters of each word, and what :func:`_list_similar` lists of them, which takes milliseconds."""
    folded = ((word, fold(word)) for word in load_words()[language])
    return {word: (letters, frozenset(_list_similar(letters))) for word, letters in folded}


def list_usable_words(language: str, names: Iterable[str]) -> list[str]:
    """List the words of a language that nobody can take for one of the names.

    It returns the words in their order, without those that are found as a name, and without those that equal a part of
    a name, differ from it in one letter, or hold it or are held by it.
    """
    names = list(names)
    words = _fold_words(language if language in load_words() else DEFAULT_LANGUAGE)
    parts = {letters for name in names for part in _PARTS.findall(name) if (letters := fold(part))}
    similar = {spelling for part in parts for spelling in _list_similar(part)}
    apart = [
        word
        for word, (letters, spellings) in words.items()
        if similar.isdisjoint(spellings) and not any(_hold(letters, part) for part in parts)
    ]
    # A name may also be written in other forms, such as with another spelling of an umlaut.
    written = {text: word for word in apart for text in (word, f"@{word}")}
    found = {written[text] for text in find_naming_texts(list(written), names)}
    return [word for word in apart if word not in found]


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
        number = _LEAST_NUMBER + int(digest([person, str(attempt)], length=8), 16) % (
            _NUMBERS * (1 + attempt // 8)
        )
        yield f"{preferred[attempt % len(preferred)]} {number}"


def _list_similar(letters: str) -> set[str]:
    """List the letters, and what is left without one of them: two words share one if they differ in one letter."""
    if len(letters) < _LEAST_SHARED_LETTERS:
        return {letters}
    return {letters, *(letters[:at] + letters[at + 1 :] for at in range(len(letters)))}


def _hold(word: str, part: str) -> bool:
    shorter, longer = sorted((word, part), key=len)
    return shorter in longer and (len(shorter) >= _LEAST_SHARED_LETTERS or is_unspaced(shorter))
