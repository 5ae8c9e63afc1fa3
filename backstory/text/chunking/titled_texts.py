"""Cutting titled texts so that each chunk fits into the embedder together with its title and headings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from backstory.base.errors import InputError
from backstory.base.ids import digest
from backstory.text.chunking.chunkers import Chunker
from backstory.text.chunking.cut import Span
from backstory.text.chunking.pages import Pages
from backstory.text.chunking.tokens import CountTokens

_TITLE_BYTES = 96
_HEADING_BYTES = 160
_LEAST_TEXT_TOKENS = 8
_HEADING_SEPARATOR = " > "

FINGERPRINT = digest([str(_TITLE_BYTES), str(_HEADING_BYTES), str(_LEAST_TEXT_TOKENS)], length=8)
"""Hash of the limits that decide where a titled text is cut."""


@dataclass(frozen=True)
class TitledText:
    """A text to cut.

    Attributes:
        name: What errors call it.
        title: Title, which is embedded with every chunk.
        text: The text.
        pages: Its pages.
        chunker: How it is cut.
    """

    name: str
    title: str
    text: str
    pages: Pages
    chunker: Chunker


def cut_titled_texts(texts: Sequence[TitledText], count_tokens: CountTokens) -> list[list[Span]]:
    """Cut every text with room for its longest title and headings; again with smaller chunks where it is too little.

    It returns the chunks of each text in order. Their ``heading`` is empty for a text whose title and headings would
    take half of the ceiling. It raises ``InputError`` if the title of a text leaves no room for text below the
    ceiling.
    """
    with_headings, rooms, plain_rooms = _measure_rooms(texts, count_tokens)
    spans: list[list[Span]] = [[] for _ in texts]
    pending = list(range(len(texts)))
    while pending:
        for number in pending:
            _check_room(texts[number], rooms[number])
        found = _cut_parts(texts, pending, rooms, count_tokens)
        for number in pending:
            spans[number] = [
                span._replace(
                    heading=_fit(span.heading, texts[number].chunker) if number in with_headings else ""
                )
                for span in found[number]
            ]
        owners = [number for number in pending for _ in spans[number]]
        embedded = [
            introduce(texts[number].title, span.heading, text) + text
            for number in pending
            for span in spans[number]
            for text in (texts[number].text[span.start : span.end],)
        ]
        excess = np.zeros(len(texts), np.int64)
        if embedded:
            ceilings = np.array([texts[number].chunker.max_tokens for number in owners], np.int64)
            np.maximum.at(excess, owners, count_tokens(embedded) - ceilings)
        pending = np.flatnonzero(excess > 0).tolist()
        for number in pending:
            rooms[number] -= int(excess[number])
            if number in with_headings and rooms[number] < texts[number].chunker.max_tokens // 2:
                # Chunkers name the definition above a chunk only when they cut, so that no room was kept for it.
                with_headings.discard(number)
                rooms[number] = plain_rooms[number]
    return spans


def introduce(title: str, heading: str, text: str) -> str:
    """Write what is embedded before a chunk: its title, its headings and an empty line.

    A heading that repeats the title is omitted. The last heading is omitted if the text begins with it.
    """
    name = _shorten(" ".join(title.split()), _TITLE_BYTES, " ")
    headings = heading.split(_HEADING_SEPARATOR) if heading else []
    if headings and headings[0] == " ".join(title.split()):
        headings = headings[1:]
    first_line = text.lstrip("# ").split("\n", 1)[0].rstrip("# \r") if text.lstrip().startswith("#") else ""
    if headings and headings[-1] == first_line:
        headings = headings[:-1]
    if heading and heading == text.split("\n", 1)[0]:
        headings = []
    lines = [line for line in (name, _HEADING_SEPARATOR.join(headings)) if line]
    return "\n".join(lines) + "\n\n" if lines else ""


def _measure_rooms(
    texts: Sequence[TitledText], count_tokens: CountTokens
) -> tuple[set[int], list[int], list[int]]:
    """Compute which texts have room for headings, and the most tokens per slice of each, also without headings."""
    titles = [introduce(text.title, "", "") for text in texts]
    owners, introductions = [], []
    for number, text in enumerate(texts):
        headings = {
            _fit(heading, text.chunker)
            for start, end in _split(text)
            for heading in text.chunker.list_headings(text.text[start:end])
        }
        owners += [number] * len(headings)
        introductions += [introduce(text.title, heading, "") for heading in sorted(headings)]
    counts = count_tokens([*titles, *introductions, ""])
    specials = int(counts[-1])
    plain = counts[: len(titles)]
    longest = plain.copy()
    np.maximum.at(longest, owners, counts[len(titles) : -1])
    ceilings = np.array([text.chunker.max_tokens for text in texts], np.int64)
    with_headings = longest <= ceilings // 2
    needed = np.where(with_headings, longest, plain)
    return (
        set(np.flatnonzero(with_headings).tolist()),
        (ceilings - needed + specials).tolist(),
        (ceilings - plain + specials).tolist(),
    )


def _cut_parts(
    texts: Sequence[TitledText], numbers: Sequence[int], rooms: Sequence[int], count_tokens: CountTokens
) -> dict[int, list[Span]]:
    """Cut the chosen texts, all of one chunker at once."""
    spans: dict[int, list[Span]] = {number: [] for number in numbers}
    by_chunker: dict[str, list[int]] = {}
    for number in numbers:
        by_chunker.setdefault(texts[number].chunker.fingerprint, []).append(number)
    for chosen in by_chunker.values():
        chunker = texts[chosen[0]].chunker
        parts = [(number, start, end) for number in chosen for start, end in _split(texts[number])]
        found = chunker.cut(
            [texts[number].text[start:end] for number, start, end in parts],
            max_tokens=[rooms[number] for number, _, _ in parts],
            overlap_tokens=chunker.overlap_tokens,
            count_tokens=count_tokens,
        )
        for (number, offset, _), cut in zip(parts, found, strict=True):
            spans[number] += [span._replace(start=span.start + offset, end=span.end + offset) for span in cut]
    return spans


def _split(text: TitledText) -> Iterable[tuple[int, int]]:
    whole = (0, len(text.text))
    return text.pages.split(len(text.text)) if text.chunker.keeps_pages_apart else [whole]


def _check_room(text: TitledText, room: int) -> None:
    if room < _LEAST_TEXT_TOKENS:
        title = _shorten(text.title, _TITLE_BYTES, " ")
        raise InputError(
            f"document {text.name} ({title!r}): a chunk of {text.chunker.max_tokens} tokens that begins with the "
            f"title has room for {max(room, 0)} tokens of text; raise chunks.max_tokens, or shorten the title",
            code="no_room",
        )


def _fit(heading: str, chunker: Chunker) -> str:
    if chunker.has_whole_headings:
        return heading
    return _shorten(heading, _HEADING_BYTES, _HEADING_SEPARATOR)


def _shorten(text: str, limit: int, separator: str) -> str:
    """Truncate a text to a number of UTF-8 bytes, after the last separator that fits if there is one.

    The limit is in bytes, since no tokenizer with an ordinary vocabulary produces more tokens than bytes.
    """
    encoded = text.encode("utf-8", "surrogatepass")
    if len(encoded) <= limit:
        return text
    fitting = encoded[:limit].decode("utf-8", "ignore")
    return fitting.rpartition(separator)[0] or fitting
