"""What an answer says around its statements and quotes, in the language of the question where that is known."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from backstory.text.languages import name_language, rank_languages
from backstory.text.words import find_stemmer, list_stop_words
from backstory.writing.answers.routing import fold

_FORMS_FILE: Final = Path(__file__).with_name("forms.toml")
_ENGLISH: Final = "en"
_WORD: Final = re.compile(r"[^\W\d_]+")
_LEAST_WORDS: Final = 2
_LEAST_SHARE: Final = 0.25
"""Stop words of English alone, by number and by share of all words, that tell English without the detector, which takes
.7 s to load: 99 of 143 English questions of the router's tune set have them, none of 240 others."""
_LEAST_KNOWN: Final = 0.04
"""Least probability of all languages with forms together; with less, the question is in another language."""
_LEAST_SURE: Final = 0.5
"""Least probability of a language without forms that is named to the reader."""
_LEAST_LIKELY: Final = 0.5
"""Least share of a language among those with forms."""


@dataclass(frozen=True)
class Forms:
    """The forms of one language.

    Attributes:
        language: The language, ISO 639-1.
        texts: The forms by their names; those with a number are lists of two.
        note: That the question is in another language, a sentence; None if it is not, or nobody can tell.
    """

    language: str
    texts: Mapping[str, Any]
    note: str | None = None

    def write(self, name: str, **values: object) -> str:
        """Write a form, with the values that it puts in."""
        text: str = self.texts[name]
        return text.format(**values) if values else text

    def count(self, name: str, number: int, **values: object) -> str:
        """Write a form that depends on a number, which it may put in as ``count``."""
        text: str = self.texts[name][number != 1]
        return text.format(count=f"{number:,}", **values)


def choose_forms(question: str) -> Forms:
    """Choose the forms of the language of a question; those of English where it has none, or is not known."""
    if _is_plainly_english(question):
        return make_forms(_ENGLISH)
    ranked = rank_languages(question)
    of_forms = {language: share for language, share in ranked if language in _read_forms()}
    known = sum(of_forms.values())
    if known < _LEAST_KNOWN:
        language, share = ranked[0] if ranked else ("", 0.0)
        if share < _LEAST_SURE:
            return make_forms(_ENGLISH)
        named = name_language(language)
        return make_forms(
            _ENGLISH, f"the words around the answer are English, since none are written in {named}"
        )
    best = max(of_forms, key=of_forms.__getitem__)
    return make_forms(best if of_forms[best] >= _LEAST_LIKELY * known else _ENGLISH)


def make_forms(language: str, note: str | None = None) -> Forms:
    """Return the forms of a language that has some, as :attr:`Forms.language` names it.

    Args:
        language: The language, ISO 639-1.
        note: That the question is in another language; None if it is not.
    """
    return Forms(language, _read_forms()[language], note)


def _is_plainly_english(question: str) -> bool:
    words = _WORD.findall(fold(question))
    told = sum(word in _list_english() for word in words)
    return told >= _LEAST_WORDS and told >= _LEAST_SHARE * len(words)


@cache
def _list_english() -> frozenset[str]:
    """List the stop words of English that no other language with forms has."""
    own, others = set[str](), set[str]()
    for language in _read_forms():
        words = {part for word in list_stop_words(find_stemmer(language)) for part in fold(word).split()}
        if language == _ENGLISH:
            own = words
        else:
            others |= words
    return frozenset(own - others)


@cache
def _read_forms() -> Mapping[str, Mapping[str, Any]]:
    forms: dict[str, dict[str, Any]] = tomllib.loads(_FORMS_FILE.read_text(encoding="utf-8"))
    return forms
