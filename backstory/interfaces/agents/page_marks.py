"""The page of a chunk whose text carries marks of pages, as other programs cut them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

Chunk: TypeAlias = str | Mapping[str, Any]
"""A text, or a mapping with ``content`` or ``text``, and ``source_file``, ``source`` or ``document_id``."""

_MARKS: Final = (
    re.compile(r"\[Page\s+(\d+)\]", re.IGNORECASE),
    re.compile(r"\(Page\s+(\d+)\)", re.IGNORECASE),
)
_LOOK_BACK: Final = 5
_TEXTS: Final = ("content", "text")
_SOURCES: Final = ("source_file", "source", "document_id")


def extract_page_from_chunk(
    chunk_text: str, chunk_index: int = -1, all_chunks: Sequence[Chunk] | None = None
) -> int | None:
    """Find the page of a chunk by the marks in its text.

    The first ``[Page N]`` of the text decides, else its first ``(Page N)``, else the last mark of the nearest earlier
    chunk of the same document, up to five back. Chunks of Backstory need no marks: their pages are columns.

    Args:
        chunk_text: The text of the chunk.
        chunk_index: Its place in ``all_chunks``; a negative one is none, so that only its text is read.
        all_chunks: All chunks in order. Those that are mappings tell their document; texts are of one document.

    Returns:
        The page, from 1; None if no mark tells it.
    """
    for mark in _MARKS:
        if found := mark.search(chunk_text):
            return int(found[1])
    if all_chunks is None or not 0 <= chunk_index < len(all_chunks):
        return None
    source = _read(all_chunks[chunk_index], _SOURCES)
    for chunk in reversed(all_chunks[max(0, chunk_index - _LOOK_BACK) : chunk_index]):
        if _read(chunk, _SOURCES) != source:
            return None
        text = chunk if isinstance(chunk, str) else str(_read(chunk, _TEXTS) or "")
        for mark in _MARKS:
            if pages := mark.findall(text):
                return int(pages[-1])
    return None


def _read(chunk: Chunk, names: Sequence[str]) -> Any:
    if isinstance(chunk, str):
        return None
    return next((chunk[name] for name in names if name in chunk), None)
