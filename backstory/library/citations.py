"""The one string under which a place of a document may be quoted."""

from __future__ import annotations


def cite(
    uri: str,
    *,
    pages: tuple[int, int] | None = None,
    lines: tuple[int, int] | None = None,
    characters: tuple[int, int],
) -> str:
    """Name a place: the path of the document, and its pages, else its lines, else its characters.

    Args:
        uri: Path of the document.
        pages: First and last page, inclusive.
        lines: First and last line, inclusive, from 1.
        characters: First character, and the one after the last.

    Returns:
        Such as ``report.pdf, pages 3-4``, ``notes/bread.md, lines 12-40`` or ``notes/bread.md, characters 0-812``.
    """
    if pages is not None:
        return f"{uri}, {_span('page', *pages)}"
    if lines is not None:
        return f"{uri}, {_span('line', *lines)}"
    return f"{uri}, characters {characters[0]}-{characters[1]}"


def _span(noun: str, first: int, last: int) -> str:
    return f"{noun} {first}" if first == last else f"{noun}s {first}-{last}"
