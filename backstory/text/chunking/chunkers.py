"""The chunkers by name: what each keeps whole and apart, its sizes, and what stands as heading above its chunks.

The ceiling of the embedder holds for every chunker.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from statistics import median
from typing import Final

from backstory.base.ids import digest
from backstory.settings.inputs import ChunkerName, ChunkSettings
from backstory.text.chunking.code import CODE_LANGUAGES, outline_code
from backstory.text.chunking.outline import Outline, Part, outline_markdown
from backstory.text.chunking.units import Range, join_wrapped, split_sentences

_LEAST_SECTIONS: Final = 4
_LONGEST_MEDIAN: Final = 200
"""Characters of a section with its heading. The sections of an article are longer, and build on each other. At 400, the
releases of rustblog are cut, too, which costs .037 of its ncov@5."""


@dataclass(frozen=True)
class Chunker:
    """A chunker with its sizes: the ceiling of its chunks, title and headings included, and what they may repeat.

    ``characters`` are the most characters of a chunk and of what it repeats, if they say where to cut.
    """

    name: ChunkerName
    max_tokens: int
    overlap_tokens: int
    characters: tuple[int, int] | None = None

    @property
    def fingerprint(self) -> str:
        """Hash of everything that decides its chunks besides texts and tokenizer."""
        sizes = (self.max_tokens, self.overlap_tokens, *(self.characters or ()))
        return digest([self.name, *map(str, sizes)])

    def outline(self, text: str, pages: Sequence[Range]) -> Outline:
        """Find what it keeps whole and apart in a text, and the headings."""
        outline = _OUTLINES[self.name]
        return _outline_pages(text, pages, outline) if self.name in ("page", "rows") else outline(text)


def choose_chunker(name: ChunkerName, settings: ChunkSettings, *, max_tokens: int) -> Chunker:
    """Make a chunker of its name."""
    wanted, repeated = settings.max_tokens, settings.overlap_tokens
    if name in ("sentence", "rows"):  # of few rows in a chunk each is found much better than of many
        wanted, repeated = settings.sentence_max_tokens, settings.sentence_overlap_tokens
    if name == "rows" or name in CODE_LANGUAGES:
        repeated = 0
    ceiling = min(wanted, max_tokens)
    overlap = min(repeated, ceiling - 1)
    characters = (settings.max_characters, settings.overlap_characters) if name == "character" else None
    return Chunker(name, ceiling, overlap, characters)


def _outline_sentences(text: str) -> Outline:
    """Find the sentences, list items and headings of a text; a sentence that goes on in the next line is one."""
    outline = outline_markdown(text)
    ranges: list[Range] = []
    for unit in outline.units:
        ranges += join_wrapped(text, split_sentences(text, *unit))
    return replace(outline, units=ranges)


def _outline_sections(text: str) -> Outline:
    """Find the paragraphs of a text, and keep the sections of a list of short answers apart.

    Several answers in one chunk average away in its vector, and the words of the others dilute its keywords.
    """
    outline = outline_markdown(text)
    if len(outline.heading_starts) < _LEAST_SECTIONS:
        return outline
    bounds = [0]
    has_body = bool(text[: outline.heading_starts[0]].strip())
    for start, end in pairwise([*outline.heading_starts, len(text)]):
        # A heading without a text of its own stands above the next section.
        if has_body:
            bounds.append(start)
        has_body = "\n" in text[start:end].strip()
    sections = [Part(start, end) for start, end in pairwise([*bounds, len(text)])]
    sizes = [section.end - section.start for section in sections]
    is_list = len(sizes) >= _LEAST_SECTIONS and median(sizes) <= _LONGEST_MEDIAN
    return replace(outline, parts=sections) if is_list else outline


def _outline_pages(text: str, pages: Sequence[Range], outline_page: Callable[[str], Outline]) -> Outline:
    """Outline each page by itself, so that no chunk holds text of two."""
    units: list[Range] = []
    parts: list[Part] = []
    places: list[int] = []
    headings: list[str] = []
    for start, end in pages:
        page = outline_page(text[start:end])
        units += [(start + first, start + last) for first, last in page.units]
        parts += [Part(start + part.start, start + part.end) for part in page.parts]
        places += [start, *(start + place for place in page.heading_starts)]
        headings += ["", *page.headings]
    return Outline(units, parts, places, headings)


def _outline_rows(text: str) -> Outline:
    """Find the rows of a table, which are its lines that are not blank; the first line stands above them all."""
    rows = [match.span() for match in re.finditer(r"(?m)^.*\S.*$", text)]
    return Outline(rows, [Part(0, len(text))], [0], [text.partition("\n")[0].strip()])


_OUTLINES: Final[dict[ChunkerName, Callable[[str], Outline]]] = {
    "markdown": _outline_sections,
    "page": _outline_sections,
    "sentence": _outline_sentences,
    "character": outline_markdown,
    "rows": _outline_rows,
    **{language: partial(outline_code, language=language) for language in CODE_LANGUAGES},
}
