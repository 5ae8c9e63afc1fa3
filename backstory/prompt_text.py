"""Document text as it appears inside a prompt: short, cut between words, and unable to forge structure."""

from __future__ import annotations

import re

_WHITESPACE = re.compile(r"\s+")
# Line starts that a Markdown reader takes for structure outside the snippet: headings (ATX and setext), fences,
# raw HTML, and the two list lines that the context block itself writes.
_STRUCTURE = re.compile(r"^([ \t]*)(?=#|={2,}|-{2,}|`{3}|~{3}|<|- (?:Tags|Similarity):)", re.MULTILINE)


def cut_snippet(text: str, characters: int) -> str:
    """Shorten a text between two words.

    Args:
        text: The text.
        characters: Longest result, without the ellipsis.

    Returns:
        The text as it is when it is short enough, else its beginning up to a word's end and an ellipsis. A
        single word longer than the limit is cut inside.
    """
    stripped = text.strip()
    if len(stripped) <= characters:
        return stripped
    head = stripped[:characters]
    if not stripped[characters].isspace():
        shorter = re.sub(r"\S+\Z", "", head).rstrip()
        head = shorter or head
    return head.rstrip() + "…"


def escape_block(text: str) -> str:
    """Put a backslash before everything at the start of a line that would read as structure of the prompt."""
    return _STRUCTURE.sub(r"\1\\", text.replace("\r\n", "\n").replace("\r", "\n"))


def escape_line(text: str) -> str:
    """Fold a text into one line without brackets that would close a title early."""
    return _WHITESPACE.sub(" ", text).strip().replace("[", "(").replace("]", ")")
