"""Texts split into the terms of keyword search: words, numbers, and identifiers both whole and in parts."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Protocol

import regex
import Stemmer
from bm25s import stopwords

from backstory.errors import SettingsError

NO_LANGUAGE = "none"
_STOP_WORDS: dict[str, tuple[str, ...]] = {
    "danish": stopwords.STOPWORDS_DANISH,
    "dutch": stopwords.STOPWORDS_DUTCH,
    "english": stopwords.STOPWORDS_EN_PLUS,
    "french": stopwords.STOPWORDS_FRENCH,
    "german": stopwords.STOPWORDS_GERMAN,
    "italian": stopwords.STOPWORDS_ITALIAN,
    "norwegian": stopwords.STOPWORDS_NORWEGIAN,
    "portuguese": stopwords.STOPWORDS_PORTUGUESE,
    "russian": stopwords.STOPWORDS_RUSSIAN,
    "spanish": stopwords.STOPWORDS_SPANISH,
    "swedish": stopwords.STOPWORDS_SWEDISH,
    "turkish": stopwords.STOPWORDS_TURKISH,
}
# Scripts that put no space between words.
_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_SPACED = rf"[[\p{{L}}\p{{M}}\p{{N}}_]--[{_UNSPACED}]]"
_WORDS = regex.compile(
    rf"(?P<unspaced>[{_UNSPACED}]+)|(?P<spaced>{_SPACED}+(?:['’.\-]{_SPACED}+)*)", regex.VERSION1
)
# Finds the same as _WORDS in folded ASCII, with the faster module.
_ASCII_WORDS = re.compile(r"[a-z0-9_]+(?:['.\-][a-z0-9_]+)*")
_PARTS = regex.compile(r"[^_.\-]+")


class _Terms(dict[str, list[str]]):
    """A cache of the terms of each word.

    Args:
        find: Finds the terms of a word that is not cached.
    """

    def __init__(self, find: Callable[[str], list[str]]) -> None:
        self._find = find

    def __missing__(self, word: str) -> list[str]:
        terms = self[word] = self._find(word)
        return terms


class _Stemmer(Protocol):
    def stemWord(self, word: str) -> str: ...  # noqa: N802 - the library's name


class Words:
    """Splits texts into words of one language.

    A word with an inner dot, hyphen or underscore (``v1.2.3``, ``CVE-2024-1234``, ``snake_case``) yields itself
    and its parts. Words with a digit are never stemmed. Scripts without spaces yield single characters and
    pairs, as in Lucene's CJK analyser.

    Args:
        language: Name of a Snowball stemmer, or ``none`` for neither stemming nor stop words.

    Raises:
        SettingsError: There is no stemmer of that name.
    """

    def __init__(self, language: str) -> None:
        known = Stemmer.algorithms()
        if language != NO_LANGUAGE and language not in known:
            raise SettingsError(
                f"index.language {language!r} is not known; use one of {', '.join(known)}, or {NO_LANGUAGE}"
            )
        self._stemmer: _Stemmer | None = None if language == NO_LANGUAGE else Stemmer.Stemmer(language)
        self._stop_words = frozenset(_STOP_WORDS.get(language, ()))
        self._terms = _Terms(self._find_terms)

    def split(self, text: str) -> list[str]:
        """Split a text into normalised words, in order, repeated ones included."""
        if text.isascii():
            # An index has many words, so no Python loop runs over them.
            found = _ASCII_WORDS.findall(text.lower())
            return list(chain.from_iterable(map(self._terms.__getitem__, found)))
        return list(self._split(unicodedata.normalize("NFKC", text).casefold()))

    def _split(self, text: str) -> Iterator[str]:
        for unspaced, spaced in _WORDS.findall(text):
            if unspaced:
                yield from unspaced
                yield from (unspaced[i : i + 2] for i in range(len(unspaced) - 1))
            else:
                yield from self._terms[spaced]

    def _find_terms(self, word: str) -> list[str]:
        word = word.replace("’", "'")
        parts = _PARTS.findall(word)
        stems = [self._stem(part) for part in parts if part not in self._stop_words]
        return [word, *stems] if len(parts) > 1 else stems

    def _stem(self, word: str) -> str:
        if self._stemmer is None or any(character.isdigit() for character in word):
            return word
        return self._stemmer.stemWord(word)
