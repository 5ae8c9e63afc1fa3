"""The words of a text that say something: its words without stop words, compared by their stems."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

import regex

from backstory.text.words import Words, find_words, list_parts

FindTerms: TypeAlias = Callable[[Sequence[str], str], list[tuple[int, int]]]
"""Returns the spans of the search keys' content words in a text: first character, and the one after the last."""
_KEPT_WORDS: Final = 32_768
"""Words whose terms are kept in memory, about 10 MB."""

# Scripts without spaces are matched character by character, all others word by word.
_TOKEN: Final = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}]"
    r"|[\p{L}\p{M}\p{N}_]+(?:['’.\-][\p{L}\p{M}\p{N}_]+)*"
)


def list_content_words(text: str, stemmer: str) -> list[str]:
    """List the words of a text that are no stop words of English or of the stemmer's language, each once, in order."""
    return list(
        dict.fromkeys(
            word for word in find_words(text) if all(words.find_term(word) for words in _words(stemmer))
        )
    )


def find_terms(texts: Iterable[str], stemmer: str) -> set[str]:
    """Find the terms of the content words of texts: their stems, also those of their parts."""
    return {
        term
        for text in texts
        for word in dict.fromkeys(find_words(text))
        for term in _content_terms(word, stemmer)
    }


@lru_cache(maxsize=_KEPT_WORDS)
def _content_terms(word: str, stemmer: str) -> frozenset[str]:
    """Return the terms of a word; none of a stop word. The sentences of a few passages repeat most of their words."""
    if all(words.find_term(word) for words in _words(stemmer)):
        return frozenset(terms_of(word, stemmer))
    return frozenset()


def terms_of(word: str, stemmer: str) -> set[str]:
    """Return the stems of a word and of its parts, in English and in the stemmer's language."""
    return {
        term
        for part in list_parts(word)
        for words in _words(stemmer)
        if (term := words.find_term(part)) is not None
    }


def mark_words(keys: Sequence[str], text: str, stemmer: str) -> list[tuple[int, int]]:
    """Find where a text holds content words of search keys."""
    wanted = find_terms(keys, stemmer)
    signs = {sign for key in keys for sign in key if not sign.isascii()}
    return [
        found.span()
        for found in _TOKEN.finditer(text)
        if found[0] in signs or any(terms_of(word, stemmer) & wanted for word in find_words(found[0]))
    ]


@lru_cache(maxsize=16)
def _words(stemmer: str) -> tuple[Words, ...]:
    return tuple(Words(name) for name in dict.fromkeys((stemmer, "english")))
