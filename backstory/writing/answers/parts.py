"""The parts of a question that asks several things at once: each is searched, and answered or named as not found."""

from __future__ import annotations

import re
from typing import Final

from backstory.text.small_talk import find_small_talk
from backstory.text.words import list_content_words
from backstory.writing.answers.answer import Kind, Turn
from backstory.writing.answers.followups import complete_question

_MOST: Final = 6
_MOST_BARE: Final = 3
"""Content words of a second thing that is named in short, beside a first one with more of them."""
_CARRIED: Final = 4
_SENTENCE: Final = re.compile(r"(?<=[?？])\s+")
_ASKING: Final = (
    r"(?:whats?|which|who|whose|whom|when|where|why|how|did|does|do|is|are|was|were|can|could|"
    r"was|wer|wann|wo|warum|wie|welche[rsn]?|"
    r"que|qui|quand|ou|comment|combien|pourquoi|quel(?:le)?s?|"
    r"qué|quién|cuándo|dónde|cómo|cuánt[oa]s?|cuál(?:es)?|"
    r"chi|quando|dove|come|quant[oiae]|quale|quali|cosa|perché|"
    r"quem|onde|qual|quais|quant[oa]s?|"
    r"что|кто|когда|где|как|сколько|какой|какая|какие|почему)"
)
_AND: Final = r"(?:and|und|et|y|e|и|а также|ve|&)"
_OR: Final = r"(?:or|oder|ou|o|или|veya)"
_JOINED: Final = re.compile(
    rf"\s*[,;]\s*{_AND}\s+(?={_ASKING}\b)|\s+{_AND}\s+(?={_ASKING}\b)|\s*[,;]\s*(?={_ASKING}\b)",
    re.IGNORECASE,
)
_COMPARED: Final = (
    re.compile(r"^(?P<a>.+?)\s+(?:vs\.?|versus)\s+(?P<b>[^,:?]+)(?P<rest>[,:?].*)?$", re.IGNORECASE),
    re.compile(
        r"^(?P<head>.*?)\b(?:between|zwischen|entre|tra|fra|между)\s+(?P<a>.+?)\s+"
        rf"{_AND}\s+(?P<b>.+?)(?P<rest>[,?].*)?$",
        re.IGNORECASE,
    ),
    re.compile(
        rf"^(?:compare|contrast|vergleiche?|compara|confronta|сравни)\s+(?P<a>.+?)\s+(?:{_AND}|with|to|mit|avec|con|com|с)"
        r"\s+(?P<b>.+?)(?P<rest>[,?].*)?$",
        re.IGNORECASE,
    ),
    *(
        re.compile(rf"^{pattern}\s*(?P<b>.+?)(?P<rest>[,?].*)?$", re.IGNORECASE)
        for pattern in (
            r"how\s+(?:do|does|did)\s+(?P<a>.+?)\s+(?:compare|differ)\s+(?:with|to|from|against)\b",
            r"(?:is|are|was|were|ist|sind|war|waren)\s+(?P<a>.+?)\s+(?:worse|\w+er|(?:more|less)\s+\w+)\s+(?:than|als)\b",
            r"(?:wie|worin)\s+unterscheide[nt]\s+sich\s+(?P<a>.+?)\s+(?:von|vom|und)\b",
            r"en\s+quoi\s+(?P<a>.+?)\s+diff[èe]re(?:nt)?(?:-t-(?:ils?|elles?))?\s+(?:de|du|des|d['’])",
            r"en\s+qué\s+se\s+(?:diferencia|distingue)n?\s+(?P<a>.+?)\s+(?:del?|y)\b",
            r"in\s+(?:che\s+)?cosa\s+differisc(?:e|ono)\s+(?P<a>.+?)\s+(?:dal?|dall[aeo']|dai|e)\b",
            r"em\s+que\s+diferem?\s+(?P<a>.+?)\s+(?:d[aeo]s?|e)\b",
            r"чем\s+(?P<a>.+?)\s+отлича[ею]тся\s+от\b",
        )
    ),
    re.compile(
        r"^(?P<a>.+?)\s+ile\s+(?P<b>.+?)(?P<rest>)\s+(?:karşılaştır|aras[ıi]ndaki)\w*.*$", re.IGNORECASE
    ),
    re.compile(
        rf"^(?P<rest>{_ASKING}\b[^,:?]*)[,:]\s+(?P<a>[^,?]+?)\s+{_OR}\s+(?P<b>[^,?]+)\??$", re.IGNORECASE
    ),
    re.compile(rf"^(?P<a>[^,?]+?)\s+{_OR}\s+(?P<b>[^,:?]+)(?P<rest>[,:?]\s*{_ASKING}\b.*)$", re.IGNORECASE),
)
_NUMBERED: Final = re.compile(r"^\D*\d+\s+(\D+)$")
_ENDS: Final = " \t\n?!.,;:"


def split_question(question: str, kind: Kind, stemmer: str) -> tuple[str, ...]:
    """Split a question into the things that it asks.

    Args:
        question: The question, self-contained.
        kind: Its class; only a comparison is split at what it compares.
        stemmer: Stemmer of most of the documents.

    Returns:
        The parts, at least one and at most six.
    """
    text = " ".join(question.split())
    if kind == "compare":
        for form in _COMPARED:
            if found := form.match(text.lstrip("¿¡ ")):
                return _compare(found, stemmer)
    parts = [part.strip(_ENDS) for sentence in _SENTENCE.split(text) for part in _JOINED.split(sentence)]
    is_talk = find_small_talk(parts)
    with_words = [
        part
        for part, is_small in zip(parts, is_talk, strict=True)
        if not is_small and list_content_words(part, stemmer)
    ]
    if len(with_words) < 2:
        return (text,)
    first = Turn(with_words[0], "")
    return tuple(
        (_is_bare(part, stemmer) and complete_question(part, [first], stemmer)) or part
        for part in with_words[:_MOST]
    )


def _is_bare(part: str, stemmer: str) -> bool:
    """Return whether a part has hardly a word of its own, as "how big is it"."""
    return len(list_content_words(part, stemmer)) <= 1


def _compare(found: re.Match[str], stemmer: str) -> tuple[str, ...]:
    """Give each of two compared things what is asked of both."""
    groups = found.groupdict(default="")
    rest = groups["rest"].strip(_ENDS)
    first, second = groups["a"].strip(_ENDS), groups["b"].strip(_ENDS)
    # "tomatoes 2024 vs 2025" compares tomatoes in both years, and so does "the 2024 and the 2025 tomatoes".
    if first[-1:].isdigit() and (named := _NUMBERED.search(second)):
        first = f"{first} {named[1]}"
    *shared, _ = first.split()
    is_bare = len(second.split()) == 1 and bool(shared) and second[0].isdigit()
    head = list_content_words(first, stemmer)
    if is_bare:
        second = f"{' '.join(shared)} {second}"
    elif len(head) > _MOST_BARE >= len(list_content_words(second, stemmer)):
        second = f"{' '.join(head[:_CARRIED])} {second}"
    return tuple(f"{each} {rest}".strip() for each in (first, second))
