"""Whether a text says what a claim says: by words, names, numbers and negations.

This reads forms, not meaning. It errs towards "no": a claim in other words, or in another language than its evidence,
counts as not supported.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import regex

from backstory.text.languages import detect_language
from backstory.text.words import Words, find_stemmer, find_words, list_parts

Fault: TypeAlias = Literal["address", "number", "name", "negation", "words"]
"""What of a claim its evidence lacks: a web address, a number, a name, the same yes or no, or too many of its words."""

LEAST_SHARE: Final = 0.6
"""Least share of the content words of a claim that its evidence must hold, the titles of its documents included."""
_LEAST_QUOTED: Final = 0.4
"""Least share of the content words of a claim that the quoted sentences must hold themselves."""
_LEAST_PART: Final = 5
"""Letters from which a word also stands for a longer one that holds it: ``Beitrag`` and ``Jahresbeitrag``."""

_FORMS_FILE: Final = Path(__file__).with_name("claim_words.json")
_WORD: Final = regex.compile(r"[\p{L}\p{M}]+(?:['’][\p{L}\p{M}]+)*")
_NAME: Final = regex.compile(r"(?<![\p{L}\p{N}])\p{Lu}[\p{L}\p{M}\p{N}]*(?:[-'’]\p{L}[\p{L}\p{M}\p{N}]*)*")
_BEGINNING: Final = regex.compile(r"(?:\A|[.!?…:;。！？]\s|\n)[\s\p{P}]*\Z")
_NUMBER: Final = re.compile(r"(?<![\d.,:])(?:(?<![\w)])[-−–])?\d+(?:[.,:'\u00a0\u202f]\d+)*")
_GROUPED: Final = re.compile(r"-?\d{1,3}(?:([.,'\u00a0\u202f])\d{3})(?:\1\d{3})*")
_PAUSE: Final = re.compile(r"[.,;:!?](?=\s|\Z)|[()、，；：（）。！？]|\s[-–—]\s")
_ADDRESS: Final = re.compile(r"(?:\b(?:https?|ftp)://|\bwww\.)[^\s<>()\[\]\"']+", re.IGNORECASE)
_CAPITALISED: Final = "de"
"""The language that writes every noun with a capital."""


@dataclass(frozen=True)
class Evidence:
    """What a claim may rest on.

    Attributes:
        said: The sentences that it quotes.
        around: Title, headings and the passage around them, which say what "it" and "she" stand for.
        title: Title and headings.
        language: Language of the passage, ISO 639-1; None if it is not known.
    """

    said: str
    around: str
    title: str
    language: str | None


def find_fault(claim: str, evidence: Sequence[Evidence], *, in_other_words: bool = False) -> Fault | None:
    """Find what of a claim its evidence lacks; None if it lacks nothing.

    Args:
        claim: The claim, Markdown.
        evidence: What it rests on, at least one.
        in_other_words: Whether the claim need not share words, since somebody else judges its meaning. Then both must
            deny something, or neither: without shared words nobody sees which clause a negation belongs to.
    """
    if not _list_addresses(claim) <= {one for each in evidence for one in _list_addresses(each.around)}:
        return "address"
    languages = [each.language for each in evidence]
    if in_other_words:
        languages.append(detect_language([claim]))
    forms = _join_forms(tuple(dict.fromkeys(languages)))
    titles = "\n".join(each.title for each in evidence)
    said = "\n".join([*(each.said for each in evidence), titles])
    if not _list_numbers(claim, forms) <= _list_numbers(said, forms):
        return "number"
    if _has_strange_name(claim, evidence, forms):
        return "name"
    quoted = "\n".join(each.said for each in evidence)
    wanted = forms.list_content(claim)
    for text, least in ((said, LEAST_SHARE), (quoted, _LEAST_QUOTED)):
        held = forms.list_stems(text)
        shared = sum(_is_held(stems, held) for stems in wanted)
        if not wanted or (shared < least * len(wanted) and not in_other_words):
            return "words"
    if in_other_words and forms.negates(claim) != any(forms.negates(each.said) for each in evidence):
        return "negation"
    return _find_contradiction(claim, [each.said for each in evidence], forms)


@dataclass(frozen=True)
class _Forms:
    """The words of some languages that decide what a claim says."""

    words: tuple[Words, ...]
    negations: frozenset[str]
    negating_parts: tuple[str, ...]
    joining: re.Pattern[str]
    numbers: Mapping[str, str]
    negations_cancel: bool
    has_capitalised_nouns: bool

    def list_content(self, text: str) -> list[frozenset[str]]:
        """List the stems of each content word of a text, each part of it once; numbers and negations are none."""
        split = map(list_parts, find_words(_unmark(text)))
        words = dict.fromkeys(part for parts in split for part in parts[1:] or parts)
        content = [
            self._stem(word)
            for word in words
            if not (word.isnumeric() or word in self.numbers or self.negates_word(word))
        ]
        return [stems for stems in content if stems]

    def list_stems(self, text: str) -> set[str]:
        """List the stems of all words of a text."""
        return {
            stem
            for word in find_words(_unmark(text))
            for part in list_parts(word)
            for stem in self._stem(part)
        }

    def negates_word(self, word: str) -> bool:
        return word in self.negations or any(part in word for part in self.negating_parts)

    def negates(self, text: str) -> bool:
        """Return whether a text denies something; in some languages, two negations cancel each other."""
        folded = _fold(text)
        count = sum(word in self.negations for word in _WORD.findall(folded))
        count += sum(folded.count(part) for part in self.negating_parts)
        return count % 2 == 1 if self.negations_cancel else count > 0

    def _stem(self, word: str) -> frozenset[str]:
        stems = [words.find_term(word) for words in self.words]
        return frozenset() if None in stems else frozenset(stem for stem in stems if stem)


def _unmark(text: str) -> str:
    return unicodedata.normalize("NFKC", text).replace("\\", "").replace("*", "").replace("`", "")


def _fold(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold().replace("’", "'")


@cache
def _read_forms() -> Mapping[str, Any]:
    forms: Mapping[str, Any] = json.loads(_FORMS_FILE.read_text(encoding="utf-8"))
    return forms


@lru_cache(maxsize=64)
def _join_forms(languages: tuple[str | None, ...]) -> _Forms:
    """Join the words of languages; those of English serve where a language is not known."""
    known = [language or "en" for language in languages]
    forms = _read_forms()

    def list_words(kind: str) -> list[str]:
        return [word for language in known for word in forms[kind].get(language, "").split()]

    joining = "|".join(map(re.escape, list_words("joining_words"))) or r"(?!)"
    return _Forms(
        words=tuple(Words(name) for name in dict.fromkeys(map(find_stemmer, known))),
        negations=frozenset(list_words("negations")),
        negating_parts=tuple(list_words("negating_parts")),
        joining=re.compile(rf"\s+(?:{joining})\s+", re.IGNORECASE),
        numbers={
            word: str(number)
            for language in known
            for number, word in enumerate(forms["numbers"].get(language, "").split(), start=2)
        },
        negations_cancel=all(language in _read_forms()["negations_that_cancel"] for language in known),
        has_capitalised_nouns=_CAPITALISED in known,
    )


def _list_addresses(text: str) -> set[str]:
    return {found[0].rstrip(".,;:!?*_~") for found in _ADDRESS.finditer(_unmark(text))}


def _list_numbers(text: str, forms: _Forms) -> set[str]:
    """List the numbers of a text in one form: ``12,000``, ``12000`` and, up to twelve, words are the same."""
    folded = unicodedata.normalize("NFKC", text)
    numbers = {_write_number(found[0]) for found in _NUMBER.finditer(folded)}
    return numbers | {forms.numbers[word] for word in _WORD.findall(_fold(text)) if word in forms.numbers}


def _write_number(written: str) -> str:
    plain = re.sub("[−–]", "-", written)
    if _GROUPED.fullmatch(plain):
        return re.sub(r"[^\d-]", "", plain)
    parts = re.split(r"[.,:'\u00a0\u202f]", plain)
    parts = [parts[0].lstrip("0") or "0", *parts[1:]]
    if len(parts) == 2 and not parts[1].strip("0"):  # 17:00 is 17
        parts = parts[:1]
    return ".".join(parts)


def _has_strange_name(claim: str, evidence: Sequence[Evidence], forms: _Forms) -> bool:
    """Return whether a claim names somebody or something that its evidence does not name.

    Sentences that name somebody, or that begin with another word than a pronoun, speak of what they name; others speak
    of what the passage names.
    """
    said = "\n".join(part for each in evidence for part in (each.said, each.title))
    around = "\n".join(each.around for each in evidence)
    held, held_around = forms.list_stems(said), forms.list_stems(around)
    beginning = _find_beginning(claim, forms)
    if beginning and not beginning & held and beginning & held_around:
        return all(_find_beginning(each.said, forms) for each in evidence)
    names_somebody = any(_list_names(each.said, forms) for each in evidence)
    known = held if names_somebody else held | held_around
    return any(stems and not stems & known for stems in map(forms.list_stems, _list_names(claim, forms)))


def _find_beginning(text: str, forms: _Forms) -> set[str]:
    """Return the stems of the first word of a text; none of a stop word, a number, or a word without a capital."""
    first = _NAME.match(_unmark(text).lstrip())
    return forms.list_stems(first[0]) if first else set()


def _list_names(text: str, forms: _Forms) -> list[str]:
    """List the words of a text that its capital marks as a name.

    The first word of a sentence has a capital anyway. In a language whose nouns have one, too, only a word beside
    another one counts, such as in "Frau Sommer".
    """
    plain = _unmark(text)
    names: list[str] = []
    before: regex.Match[str] | None = None
    for word in _NAME.finditer(plain):
        if forms.has_capitalised_nouns:
            is_name = (
                before is not None
                and plain[before.end() : word.start()] == " "
                and bool(forms.list_stems(before[0]))
            )
        else:
            is_name = not _BEGINNING.search(plain[: word.start()])
        if is_name or _is_acronym(word[0]):
            names.append(word[0])
        before = word
    return names


def _is_acronym(word: str) -> bool:
    return len(word) > 1 and word.isupper()


def _is_held(stems: frozenset[str], held: set[str]) -> bool:
    if stems & held:
        return True
    return any(
        (len(stem) >= _LEAST_PART and stem in other) or (len(other) >= _LEAST_PART and other in stem)
        for stem in stems
        for other in held
    )


@dataclass(frozen=True)
class _Clause:
    """What decides whether one clause says the same as another."""

    negates: bool
    stems: set[str]
    numbers: set[str]


def _find_contradiction(claim: str, said: Sequence[str], forms: _Forms) -> Fault | None:
    """Compare each clause of a claim with the clauses that together hold its words.

    Returns:
        ``negation`` if the claim denies what one of them says, or the other way round; ``number`` if its number stands
        in another clause, and these have one that the claim has not, as in "adults pay 40, children pay 20".
    """
    clauses = [
        _Clause(forms.negates(clause), forms.list_stems(clause), _list_numbers(clause, forms))
        for text in said
        for clause in _split_clauses(text, forms)
    ]
    stated = _list_numbers(claim, forms)
    for text in _split_clauses(claim, forms):
        clause = _Clause(forms.negates(text), set(), _list_numbers(text, forms))
        wanted = set(forms.list_content(text))
        is_first = True
        while wanted:
            held = [{stems for stems in wanted if _is_held(stems, each.stems)} for each in clauses]
            most = max(map(len, held), default=0)
            like = [(each, found) for each, found in zip(clauses, held, strict=True) if len(found) == most]
            if not most:
                break
            agreeing = [(each, found) for each, found in like if each.negates == clause.negates]
            if not agreeing:
                return "negation"
            if is_first and _has_other_number(clause.numbers, stated, [each.numbers for each, _ in like]):
                return "number"
            wanted -= agreeing[0][1]
            is_first = False
    return None


def _has_other_number(wanted: set[str], stated: set[str], like: Sequence[set[str]]) -> bool:
    return all(numbers - stated for numbers in like) and not any(wanted <= numbers for numbers in like)


def _split_clauses(text: str, forms: _Forms) -> list[str]:
    parts: Iterable[str] = (
        part for pause in _PAUSE.split(_unmark(text)) for part in forms.joining.split(pause)
    )
    return [part for part in parts if part.strip()]
