"""The check of every citation of an answer: the passage was shown, it holds the quote, and the quote says the claim."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from backstory.retrieval.found import Hit
from backstory.text.chunking.units import join_wrapped, split_sentences
from backstory.text.languages import detect_language
from backstory.writing.answers.answer import Citation, Claim
from backstory.writing.answers.quotes import Place, find_quote
from backstory.writing.answers.support import Evidence, Fault, find_fault

CitationFault: TypeAlias = Literal["no_citation", "not_shown", "no_quote"] | Fault
"""Why a claim is not supported: it cites nothing, a passage that was not shown, words that no cited passage holds, or
words that do not say it."""

JudgeClaims: TypeAlias = Callable[[Sequence[tuple[str, Sequence[Evidence]]]], Sequence[bool]]
"""Tells of claims, each with what it cites, whether that says it in other words."""


@dataclass(frozen=True)
class StatedCitation:
    """What a model cites.

    Attributes:
        id: The short id of a passage.
        quote: Words that it says to stand there.
    """

    id: str
    quote: str


@dataclass(frozen=True)
class StatedClaim:
    """A claim as a model states it.

    Attributes:
        text: The claim, Markdown.
        citations: What it cites.
        parts: Numbers, from 1, of the parts of the question that it answers.
    """

    text: str
    citations: tuple[StatedCitation, ...]
    parts: tuple[int, ...] = ()


@dataclass(frozen=True)
class CheckedClaim:
    """A claim after the check.

    Attributes:
        claim: The claim, with those of its citations whose passage was shown and holds the quote.
        parts: Numbers, from 1, of the parts of the question that it answers.
        fault: Why it is not supported; None if it is.
    """

    claim: Claim
    parts: tuple[int, ...]
    fault: CitationFault | None


@dataclass(frozen=True)
class _Quoted:
    """A quote that stands in its passage, and what the passage says there."""

    citation: Citation
    evidence: Evidence


def check_claims(
    stated: Sequence[StatedClaim], passages: Sequence[Hit], judge: JudgeClaims | None = None
) -> list[CheckedClaim]:
    """Check the claims of an answer.

    A citation counts if the passage was shown and holds the quote, :func:`backstory.writing.answers.quotes.find_quote`;
    the words of the passage then take the place of the quote. A claim is supported if what its quotes say, whole
    sentences, says it, :func:`backstory.writing.answers.support.find_fault`: one of them alone, or all together. One
    that lacks nothing but the words of its quotes is supported if a judge says so.

    Args:
        stated: The claims.
        passages: All passages that were shown.
        judge: Judges claims in other words than their quotes; None to take them for unsupported.

    Returns:
        One per claim, in their order.
    """
    shown = {passage.short_id: passage for passage in passages}
    cited = [shown[each.id] for claim in stated for each in claim.citations if each.id in shown]
    languages = _detect_languages(cited)
    checked = [_check(claim, shown, languages) for claim in stated]
    if judge is not None:
        open_ones = [place for place, (_, evidence) in enumerate(checked) if evidence]
        said = judge([(stated[place].text, checked[place][1]) for place in open_ones])
        for place, is_said in zip(open_ones, said, strict=True):
            if is_said:
                claim = checked[place][0]
                supported = claim.claim.model_copy(update={"supported": True})
                checked[place] = replace(claim, claim=supported, fault=None), ()
    return [claim for claim, _ in checked]


def _check(
    claim: StatedClaim, shown: Mapping[str, Hit], languages: Mapping[str, str | None]
) -> tuple[CheckedClaim, tuple[Evidence, ...]]:
    """Check a claim.

    Returns:
        The claim; and what it cites, if it lacks nothing but the words of that.
    """
    quoted: list[_Quoted] = []
    for cited in claim.citations:
        passage = shown.get(cited.id)
        if passage is not None:
            quoted += _find_quoted(claim.text, cited.quote, passage, languages[passage.short_id])
    fault: CitationFault | None
    if not claim.citations:
        fault = "no_citation"
    elif not any(cited.id in shown for cited in claim.citations):
        fault = "not_shown"
    elif not quoted:
        fault = "no_quote"
    else:
        alone = [each for each in quoted if find_fault(claim.text, [each.evidence]) is None]
        fault = None if alone else find_fault(claim.text, [each.evidence for each in quoted])
        quoted = alone or quoted
    citations = tuple(dict.fromkeys(each.citation for each in quoted))
    checked = CheckedClaim(
        Claim(text=claim.text, citations=citations, supported=fault is None), claim.parts, fault
    )
    evidence = tuple(each.evidence for each in quoted)
    lacks_words = fault == "words" and find_fault(claim.text, evidence, in_other_words=True) is None
    return checked, evidence if lacks_words else ()


def _find_quoted(claim: str, quote: str, passage: Hit, language: str | None) -> list[_Quoted]:
    """Find a quote in its passage: of several places the first that says the claim, else the first."""
    found = [_describe(place, passage, language) for place in find_quote(quote, passage.text)]
    return [each for each in found if find_fault(claim, [each.evidence]) is None][:1] or found[:1]


def _describe(place: Place, passage: Hit, language: str | None) -> _Quoted:
    text = passage.text
    title = "\n".join(part for part in (passage.title, passage.heading) if part)
    sentences = join_wrapped(text, split_sentences(text, 0, len(text)))
    said = [text[start:end] for start, end in sentences if start < place.end and end > place.start]
    return _Quoted(
        Citation.quoting(passage, place.start, place.end),
        Evidence("\n".join(said), text, title, language),
    )


def _detect_languages(passages: Sequence[Hit]) -> dict[str, str | None]:
    """Detect the language of each passage; that of all of them where one is too short to tell."""
    texts = {passage.short_id: passage.text for passage in passages}
    main = detect_language(list(texts.values())) if texts else None
    return {short_id: detect_language([text]) or main for short_id, text in texts.items()}
