"""Texts split into the terms of keyword search: words, numbers, and identifiers both whole and in parts; stemmers.

This is the only definition of a word: keyword search, the assessment, the choice of passages and the digest writer
all use it.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import chain, pairwise
from pathlib import Path
from typing import Final

import regex
import Stemmer

from backstory.base.errors import SettingsError

NO_LANGUAGE: Final = "none"
"""Name of the stemmer that leaves words as they are."""
_STOP_WORDS_FILE: Final = Path(__file__).with_name("stop_words.json")

_EACH_BY_ITS_OWN: Final = "auto"
"""Value of ``index.language`` by which each document is stemmed by its own language."""
_STEMMERS: Final[Mapping[str, str]] = {
    "ar": "arabic", "bs": "serbian", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german", "el": "greek",
    "en": "english", "eo": "esperanto", "es": "spanish", "et": "estonian", "eu": "basque", "fa": "persian",
    "fi": "finnish", "fr": "french", "ga": "irish", "hi": "hindi", "hr": "serbian", "hu": "hungarian",
    "hy": "armenian", "id": "indonesian", "it": "italian", "lt": "lithuanian", "ms": "indonesian", "ne": "nepali",
    "nl": "dutch", "nn": "norwegian", "no": "norwegian", "pl": "polish", "pt": "portuguese", "ro": "romanian",
    "ru": "russian", "sr": "serbian", "st": "sesotho", "sv": "swedish", "ta": "tamil", "tr": "turkish",
}  # fmt: skip

# Scripts that put no space between words, and Korean, whose words carry particles. Script extensions count, since
# the Japanese sign for a long vowel belongs to two scripts.
_UNSPACED = (
    r"[[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{scx=Hangul}"
    r"\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]&&[\p{L}\p{M}\p{N}]]"
)
_SPACED = rf"[[\p{{L}}\p{{M}}\p{{N}}_]--{_UNSPACED}]"
PLAIN_LETTERS: Final = {
    "æ": "ae", "ð": "d", "ø": "o", "þ": "th", "đ": "d", "ħ": "h", "ı": "i", "ł": "l", "ŉ": "n", "ŋ": "n", "œ": "oe",
    "Æ": "AE", "Ð": "D", "Ø": "O", "Þ": "TH", "Đ": "D", "Ħ": "H", "Ł": "L", "Ŋ": "N", "Œ": "OE",
}  # fmt: skip
"""Letters that Unicode does not decompose, with their spelling on keyboards that lack them."""
# The letters, marks, digits and inner points of a word are those of Unicode's word boundaries (UAX #29). A hyphen
# joins, too, which UAX #29 leaves to the application: identifiers such as EIP-1559 are words.
_WORDS = regex.compile(
    rf"(?P<unspaced>{_UNSPACED}+)|(?P<spaced>{_SPACED}+(?:['.·״׳\-]{_SPACED}+)*)", regex.VERSION1
)
# Finds the same as _WORDS in folded ASCII, with the faster module.
_ASCII_WORDS = re.compile(r"[a-z0-9_]+(?:['.\-][a-z0-9_]+)*")
_PARTS = re.compile(r"[^_.\-]+")
_IDENTIFYING = re.compile(r"[\d_.\-]")
_HAN = regex.compile(r"\p{Han}")
_CLUSTER = regex.compile(r"\X")
# Invisible signs inside of words, such as soft hyphens. A space of no width separates words.
_INVISIBLE = regex.compile(r"[\p{Default_Ignorable_Code_Point}--\u200B]+", regex.VERSION1)
_LIKE_ASCII = str.maketrans({"’": "'", "‐": "-"})
_ACCENTED = regex.compile(r"([\p{Latin}\p{Greek}])\p{Mn}+")


def find_words(text: str) -> list[str]:
    """Find the words of a text, in order, folded by compatibility and case (NFKC_Casefold).

    A run of a script without spaces yields pairs of neighbouring characters, and each Han character or lonely one, too.
    """
    if text.isascii():
        # An index has many words, so no Python loop runs over them.
        return _ASCII_WORDS.findall(text.lower())
    return list(_find_words(fold(text)))


def list_parts(word: str) -> list[str]:
    """List a word of :func:`find_words` and its parts, as of ``CVE-2024-1234`` and ``snake_case``, or its one part."""
    parts = _PARTS.findall(word)
    return [word, *parts] if len(parts) > 1 else parts


class Words:
    """Splits texts into the terms of one language.

    Words with a digit, and words that have parts, are never stemmed. Accents of Latin and Greek letters are removed
    from the stem, since chats often leave them out.

    ``language``: name of a Snowball stemmer, or ``none`` for neither stemming nor stop words. It raises
    ``SettingsError`` if there is no stemmer of that name.
    """

    def __init__(self, language: str) -> None:
        known = Stemmer.algorithms()
        if language != NO_LANGUAGE and language not in known:
            raise SettingsError(
                f"index.language {language!r} is not known; use one of {', '.join(known)}, or {NO_LANGUAGE}",
                code="unknown_language",
            )
        self._stem: Callable[[str], str] | None = None
        if language != NO_LANGUAGE:
            self._stem = Stemmer.Stemmer(language).stemWord
        self._stop_words = list_stop_words(language)
        self._terms = cache(self._find_terms)

    def split(self, text: str) -> list[str]:
        """Split a text into normalised words, in order, repeated ones included."""
        return list(chain.from_iterable(map(self._terms, find_words(text))))

    def find_term(self, part: str) -> str | None:
        """Return the term of a word or part of :func:`list_parts`; None for a stop word."""
        if part in self._stop_words:
            return None
        stem = None if _IDENTIFYING.search(part) else self._stem
        return strip_accents(stem(part) if stem else part)

    def _find_terms(self, word: str) -> list[str]:
        return [term for part in list_parts(word) if (term := self.find_term(part)) is not None]


def fold(text: str) -> str:
    """Fold a text by compatibility and case, without invisible signs."""
    folded = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text).casefold())
    return unicodedata.normalize("NFKC", folded).translate(_LIKE_ASCII)


def _find_words(text: str) -> Iterator[str]:
    for unspaced, spaced in _WORDS.findall(text):
        characters = _CLUSTER.findall(unspaced)
        if len(characters) < 2:
            yield spaced or unspaced
        else:
            yield from filter(_HAN.match, characters)
            yield from map("".join, pairwise(characters))


def strip_accents(term: str) -> str:
    """Remove the accents of Latin and Greek letters."""
    if term.isascii():
        return term
    return unicodedata.normalize("NFC", _ACCENTED.sub(r"\1", unicodedata.normalize("NFD", term)))


# Scripts without spaces are matched character by character, all others word by word.
_TOKEN: Final = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}]"
    r"|[\p{L}\p{M}\p{N}_]+(?:['’.\-][\p{L}\p{M}\p{N}_]+)*"
)


def list_content_words(text: str, stemmer: str) -> list[str]:
    """List the words of a text that are no stop words of English or of the stemmer's language, each once, in order."""
    return list(dict.fromkeys(word for word in find_words(text) if terms_of(word, stemmer)))


def find_terms(texts: Iterable[str], stemmer: str) -> set[str]:
    """Find the terms of the content words of texts: their stems, also those of their parts."""
    words = dict.fromkeys(chain.from_iterable(map(find_words, texts)))
    return {term for word in words for term in terms_of(word, stemmer)}


@lru_cache(maxsize=32_768)  # about 10 MB
def terms_of(word: str, stemmer: str) -> frozenset[str]:
    """Return the stems of a word and of its parts, in English and in the stemmer's language; none of a stop word."""
    both = tuple(map(_make_words, dict.fromkeys((stemmer, "english"))))
    if not all(words.find_term(word) for words in both):
        return frozenset()
    found = (words.find_term(part) for part in list_parts(word) for words in both)
    return frozenset(term for term in found if term is not None)


def mark_words(keys: Sequence[str], text: str, stemmer: str) -> list[tuple[int, int]]:
    """Find where a text holds content words of search keys."""
    wanted = find_terms(keys, stemmer)
    signs = {sign for key in keys for sign in key if not sign.isascii()}
    return [
        found.span()
        for found in _TOKEN.finditer(text)
        if found[0] in signs or any(terms_of(word, stemmer) & wanted for word in find_words(found[0]))
    ]


_make_words = cache(Words)


def find_stemmer(language: str | None) -> str:
    """Return the name of the Snowball stemmer of a language, ISO 639-1; ``none`` if there is none or for None."""
    return _STEMMERS.get(language or "", NO_LANGUAGE)


def list_stop_words(stemmer: str) -> frozenset[str]:
    """List the stop words that belong to a stemmer; none for most languages."""
    return frozenset(_read_stop_words().get(stemmer, "").split())


@cache
def list_all_stop_words() -> frozenset[str]:
    """List the stop words of all languages."""
    return frozenset(" ".join(_read_stop_words().values()).split())


@cache
def _read_stop_words() -> Mapping[str, str]:
    """Read the stop words of each stemmer that has any, which are those of bm25s."""
    lists: Mapping[str, str] = json.loads(_STOP_WORDS_FILE.read_text(encoding="utf-8"))
    return lists


def find_main_stemmer(languages: Iterable[str | None], counted: Iterable[bool]) -> str:
    """Find the stemmer of most documents; ``none`` if the language of all of them is unclear."""
    known = Counter(
        find_stemmer(language)
        for language, counts in zip(languages, counted, strict=True)
        if language and counts
    )
    return min(known, key=lambda stemmer: (-known[stemmer], stemmer), default=NO_LANGUAGE)


def choose_stemmers(languages: Sequence[str | None], setting: str, main: str) -> list[str]:
    """Choose the stemmer of each document by ``index.language``: one for all, or by ``auto`` its own."""
    if setting != _EACH_BY_ITS_OWN:
        return [setting] * len(languages)
    return [find_stemmer(language) if language else main for language in languages]
