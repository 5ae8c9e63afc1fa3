"""Expand a question into several search keys. The same question always has the same keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

import regex

from backstory.index.search import SearchIndex
from backstory.text.stemmers import NO_LANGUAGE
from backstory.text.words import Words, find_words, list_parts

FindTerms: TypeAlias = Callable[[Sequence[str], str], list[tuple[int, int]]]
"""Returns the spans of the search keys' content words in a text: first character, and the one after the last."""


# Scripts without spaces are matched character by character, all others word by word.
_TOKEN: Final = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}]"
    r"|[\p{L}\p{M}\p{N}_]+(?:['’.\-][\p{L}\p{M}\p{N}_]+)*"
)


def main_stemmer(index: SearchIndex) -> str:
    """Name the stemmer of most chunks of an index."""
    languages = index.manifest.languages
    return max(languages, key=lambda each: each.rows).stemmer if languages else NO_LANGUAGE


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
        for word in list_content_words(text, stemmer)
        for term in terms_of(word, stemmer)
    }


def terms_of(word: str, stemmer: str) -> set[str]:
    """Return the stems of a word and of its parts, in English and in the stemmer's language."""
    return {
        term
        for part in list_parts(word)
        for words in _words(stemmer)
        if (term := words.find_term(part)) is not None
    }


def mark_words(keys: Sequence[str], text: str, stemmer: str) -> list[tuple[int, int]]:
    """Find where a text holds content words of search keys.

    Args:
        keys: The search keys.
        text: The text.
        stemmer: Stemmer of most of the documents.

    Returns:
        Spans of characters, in order and without overlap.
    """
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


_TEMPLATES: Final = (
    (r"what(?: is|'s| are| was| were) (?:an? |the )?(?P<x>.+)", "{x} definition"),
    (r"what does (?P<x>.+) mean", "{x} definition"),
    (r"who(?: is|'s| was| are| were) (?P<x>.+)", "{x} person"),
    (r"when(?: is| was| did| does| will) (?P<x>.+)", "{x} date"),
    (r"where(?: is| was| are| were| do| does| did) (?P<x>.+)", "{x} place"),
    (r"why (?:is |are |was |were |do |does |did )?(?P<x>.+)", "{x} reason"),
    (r"how (?:do|does|can|should) (?:i|we|you|one) (?P<x>.+)", "{x} steps"),
    (r"how (?:many|much) (?P<x>.+)", "{x} number"),
    (r"was (?:ist|sind|war|waren) (?:ein |eine |der |die |das )?(?P<x>.+)", "{x} Definition"),
)
_FORMS: Final = tuple((re.compile(form, re.IGNORECASE | re.DOTALL), made) for form, made in _TEMPLATES)
_ENDS: Final = " \t\n?!.,;:¿¡\"'“”‘’«»"
_LEAST_WORDS: Final = 2


def expand_question(question: str, stemmer: str) -> tuple[str, ...]:
    """Build the search keys of a question.

    Args:
        question: Any text.
        stemmer: Name of the stemmer whose stop words are no content.

    Returns:
        The question itself; its content words, if it has others; and the result of a template. Each key once.
    """
    keys = [question]
    content = list_content_words(question, stemmer)
    if len(content) >= _LEAST_WORDS and len(content) < len(find_words(question)):
        keys.append(" ".join(content))
    bare = " ".join(question.split()).strip(_ENDS)
    for form, made in _FORMS:
        found = form.fullmatch(bare)
        if found is not None:
            keys.append(made.format(x=found["x"]))
            break
    return tuple(dict.fromkeys(keys))
