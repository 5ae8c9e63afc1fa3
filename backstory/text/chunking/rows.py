"""Cutting tables into chunks of whole rows.

A table is a text with one row per line; its first line is the header.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from backstory.text.chunking.cut import Span, cut_chunks
from backstory.text.chunking.tokens import CountTokens


class _Run(NamedTuple):
    """Consecutive rows of a text: from the row at ``first`` to the one before ``stop``."""

    text: int
    first: int
    stop: int


def cut_rows(
    texts: Sequence[str],
    *,
    max_tokens: Sequence[int],
    overlap_tokens: int,  # noqa: ARG001 - part of every chunker; a row is in exactly one chunk
    count_tokens: CountTokens,
) -> list[list[Span]]:
    r"""Cut many tables into chunks at once.

    A chunk holds whole rows, as many as fit. A row that alone exceeds the ceiling is cut at sentences, then at words,
    and shares no chunk with another row. Every row is in exactly one chunk: rows are not repeated.

    ``texts``: tables with one row per line, separated by ``\n``; the first line of each is its header. It returns the
    chunks of each text in order. The header line belongs to the first chunk, and is the ``heading`` of every chunk.
    Together the chunks contain everything but blank lines. It raises ``InputError`` if a single character is over the
    ceiling.
    """
    tables = [_find_rows(text) for text in texts]
    headers = [text.partition("\n")[0].strip() for text in texts]
    spans: list[list[Span]] = [[] for _ in texts]
    pending = _pack(texts, tables, max_tokens, count_tokens)
    too_long: list[_Run] = []
    while pending:
        places = [(tables[run.text][run.first][0], tables[run.text][run.stop - 1][1]) for run in pending]
        counts = count_tokens(
            [texts[run.text][start:end] for run, (start, end) in zip(pending, places, strict=True)]
        )
        halves: list[_Run] = []
        for run, (start, end), count in zip(pending, places, counts.tolist(), strict=True):
            if count <= max_tokens[run.text]:
                spans[run.text].append(Span(start, end, count, headers[run.text]))
            elif run.stop - run.first == 1:
                too_long.append(run)
            else:
                middle = (run.first + run.stop) // 2
                halves += [run._replace(stop=middle), run._replace(first=middle)]
        pending = halves
    for run, pieces in zip(
        too_long, _cut_long_rows(texts, tables, too_long, max_tokens, count_tokens), strict=True
    ):
        spans[run.text] += [piece._replace(heading=headers[run.text]) for piece in pieces]
    return [sorted(found) for found in spans]


def _find_rows(text: str) -> list[tuple[int, int]]:
    """Return start and end of every line that is not blank, without its line feed."""
    rows = []
    start = 0
    for line in text.split("\n"):
        if line.strip():
            rows.append((start, start + len(line)))
        start += len(line) + 1
    return rows


def _pack(
    texts: Sequence[str],
    tables: Sequence[list[tuple[int, int]]],
    max_tokens: Sequence[int],
    count_tokens: CountTokens,
) -> list[_Run]:
    """Plan runs of rows from the counts of single rows, which are only roughly additive."""
    lines = [text[start : end + 1] for text, rows in zip(texts, tables, strict=True) for start, end in rows]
    counts = count_tokens([*lines, ""])
    specials = int(counts[-1])
    sizes = iter((counts[:-1] - specials).tolist())
    runs = []
    for number, (rows, ceiling) in enumerate(zip(tables, max_tokens, strict=True)):
        first, filled = 0, specials
        for row in range(len(rows)):
            size = next(sizes)
            if row > first and filled + size > ceiling:
                runs.append(_Run(number, first, row))
                first, filled = row, specials
            filled += size
        if rows:
            runs.append(_Run(number, first, len(rows)))
    return runs


def _cut_long_rows(
    texts: Sequence[str],
    tables: Sequence[list[tuple[int, int]]],
    runs: Sequence[_Run],
    max_tokens: Sequence[int],
    count_tokens: CountTokens,
) -> list[list[Span]]:
    starts = [tables[run.text][run.first][0] for run in runs]
    pieces = cut_chunks(
        [texts[run.text][slice(*tables[run.text][run.first])] for run in runs],
        max_tokens=[max_tokens[run.text] for run in runs],
        overlap_tokens=0,
        count_tokens=count_tokens,
    )
    return [
        [piece._replace(start=start + piece.start, end=start + piece.end) for piece in found]
        for start, found in zip(starts, pieces, strict=True)
    ]
