"""The summarizer without a model: the sentences of a section that cover it best, word for word."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from backstory.retrieval.selection.strategies import cover_evidence
from backstory.text.languages import detect_language
from backstory.text.layout import Form, divide_text
from backstory.text.words import Words
from backstory.writing.sentences import choose_words, weigh_terms
from backstory.writing.summaries.request import SectionRequest, Source, Style, UnwrittenError
from backstory.writing.summaries.sections import count_words

_ITEM: Final = re.compile(r"(?:[-+*•]|\d{1,9}[.)])\s+")
_FORMS: Final[tuple[tuple[Form, ...], ...]] = (
    ("sentence", "item"),
    ("row", "code"),
    ("table_head", "heading"),
)
"""What is chosen from: the later forms only in a section without the earlier ones."""
_FEWEST_WORDS: Final = 4
"""A shorter sentence says little without those around it."""
_LEADING_ON: Final = (":", ";", ",", "：", "；", "，", "、")
_WHOLE_WORDS: Final = 20
"""A shorter sentence counts less as something that is to be covered."""
_MOST_SENTENCES: Final = 800
"""Sentences that are compared with one another; a longer section is covered stretch by stretch."""
_LANGUAGE_CHARACTERS: Final = 4000
_DIGITS: Final = 6


@dataclass(frozen=True)
class _Sentence:
    """A sentence on one line; ``start`` is its first character in the document."""

    start: int
    text: str
    words: int


class ExtractiveSummarizer:
    """Chooses sentences by the words that they share with all others; the same section always gives the same ones."""

    id = "extractive:1"
    threads = 1
    combines = False

    def summarize(self, request: SectionRequest) -> str:
        """Choose the sentences of a section, of its fresh part only, so that no two sections give the same ones.

        Args:
            request: The section.

        Returns:
            A list for ``bullets``, else paragraphs as the document has them. Each sentence ends with its page.

        Raises:
            UnwrittenError: The section holds no words.
        """
        sentences = _list_sentences(request)
        if not sentences:
            raise UnwrittenError("it holds no words")
        words = _find_words(request.source.text[:_LANGUAGE_CHARACTERS])
        chosen = _choose(sentences, words, request.most_words)
        return _write(chosen, request)

    def combine(self, source: Source, style: Style, summaries: Sequence[str], most_words: int) -> str:  # noqa: ARG002
        """Put summaries one after the other: chosen sentences are not chosen from once more."""
        return ("\n" if style == "bullets" else "\n\n").join(summaries)


@lru_cache(maxsize=8)
def _find_words(beginning: str) -> Words:
    """Return the splitter of a document's language, by its beginning."""
    return choose_words(detect_language([beginning]))


def _list_sentences(request: SectionRequest) -> list[_Sentence]:
    section, text = request.section, request.source.text
    pieces = divide_text(text[section.fresh : section.end], request.source.title)
    for forms in _FORMS:
        found = [piece for piece in pieces if piece.form in forms]
        # Half a sentence is chosen only where there is no whole one.
        whole = [
            piece
            for before, piece in zip([None, *found], found, strict=False)
            if not piece.goes_on and not (before and before.goes_on)
        ]
        sentences: dict[str, _Sentence] = {}
        for piece in whole or found:
            line = " ".join(text[section.fresh + piece.start : section.fresh + piece.end].split())
            line = line[marker.end() :] if (marker := _ITEM.match(line)) else line
            sentences.setdefault(line, _Sentence(section.fresh + piece.start, line, count_words(line)))
        listed = list(sentences.values())
        if listed:
            return [each for each in listed if _stands_alone(each)] or listed
    return []


def _stands_alone(sentence: _Sentence) -> bool:
    """Return whether a sentence is not very short, and does not end by leading on to the next one."""
    return sentence.words >= _FEWEST_WORDS and not sentence.text.endswith(_LEADING_ON)


def _choose(sentences: Sequence[_Sentence], words: Words, most_words: int) -> list[_Sentence]:
    """Choose sentences of at most so many words together, in the order of the document."""
    stretches = -(-len(sentences) // _MOST_SENTENCES)
    chosen: list[_Sentence] = []
    left = most_words % stretches
    for stretch in np.array_split(np.arange(len(sentences)), stretches):
        left += most_words // stretches
        for sentence in _rank([sentences[place] for place in stretch.tolist()], words, left):
            if sentence.words <= left:
                chosen.append(sentence)
                left -= sentence.words
    if not chosen:  # every sentence is longer than the summary may be
        shortest = min(sentences, key=lambda sentence: sentence.words)
        chosen = [_Sentence(shortest.start, _cut(shortest.text, most_words), most_words)]
    return sorted(chosen, key=lambda sentence: sentence.start)


def _rank(sentences: Sequence[_Sentence], words: Words, most_words: int) -> list[_Sentence]:
    """List sentences of at most so many words in such an order that the first ones cover all sentences best."""
    fitting = [place for place, sentence in enumerate(sentences) if sentence.words <= most_words]
    if not fitting:
        return []
    vectors = _weigh(sentences, words)
    # Rounded, since the last digits of a product depend on the machine.
    evidence = np.round(vectors @ vectors[fitting].T, _DIGITS)
    evidence *= np.minimum([each.words / _WHOLE_WORDS for each in sentences], 1.0)[:, None]
    # About twice as many as fit into the summary, since long ones among them are passed over.
    usual = int(np.median([sentences[place].words for place in fitting]))
    count = min(len(fitting), 2 * most_words // usual + 1)
    return [sentences[fitting[place]] for place in cover_evidence(evidence, count).tolist()]


def _weigh(sentences: Sequence[_Sentence], words: Words) -> NDArray[np.float64]:
    """Return the unit vectors of sentences over their terms, weighed by rarity; shape ``(sentences, terms)``."""
    counts = [Counter(words.split(sentence.text)) for sentence in sentences]
    weights = weigh_terms(counts)
    columns = {term: column for column, term in enumerate(sorted(weights))}
    vectors = np.zeros((len(sentences), len(columns)))
    for row, row_counts in enumerate(counts):
        for term, count in row_counts.items():
            vectors[row, columns[term]] = count * weights[term]
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: NDArray[np.float64] = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    return unit


def _cut(text: str, most_words: int) -> str:
    """Return the beginning of a text of at most so many words, and an ellipsis."""

    def fits(end: int) -> bool:
        return count_words(f"{text[:end].rstrip()}…") <= most_words

    least, most = 0, len(text)
    while least < most:  # the longest beginning
        middle = (least + most + 1) // 2
        least, most = (middle, most) if fits(middle) else (least, middle - 1)
    return f"{text[:least].rstrip()}…"


def _write(chosen: Sequence[_Sentence], request: SectionRequest) -> str:
    source = request.source
    lines = []
    for sentence in chosen:
        page = source.pages.find(sentence.start, sentence.start + 1)
        lines.append(f"{sentence.text} (p. {page[0]})" if page else sentence.text)
    if request.style == "bullets":
        return "\n".join(f"- {line}" for line in lines)
    if request.style == "brief":
        return " ".join(lines)
    written = lines[0]
    for before, sentence, line in zip(chosen, chosen[1:], lines[1:], strict=False):
        # Where the document begins a paragraph between two sentences, the summary does, too.
        breaks = "\n\n" in source.text[before.start : sentence.start]
        written += f"{chr(10) * 2 if breaks else ' '}{line}"
    return written
