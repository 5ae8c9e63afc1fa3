"""Text recognised in an image, and the form in which Tesseract writes it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Final, NamedTuple

from backstory.ingest.documents.ocr.page_texts import clean_page

_COLUMNS: Final = 12
_WORD: Final = "5"


@dataclass(frozen=True)
class RecognisedPage:
    """The text of one page.

    Attributes:
        text: The text, blank if there is none.
        confidence: Mean confidence of its words, 0 to 1; None if there are none.
    """

    text: str
    confidence: float | None


class _Word(NamedTuple):
    page: int
    block: int
    paragraph: int
    line: int
    confidence: float
    text: str


def parse_pages(table: str) -> list[RecognisedPage]:
    """Read what Tesseract writes as ``tsv``: a row for each page, block, paragraph, line and word.

    Paragraphs are separated by a blank line. A page without words gives a blank text.
    """
    rows = [
        row for line in table.splitlines() if len(row := line.split("\t")) == _COLUMNS and row[1].isdigit()
    ]
    words = list(_list_words(rows))
    numbers = sorted({int(row[1]) for row in rows})
    return [_compose([word for word in words if word.page == number]) for number in numbers]


def _list_words(rows: list[list[str]]) -> Iterator[_Word]:
    for level, page, block, paragraph, line, *_, confidence, text in rows:
        if level == _WORD and text.strip():
            yield _Word(int(page), int(block), int(paragraph), int(line), float(confidence), text.strip())


def _compose(words: list[_Word]) -> RecognisedPage:
    if not words:
        return RecognisedPage("", None)
    paragraphs = [
        "\n".join(" ".join(word.text for word in line) for _, line in groupby(group, lambda word: word.line))
        for _, group in groupby(words, lambda word: (word.block, word.paragraph))
    ]
    sure = sum(word.confidence for word in words) / len(words) / 100
    return RecognisedPage(clean_page("\n\n".join(paragraphs)), round(min(max(sure, 0.0), 1.0), 3))
