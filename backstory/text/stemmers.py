"""Stemmer and stop words by language."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

NO_LANGUAGE: Final = "none"
"""Name of the stemmer that leaves words as they are."""
_STOP_WORDS_FILE: Final = Path(__file__).with_name("stop_words.json")

EACH_BY_ITS_OWN: Final = "auto"
"""Value of ``index.language`` by which each document is stemmed by its own language."""
_STEMMERS: Final = MappingProxyType({
    "ar": "arabic", "bs": "serbian", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german", "el": "greek",
    "en": "english", "eo": "esperanto", "es": "spanish", "et": "estonian", "eu": "basque", "fa": "persian",
    "fi": "finnish", "fr": "french", "ga": "irish", "hi": "hindi", "hr": "serbian", "hu": "hungarian",
    "hy": "armenian", "id": "indonesian", "it": "italian", "lt": "lithuanian", "ms": "indonesian", "ne": "nepali",
    "nl": "dutch", "nn": "norwegian", "no": "norwegian", "pl": "polish", "pt": "portuguese", "ro": "romanian",
    "ru": "russian", "sr": "serbian", "st": "sesotho", "sv": "swedish", "ta": "tamil", "tr": "turkish",
})  # fmt: skip


def find_stemmer(language: str | None) -> str:
    """Return the name of the Snowball stemmer of a language, ISO 639-1; ``none`` if there is none or for None."""
    return _STEMMERS.get(language or "", NO_LANGUAGE)


def list_stop_words(stemmer: str) -> frozenset[str]:
    """List the stop words that belong to a stemmer; none for most languages."""
    return frozenset(_read_stop_words().get(stemmer, "").split())


@cache
def list_all_stop_words() -> frozenset[str]:
    """List the stop words of all languages."""
    return frozenset(word for words in _read_stop_words().values() for word in words.split())


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
    if setting != EACH_BY_ITS_OWN:
        return [setting] * len(languages)
    return [find_stemmer(language) if language else main for language in languages]
