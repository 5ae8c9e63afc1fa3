"""Cutting texts into chunks: whole units, packed up to a hard ceiling of tokens.

Chunks are exact slices of their text. The end of every token of a text is found once, so that the tokens of a slice are
the difference of two numbers. A cut may part a token, and a title may stand before a chunk. So every finished chunk is
counted as it is embedded, and the rare one over the ceiling is cut again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, chain, groupby, islice, repeat
from operator import itemgetter
from typing import Final, NamedTuple

import numpy as np

from backstory.base.errors import InputError
from backstory.base.ids import digest
from backstory.settings.inputs import ChunkerName, ChunkSettings
from backstory.text.chunking.code import CODE_LANGUAGES, outline_code
from backstory.text.chunking.outline import (
    Outline,
    Part,
    outline_markdown,
    outline_pages,
    outline_rows,
    outline_sections,
    outline_sentences,
)
from backstory.text.chunking.units import (
    Offsets,
    Pages,
    Range,
    TokenCounter,
    find_sentence_starts,
    split_graphemes,
    split_sentences,
    split_words,
)

_GROUP_CHARACTERS: Final = 500_000  # bounds memory; smaller groups make no tokenizer slower
_PARTS_OF_LONG_WORD: Final = 8
_TITLE_BYTES: Final = 96
_HEADING_BYTES: Final = 160
_LEAST_TEXT_TOKENS: Final = 8
_NO_ROOM: Final = -1
_HEADING_SEPARATOR: Final = " > "


class Span(NamedTuple):
    """One chunk: characters ``start`` to ``end`` of its text, which begin with the overlap with the previous chunk.

    ``token_count`` counts the tokens of the slice within its text, and the special tokens around it. ``heading`` holds
    the headings above ``start`` that are embedded with the chunk, outermost first, as ``"A > B"``.
    """

    start: int
    end: int
    token_count: int
    heading: str


_OUTLINES: Final[dict[ChunkerName, Callable[[str], Outline]]] = {
    "markdown": outline_sections,
    "page": outline_sections,
    "sentence": outline_sentences,
    "character": outline_markdown,
    "rows": outline_rows,
    **{language: partial(outline_code, language=language) for language in CODE_LANGUAGES},
}


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


def choose_chunker(name: ChunkerName, settings: ChunkSettings, *, max_tokens: int) -> Chunker:
    """Make a chunker of its name, for an embedder that takes ``max_tokens``."""
    wanted, repeated = settings.max_tokens, settings.overlap_tokens
    if name in ("sentence", "rows"):  # of few rows in a chunk each is found much better than of many
        wanted, repeated = settings.sentence_max_tokens, settings.sentence_overlap_tokens
    if name == "rows" or name in CODE_LANGUAGES:
        repeated = 0
    ceiling = min(wanted, max_tokens)
    overlap = min(repeated, ceiling - 1)
    characters = (settings.max_characters, settings.overlap_characters) if name == "character" else None
    return Chunker(name, ceiling, overlap, characters)


@dataclass(frozen=True)
class TitledText:
    """A text to cut, with its pages.

    Errors call it by its ``name``. The ``title`` and the headings are embedded with every chunk; neither is if the
    title is None.
    """

    name: str
    title: str | None
    text: str
    pages: Pages
    chunker: Chunker


class _Draft(NamedTuple):
    """A chunk that is not counted yet; ``body`` is its first character that the previous chunk does not hold."""

    start: int
    body: int
    end: int


def cut_chunks(
    texts: Sequence[str], *, max_tokens: int, overlap_tokens: int, counter: TokenCounter
) -> list[list[Span]]:
    """Cut many Markdown or plain texts without titles into chunks at once, each by its paragraphs.

    It raises ``InputError`` if the limits contradict each other, or a single character is over the ceiling.
    """
    if max_tokens < 1 or overlap_tokens < 0:
        limits = f"max_tokens is {max_tokens} and overlap_tokens {overlap_tokens}"
        raise InputError(f"{limits}; give at least 1 and 0", code="out_of_range")
    chunker = Chunker("character", max_tokens, overlap_tokens)
    return cut_titled_texts([TitledText("", None, text, Pages(), chunker) for text in texts], counter)


def cut_titled_texts(texts: Sequence[TitledText], counter: TokenCounter) -> list[list[Span]]:
    """Cut every text with room for its title and the longest of its headings.

    Units, such as paragraphs, stay whole if they fit. One over the ceiling is cut at sentences and lines, then at
    words, then between grapheme clusters. A chunk repeats the last whole units of the previous chunk, else its last
    sentences, else its last words, but never the whole chunk. Together the chunks of a text contain everything but
    whitespace between units. Titles and headings that would take half of the ceiling lose the headings, and those that
    leave no room for text are an ``InputError``.
    """
    sizes = accumulate(len(text.text) for text in texts)
    spans: list[list[Span]] = []
    for _, group in groupby(zip(sizes, texts, strict=True), key=lambda pair: pair[0] // _GROUP_CHARACTERS):
        cutters = list(_plan([text for _, text in group], counter))
        pending = [(cutter, draft) for cutter in cutters for draft in cutter.begin()]
        while pending:
            counts = counter.count_tokens([cutter.embed(draft) for cutter, draft in pending])
            over: list[tuple[_Cutter, _Draft]] = []
            for (cutter, draft), count in zip(pending, counts.tolist(), strict=True):
                if count > cutter.source.chunker.max_tokens:
                    over += ((cutter, half) for half in cutter.halve(draft))
                else:
                    cutter.finished.append(draft)
            pending = over
        spans += [cutter.list_spans() for cutter in cutters]
    return spans


def introduce(title: str, heading: str, text: str) -> str:
    """Write what is embedded before a chunk: its title, its headings and an empty line.

    A heading that repeats the title is omitted. The last heading is omitted if the text begins with it.
    """
    folded = " ".join(title.split())
    headings = heading.split(_HEADING_SEPARATOR)
    if headings[0] == folded:
        headings = headings[1:]
    if headings[-1:] == [text.lstrip("# ").split("\n", 1)[0].rstrip("# \r")]:
        headings = headings[:-1]
    name = _shorten(folded, _TITLE_BYTES, " ")
    lines = [line for line in (name, _HEADING_SEPARATOR.join(headings)) if line]
    return "\n".join(lines) + "\n\n" if lines else ""


def _plan(texts: Sequence[TitledText], counter: TokenCounter) -> Iterator[_Cutter]:
    """Outline texts, and find how many tokens their titles and headings leave."""
    outlines = [_outline(text) for text in texts]
    introductions = [
        [introduce(text.title or "", heading, "") for heading in ("", *sorted({*outline.headings}))]
        for text, outline in zip(texts, outlines, strict=True)
    ]
    around, *counts = counter.count_tokens(["", *chain.from_iterable(introductions)]).tolist()
    counted = iter(counts)
    found = counter.find_token_ends([text.text for text in texts])
    for text, outline, written, ends in zip(texts, outlines, introductions, found, strict=True):
        title, *headings = islice(counted, len(written))
        ceiling = text.chunker.max_tokens
        longest = max([title, *headings])
        has_headings = longest <= ceiling // 2
        room = ceiling - (longest if has_headings else title)
        if text.title is not None and room + around < _LEAST_TEXT_TOKENS:
            raise InputError(
                f"document {text.name} ({_shorten(text.title, _TITLE_BYTES, ' ')!r}): a chunk of {ceiling} tokens that "
                f"begins with the title has room for {max(room + around, 0)} tokens of text; raise chunks.max_tokens, "
                "or shorten the title",
                code="no_room",
            )
        kept = outline if has_headings else Outline(outline.units, outline.parts)
        yield _Cutter(text, kept, ends, room, text.chunker.overlap_tokens - around)


def _outline(text: TitledText) -> Outline:
    """Outline a text, with headings that are short enough to be embedded."""
    outline_text = _OUTLINES[text.chunker.name]
    if text.chunker.name in ("page", "rows"):
        outline_text = partial(
            outline_pages, pages=text.pages.split(len(text.text)), outline_page=outline_text
        )
    outline = outline_text(text.text)
    if text.title is None:
        return Outline(outline.units, outline.parts)
    if text.chunker.name == "rows":  # the names of columns lose their use when they are shortened
        return outline
    short = {each: _shorten(each, _HEADING_BYTES, _HEADING_SEPARATOR) for each in {*outline.headings}}
    return replace(outline, headings=[short[heading] for heading in outline.headings])


def _shorten(text: str, limit: int, separator: str) -> str:
    """Truncate to a number of UTF-8 bytes, of which few tokenizers make more tokens, after a separator if one fits."""
    encoded = text.encode("utf-8", "surrogatepass")
    if len(encoded) <= limit:
        return text
    fitting = encoded[:limit].decode("utf-8", "ignore")
    return fitting.rpartition(separator)[0] or fitting


@dataclass
class _Cutter:
    """Cuts a text into slices of at most ``room`` tokens that repeat at most ``overlap`` tokens."""

    source: TitledText
    outline: Outline
    ends: Offsets
    room: int
    overlap: int
    finished: list[_Draft] = field(default_factory=list)

    def begin(self) -> Iterator[_Draft]:
        """Cut the text by its tokens, or by its characters."""
        if self.source.chunker.characters is None:
            return self._pack(self.outline.parts, self.ends, self.room, self.overlap)
        by_character = np.arange(1, len(self.source.text) + 1)
        return self._pack(self.outline.parts, by_character, *self.source.chunker.characters)

    def embed(self, draft: _Draft) -> str:
        """Write a chunk as it is embedded."""
        text = self.source.text[draft.start : draft.end]
        return introduce(self.source.title or "", self.outline.heading_at(draft.start), text) + text

    def halve(self, draft: _Draft) -> Iterator[_Draft]:
        """Cut a chunk that is over the ceiling again, into chunks of at most half of its tokens that repeat nothing."""
        room = self._count(draft.start, draft.end) // 2 or _NO_ROOM
        return self._pack([Part(draft.body, draft.end)], self.ends, room, 0)

    def list_spans(self) -> list[Span]:
        """List the chunks in order; one that would hold all of a chunk that was cut again repeats nothing."""
        spans: list[Span] = []
        special = bisect_right(self.ends.data, 0)
        for start, body, end in sorted(self.finished, key=itemgetter(-1)):
            begin = body if spans and start <= spans[-1].start else start
            tokens = special + self._count(begin, end)
            spans.append(Span(begin, end, tokens, self.outline.heading_at(begin)))
        return spans

    def _count(self, start: int, end: int) -> int:
        return bisect_right(self.ends.data, end) - bisect_right(self.ends.data, start)

    def _pack(self, parts: Iterable[Part], ends: Offsets, room: int, overlap: int) -> Iterator[_Draft]:
        """Pack the units of each part into chunks of at most ``room`` tokens, of which some repeat the previous one."""
        text = self.source.text
        overlap = max(0, min(overlap, room // 2))
        for part in _divide_parts(parts, ends, room):
            units, before, after = _divide_units(text, self.outline.list_units(text, part), ends, room)
            starts = [start for start, _ in units]
            first, previous = 0, None
            while first < len(units):
                budget = room if previous is None else room - overlap
                last = max(first, bisect_right(after, before[first] + budget, first) - 1)
                start = starts[first]
                if previous is not None and overlap:
                    least = max(after[first - 1] - overlap, after[last] - room)
                    earliest = max(int(ends[least - 1]) if least else 0, starts[previous] + 1)
                    start = _reach_back(text, starts, earliest, first, units[first - 1][1])
                yield _Draft(start, starts[first], units[last][1])
                first, previous = last + 1, first


def _reach_back(text: str, starts: Sequence[int], earliest: int, first: int, end: int) -> int:
    """Choose where a chunk begins: at a unit, else a sentence, else a word, not before ``earliest``."""
    unit = bisect_left(starts, earliest, 0, first)
    if unit < first:
        return starts[unit]
    sentences = (place for place in find_sentence_starts(text, earliest, end) if place < end)
    words = (place for place, _ in split_words(text, earliest, end) if text[place - 1].isspace())
    return next(chain(sentences, words), starts[first])


def _divide_parts(parts: Iterable[Part], ends: Offsets, room: int) -> Iterator[Part]:
    """List the parts that fit, and the parts of those that do not."""
    for part in parts:
        if part.parts and bisect_right(ends.data, part.end) - bisect_right(ends.data, part.start) > room:
            yield from _divide_parts(part.parts, ends, room)
        else:
            yield part


def _divide_units(
    text: str, units: list[Range], ends: Offsets, room: int
) -> tuple[list[Range], list[int], list[int]]:
    """Divide units over the room into sentences, sentences over it into words, and words into grapheme clusters.

    It returns the units, and the tokens before the start and before the end of each.
    """
    for split in chain([split_sentences, split_words], repeat(None)):
        before, after = ends.searchsorted(np.array(units, np.int64).reshape(-1, 2), "right").T
        tokens = (after - before).tolist()
        if max(tokens, default=0) <= room:
            break
        divided: list[Range] = []
        for unit, count in zip(units, tokens, strict=True):
            if count <= room:
                divided.append(unit)
            else:
                divided += split(text, *unit) if split else _split_word(text, *unit, count, room)
        units = divided
    return units, before.tolist(), after.tolist()


def _split_word(text: str, start: int, end: int, tokens: int, room: int) -> list[Range]:
    if end - start == 1 or room < 1:
        raise InputError(
            f"the text {text[start:end]!r} alone has {tokens} tokens, over the {max(room, 0)} that a chunk has room "
            "for; raise max_tokens",
            code="no_room",
        )
    ranges = split_graphemes(text, start, end, max(2, -(-_PARTS_OF_LONG_WORD * tokens // room)))
    middle = (start + end) // 2
    return ranges if len(ranges) > 1 else [(start, middle), (middle, end)]
