"""Stemmer and stop words by language."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from types import MappingProxyType
from typing import Final

NO_LANGUAGE: Final = "none"
"""Name of the stemmer that leaves words as they are."""


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


_STOP_WORDS: Final = MappingProxyType({
    "danish": "DANISH", "dutch": "DUTCH", "english": "EN_PLUS", "french": "FRENCH", "german": "GERMAN",
    "italian": "ITALIAN", "norwegian": "NORWEGIAN", "portuguese": "PORTUGUESE", "russian": "RUSSIAN",
    "spanish": "SPANISH", "swedish": "SWEDISH", "turkish": "TURKISH",
})  # fmt: skip
"""Names of the lists of bm25s."""


def find_stemmer(language: str | None) -> str:
    """Return the name of the Snowball stemmer of a language, ISO 639-1; ``none`` if there is none or for None."""
    return _STEMMERS.get(language or "", NO_LANGUAGE)


def list_stop_words(stemmer: str) -> frozenset[str]:
    """List the stop words that belong to a stemmer; none for most languages."""
    name = _STOP_WORDS.get(stemmer)
    return frozenset(_read_stop_words()[f"STOPWORDS_{name}"] if name else ())


@cache
def _read_stop_words() -> Mapping[str, Sequence[str]]:
    """Load the module of the lists alone, since all of bm25s takes ten times as long to load."""
    package = find_spec("bm25s")
    folder = package.submodule_search_locations if package else None
    found = PathFinder.find_spec("stopwords", folder)
    if found is None or found.loader is None:
        raise ModuleNotFoundError("bm25s has no module stopwords", name="bm25s.stopwords")
    module = module_from_spec(found)
    found.loader.exec_module(module)
    return vars(module)


def choose_stemmers(languages: Sequence[str | None], counted: Iterable[bool], setting: str) -> list[str]:
    """Choose the stemmer of each document.

    Args:
        languages: Detected language of each document, ISO 639-1; None if unclear.
        counted: Whether each document decides how those of unclear language are stemmed.
        setting: Value of ``index.language``: a stemmer for all documents, or ``auto``.

    Returns:
        One name of a stemmer, or ``none``, per document. With ``auto``, a document of unclear language gets the
        stemmer of most counted documents; ``none`` if the language of all of them is unclear.
    """
    if setting != EACH_BY_ITS_OWN:
        return [setting] * len(languages)
    known = Counter(
        find_stemmer(language)
        for language, counts in zip(languages, counted, strict=True)
        if language and counts
    )
    main = min(known, key=lambda stemmer: (-known[stemmer], stemmer), default=NO_LANGUAGE)
    return [find_stemmer(language) if language else main for language in languages]
