"""An answer without a model: the quote that answers each part best, word for word, where it probably does.

The models of :mod:`backstory.writing.answers.answer_model` choose it; docs/studies/answers.md has the figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Final

from backstory.base.ids import is_written
from backstory.retrieval.found import Hit
from backstory.text.words import find_terms
from backstory.writing.answers.answer import Citation, Kind, MadeAnswer, Part
from backstory.writing.answers.answer_features import Compare
from backstory.writing.answers.answer_kinds import list_wanted
from backstory.writing.answers.answer_model import AnswerModel, read_answer_model
from backstory.writing.answers.answer_quotes import Quote, find_quotes, quote_alone
from backstory.writing.answers.answer_sentences import AnswerSentence, list_sentences
from backstory.writing.sentences import Sentence as Digested
from backstory.writing.sentences import choose_sentences, weigh_terms

ANSWERS: Final = 0.5
"""A quote is an answer from this probability on: the lowest at which 85 % of the quotes for answerable questions are
right and 85 % of the unanswerable ones are refused, on documents that the models were not fitted on."""
_LEAST_ITEMS: Final = 3
_MOST_NEAREST: Final = 3
_SHORT_FORMS: Final = (
    "summarize summary sum recap overview gist key main points tldr tl dr brief short outline digest post document "
    "report article letter give write main takeaways"
)
_LEAST_ABOUT: Final = 0.6
"""Least share of the words of a question in the document that a summary is asked of."""
_WRITTEN: Final = 0.3
"""What counts against a written post as the document that a summary is asked of."""
_MOST_OF_SUMMARY: Final = 6
_NOT_JUDGED: Final = (
    "no model has judged whether these sentences answer the question: read them where they stand, or name a model in "
    "`answers.provider`"
)


class ExtractiveAnswerer:
    """Chooses quotes; the same passages and question always give the same ones."""

    id = "extractive:3"

    def __init__(self, compare: Compare, stemmer: str, model: AnswerModel | None = None) -> None:
        """Set what compares texts.

        Args:
            compare: Compares a question with texts.
            stemmer: Stemmer of most of the documents.
            model: Chooses quotes; None for the model that ships with the library.
        """
        self._compare = compare
        self._stemmer = stemmer
        self._model = model or read_answer_model()

    def answer(
        self,
        question: str,  # noqa: ARG002 - the parts say all that it asks
        parts: Sequence[str],
        passages: Sequence[Hit],
        *,
        kind: Kind,
    ) -> MadeAnswer:
        """Choose the quotes that answer each part; see :class:`backstory.writing.answers.answer.Answerer`."""
        sentences = list_sentences(passages, self._stemmer)
        if kind == "summarize":
            return self._summarize(parts, sentences)
        found = [find_quotes(part, sentences, self._compare, self._stemmer, self._model) for part in parts]
        chosen = [_choose(quotes, sentences, kind) for quotes in found]
        claims = {
            (each.best.passage.short_id, each.sentences[0].start): each.as_claim()
            for some in chosen
            for each in some
        }
        made = tuple(Part(part, bool(some)) for part, some in zip(parts, chosen, strict=True))
        nearest = _list_nearest([quotes for quotes, some in zip(found, chosen, strict=True) if not some])
        if claims:
            return MadeAnswer(tuple(claims.values()), made, notes=(_NOT_JUDGED,), nearest=nearest)
        return MadeAnswer((), made, "not_in_documents", nearest=nearest)

    def _summarize(self, parts: Sequence[str], sentences: Sequence[AnswerSentence]) -> MadeAnswer:
        """Choose the sentences that say most of the document that the question names, or is about."""
        wanted = list_wanted(" ".join(parts), self._stemmer) - find_terms([_SHORT_FORMS], self._stemmer)
        about: dict[str, list[AnswerSentence]] = {}
        for sentence in sentences:
            about.setdefault(sentence.passage.document_id, []).append(sentence)

        def share(some: Sequence[AnswerSentence]) -> float:
            held = len(wanted & frozenset().union(*(each.told for each in some))) / max(1, len(wanted))
            return held - _WRITTEN * is_written(some[0].passage.uri)

        best = max(about.values(), key=share, default=[])
        if not best or share(best) < _LEAST_ABOUT:
            return MadeAnswer((), tuple(Part(part, is_found=False) for part in parts), "not_in_documents")
        told = [
            Digested(place, 0, each.text, each.own)
            for place, each in enumerate(best)
            if not each.asks and each.own
        ]
        weights = weigh_terms([each.terms for each in told])
        chosen = sorted(choose_sentences(told, weights, _MOST_OF_SUMMARY))
        claims = tuple(quote_alone(best[told[place].place], None).as_claim() for place in chosen)
        return MadeAnswer(claims, tuple(Part(part, is_found=True) for part in parts))


def _choose(quotes: Sequence[Quote], sentences: Sequence[AnswerSentence], kind: Kind) -> list[Quote]:
    """Choose what answers a part: the best quote, or the list around it; nothing where neither probably answers."""
    if not quotes or (quotes[0].probability or 0.0) < ANSWERS:
        return []
    best = quotes[0]
    return (kind == "list" and _list_items(best, sentences)) or [best]


def _list_items(quote: Quote, sentences: Sequence[AnswerSentence]) -> list[Quote]:
    """List all items of the section of a quote, if it holds a list."""
    items = [
        quote_alone(each, quote.probability)
        for each in sentences
        if each.section == quote.best.section and each.is_item
    ]
    return items if len(items) >= _LEAST_ITEMS else []


def _list_nearest(found: Sequence[Sequence[Quote]]) -> tuple[Citation, ...]:
    """List the quotes that come nearest to an answer, one of a document, those of each part in turn."""
    nearest: dict[str, Citation] = {}
    for quote in (each for some in zip_longest(*found) for each in some if each is not None):
        if not quote.best.asks:
            nearest.setdefault(quote.best.passage.document_id, quote.as_citation())
    return tuple(nearest.values())[:_MOST_NEAREST]
