"""Cutting one text in tests, and the laws of its chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from backstory.settings.inputs import ChunkerName, ChunkSettings
from backstory.text.chunking.cut import (
    Span,
    TitledText,
    choose_chunker,
    cut_chunks,
    cut_titled_texts,
    introduce,
)
from backstory.text.chunking.units import Pages, TokenCounter
from tests.token_counters import WORDS


def cut(text: str, max_tokens: int, overlap_tokens: int = 0, counter: TokenCounter = WORDS) -> list[Span]:
    (spans,) = cut_chunks([text], max_tokens=max_tokens, overlap_tokens=overlap_tokens, counter=counter)
    return spans


def cut_by(
    chunker: ChunkerName, text: str, counter: TokenCounter = WORDS, *, title: str = "", **sizes: int
) -> list[Span]:
    """Cut a text by a chunker whose sizes are those of every chunker; the embedder takes 512 tokens."""
    most, overlap = sizes.get("max_tokens", 512), sizes.get("overlap_tokens", 0)
    chosen = ChunkSettings(
        max_tokens=most,
        overlap_tokens=overlap,
        sentence_max_tokens=most,
        sentence_overlap_tokens=overlap,
        max_characters=100,
        overlap_characters=20,
    )
    titled = TitledText("a", title, text, Pages(), choose_chunker(chunker, chosen, max_tokens=512))
    (spans,) = cut_titled_texts([titled], counter)
    return spans


def show(text: str, spans: Sequence[Span]) -> list[str]:
    return [text[span.start : span.end] for span in spans]


def check_spans(
    text: str, spans: list[Span], max_tokens: int, counter: TokenCounter, title: str = ""
) -> None:
    chunks = show(text, spans)
    embedded = [
        introduce(title, span.heading, chunk) + chunk for span, chunk in zip(spans, chunks, strict=True)
    ]
    assert (counter.count_tokens([*embedded, ""]) <= max_tokens).all()
    assert all(chunk.strip() for chunk in chunks)
    covered = 0
    for span in spans:
        assert not text[covered : max(covered, span.start)].strip(), "text is lost"
        assert span.end > covered, "a chunk adds nothing"
        covered = span.end
    assert not text[covered:].strip(), "the end is lost"
    assert all(after.start > before.start for before, after in pairwise(spans)), (
        "a chunk holds the one before"
    )


def list_overlaps(text: str, spans: Sequence[Span]) -> Iterator[str]:
    yield from (
        text[after.start : before.end] for before, after in pairwise(spans) if after.start < before.end
    )
