"""The sentences of passages that an answer may quote, each with what stands above and beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from backstory.base.ids import is_written
from backstory.retrieval.found import Hit
from backstory.text.layout import Piece, divide_text
from backstory.text.words import find_terms

_FORMS: Final = ("sentence", "item", "row")
_REFERENCE: Final = re.compile(r"^> |\]\(")
"""A line of a written post that only names other posts."""
_BLANK: Final = re.compile(r"\n\s*\n")
_ENDS: Final = "\"'”’»)*_ "


@dataclass(frozen=True, eq=False)
class AnswerSentence:
    """A sentence, an item of a list or a row of a table in a passage.

    Attributes:
        passage: The passage.
        rank: Rank of the passage, from 0.
        start: First character in the passage.
        end: Character after the last one.
        text: The sentence on one line.
        heading: The nearest heading above it; empty if there is none besides the title.
        section: Number of its section, which goes from one heading to the next.
        paragraph: Number of its paragraph; an item of a list belongs to that of the item before it, a row to none.
        place: Position in its section.
        is_item: Whether it is an item or a row.
        own: Its terms.
        near: Its terms and those of the sentences beside it in its section.
        headed: Terms of the heading.
        told: Terms of the section, of its heading and of the title.
    """

    passage: Hit
    rank: int
    start: int
    end: int
    text: str
    heading: str
    section: int
    paragraph: int
    place: int
    is_item: bool
    own: frozenset[str]
    near: frozenset[str]
    headed: frozenset[str]
    told: frozenset[str]

    @property
    def asks(self) -> bool:
        """Whether it is a question, which answers none."""
        return self.text.rstrip(_ENDS).endswith(("?", "？"))

    @property
    def titled(self) -> str:
        """The sentence after the title and the heading, which say what it speaks of."""
        return ": ".join(filter(None, [self.passage.title, self.heading, self.text]))


@dataclass(frozen=True)
class _Section:
    heading: str
    pieces: list[Piece]


def list_sentences(passages: Sequence[Hit], stemmer: str) -> list[AnswerSentence]:
    """List the sentences, items and rows of passages, each text once.

    Lines that only lead on to what follows, and lines of a written post that only name other posts, are left out.

    Args:
        passages: The passages, best first.
        stemmer: Stemmer of most of the documents.
    """
    found: dict[str, AnswerSentence] = {}
    sections = paragraphs = 0
    for rank, passage in enumerate(passages):
        divided = _divide(passage)
        title = find_terms([passage.title, passage.heading], stemmer)
        for section in divided:
            lines = [" ".join(passage.text[piece.start : piece.end].split()) for piece in section.pieces]
            terms = [frozenset(find_terms([line], stemmer)) for line in lines]
            headed = frozenset(find_terms([section.heading], stemmer))
            told = headed.union(title, *terms)
            for place, (piece, line) in enumerate(zip(section.pieces, lines, strict=True)):
                if _begins_paragraph(passage.text, section.pieces, place):
                    paragraphs += 1
                if _is_left_out(passage, piece, line):
                    continue
                sentence = AnswerSentence(
                    passage=passage,
                    rank=rank,
                    start=piece.start,
                    end=piece.end,
                    text=line,
                    heading=section.heading,
                    section=sections,
                    paragraph=paragraphs,
                    place=place,
                    is_item=piece.form != "sentence",
                    own=terms[place],
                    near=frozenset().union(*terms[max(0, place - 1) : place + 2]),
                    headed=headed,
                    told=told,
                )
                found.setdefault(line, sentence)
            sections += 1
    return list(found.values())


def _divide(passage: Hit) -> list[_Section]:
    """Divide a passage at its headings; the first section stands below the heading of the passage."""
    above = passage.heading.rpartition(" > ")[2].strip()
    sections = [_Section("" if above == passage.title.strip() else above, [])]
    for piece in divide_text(passage.text, passage.title):
        if piece.form == "heading":
            sections.append(_Section(passage.text[piece.start : piece.end].strip("# \n"), []))
        elif piece.form in _FORMS:
            sections[-1].pieces.append(piece)
    return [section for section in sections if section.pieces]


def _begins_paragraph(text: str, pieces: Sequence[Piece], place: int) -> bool:
    if place == 0:
        return True
    before, piece = pieces[place - 1], pieces[place]
    if before.form != piece.form or piece.form == "row":
        return True
    return piece.form == "sentence" and bool(_BLANK.search(text, before.end, piece.start))


def _is_left_out(passage: Hit, piece: Piece, line: str) -> bool:
    leads_on = piece.form != "item" and line.rstrip(_ENDS).endswith((":", "："))
    return leads_on or (is_written(passage.uri) and bool(_REFERENCE.search(line)))
