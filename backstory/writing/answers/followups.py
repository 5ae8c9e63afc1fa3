"""A question that goes on from the one before it, completed so that it stands alone, without a model."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from backstory.text.words import find_terms, find_words, list_content_words, terms_of
from backstory.writing.answers.answer import Turn
from backstory.writing.answers.routing import begins_asking, find_asked, fold, route_question

_WORDS_FILE: Final = Path(__file__).with_name("followups.toml")
_FEW_WORDS: Final = 3
"""A question with as few content words, and "and" before them or "it" among them, goes on from the last one."""
_FEW_SUBJECTS: Final = 2
_MOST_CARRIED: Final = 8
_DIGIT: Final = re.compile(r"\d")
_YEAR: Final = re.compile(r"\b(?:19|20)\d\d\b")
_COUNT: Final = re.compile(r"(?!(?:19|20)\d\d\b)\b\d[\d.,:]*")
_ENDS: Final = " \t\n?!.,;:…"


@dataclass(frozen=True)
class _Forms:
    going_on: re.Pattern[str]
    standing_for: re.Pattern[str]
    placing: re.Pattern[str]
    another: re.Pattern[str]
    asking_more: re.Pattern[str]
    selecting: re.Pattern[str]


def asks_more(question: str, history: Sequence[Turn]) -> bool:
    """Tell whether a message names nothing, and asks more about the last question, such as "and why?"."""
    return bool(history) and _find_asking_more(question) is not None


def names_another(question: str, history: Sequence[Turn]) -> bool:
    """Tell whether a question only names another thing, such as "and the one about rats?", and asks nothing itself."""
    forms = _read_forms()
    rest = forms.going_on.sub("", fold(question).strip(_ENDS), count=1).strip(_ENDS)
    return bool(history and rest) and not begins_asking(rest) and _find_asking_more(question) is None


def selects_from(question: str) -> bool:
    """Tell whether a question asks which, or how many, of those things that were named before."""
    return bool(_read_forms().selecting.search(fold(question).strip(_ENDS)))


def complete_question(question: str, history: Sequence[Turn], stemmer: str) -> str | None:
    """Complete a question that goes on from the last one of a conversation.

    The content words of the last question that the new one lacks are carried over, without those that it replaces:
    what follows the same word that places something ("in june", "in december"), and a number by a number.

    Args:
        question: The question.
        history: The conversation so far, the last turn last.
        stemmer: Stemmer of most of the documents.

    Returns:
        The completed question; None if the question stands alone.
    """
    asked = find_asked(question) or _find_asking_more(question)
    if not history or not asked:
        return None
    forms = _read_forms()
    opening = forms.going_on.match(_lower(question)) or forms.going_on.match(asked)
    rest = forms.going_on.sub("", asked, count=1).strip(_ENDS)
    own = list_content_words(rest, stemmer)
    is_open = bool(opening) and len(own) <= _FEW_WORDS
    points_back = selects_from(question) or (len(own) <= _FEW_WORDS and forms.standing_for.search(rest))
    if not (is_open or len(own) <= 1 or points_back):
        return None
    is_another = bool(forms.another.match(rest)) or _names_subject(rest, history[-1].question, own, forms)
    carried = (_carry_head if is_another else _carry)(history[-1].question, rest, stemmer, forms)
    if not carried:
        return None
    new = question.strip()
    begun = forms.going_on.match(_lower(new))
    new = new[begun.end() :].strip(_ENDS) if begun and is_open else new
    joined = " ".join(carried)
    if is_another:
        return f"{joined} {new}"
    is_phrase = bool(forms.placing.match(_lower(new))) or len(find_words(new)) <= 1
    return f"{joined} {new}" if is_phrase else f"{new} ({joined})"


def _find_asking_more(question: str) -> str | None:
    forms = _read_forms()
    asked = forms.going_on.sub("", fold(question).strip(_ENDS), count=1).strip(_ENDS)
    return asked if forms.asking_more.fullmatch(asked) else None


def _carry(last: str, rest: str, stemmer: str, forms: _Forms) -> list[str]:
    """List the content words of the last question that the new one neither has nor replaces."""
    kept = _lower(last)
    if placed := forms.placing.match(rest):
        word = re.escape(placed[0].strip())
        kept = re.sub(rf"\b{word}\b(?: (?!(?:{forms.placing.pattern[1:]}))\S+)+", " ", kept, count=1)
    # A year is replaced by a year, and another number by another number: "the 3 newest" of those of 2024 are of 2024.
    for numbers in (_YEAR, _COUNT):
        if numbers.search(rest):
            kept = numbers.sub(" ", kept)
    had = find_terms([rest], stemmer)
    words = list_content_words(kept, stemmer)
    return [word for word in words if not terms_of(word, stemmer) & had][:_MOST_CARRIED]


def _names_subject(rest: str, last: str, own: Sequence[str], forms: _Forms) -> bool:
    """Tell whether a follow-up of a summary only names what another one is wanted of: "what about tomatoes"."""
    is_bare = 0 < len(own) <= _FEW_SUBJECTS and not (_DIGIT.search(rest) or forms.placing.match(rest))
    return is_bare and not begins_asking(rest) and route_question(last).kind == "summarize"


def _carry_head(last: str, rest: str, stemmer: str, forms: _Forms) -> list[str]:
    """List what the last question asks for without what it is about: "summarize post" of "summarize the post on rats".

    What it is about follows its first word that places something; without such a word, all but its first word.
    """
    had = find_terms([rest], stemmer)
    head, *tail = re.split(rf"\b(?:{forms.placing.pattern[4:-2]})\b", _lower(last), maxsplit=1)
    words = list_content_words(head, stemmer)
    return [word for word in (words if tail else words[:1]) if not terms_of(word, stemmer) & had]


def _lower(text: str) -> str:
    return " ".join(text.casefold().replace("'", " ").replace("’", " ").split())


@cache
def _read_forms() -> _Forms:
    record = tomllib.loads(_WORDS_FILE.read_text(encoding="utf-8"))
    return _Forms(
        going_on=re.compile(rf"^(?:(?:{_join(record['going_on'])})\b[ ,!.]*)+"),
        standing_for=re.compile(rf"\b(?:{_join(record['standing_for'])})\b"),
        placing=re.compile(rf"^(?:{_join(record['placing'])}) "),
        another=re.compile(rf"^(?:{_join(record['another'])}) (?:{_join(record['placing'])}) "),
        asking_more=re.compile(_join(record["asking_more"])),
        selecting=re.compile(rf"\b(?:{_join(record['selecting'])})(?!\w)"),
    )


def _join(languages: Mapping[str, Sequence[str]]) -> str:
    words = {word for some in languages.values() for word in some}
    return "|".join(sorted(words, key=lambda word: (-len(word), word)))
