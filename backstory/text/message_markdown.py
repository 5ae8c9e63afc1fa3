"""The Markdown of a conversation: a numbered heading per message, and lines of texts that cannot imitate one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import regex

MESSAGE_SEPARATOR: Final = "\n\n"
"""Stands between the texts of messages that are one text."""
INDENT: Final = r"[\t\p{Zs}\p{Cf}]*"
"""What may stand before the starts of :data:`STRUCTURE`."""
STRUCTURE: Final = (
    r"#(?:[# \t]|$)|(?:=+|-+)[ \t]*$|(?:\*\*|__)(?i:author|timestamp)|```|~~~"
    r"|<(?:[!?]|(?i:script|pre|style|textarea)\b)"
)
"""Line starts that Markdown would read as structure of the conversation, or that would hide the lines after them:
headings of either kind, the two lines below a heading, code fences, and HTML that does not end at a blank line."""

_HEADING: Final = re.compile(r"#{1,6} Message \d+")
_AUTHOR: Final = re.compile(r"\*\*Author:\*\* ?(.*)")
_TIMESTAMP: Final = re.compile(r"\*\*Timestamp:\*\*")
_PROTECTED_LINE: Final = regex.compile(rf"^({INDENT})\\(\\*(?:{STRUCTURE}))")


def find_markdown_messages(lines: Sequence[str]) -> Iterator[tuple[int, str | None, str]]:
    """Find the messages in the Markdown of ``consolidate_messages_to_markdown``.

    It yields the position of the heading, author (None where there is none) and text of each message.
    """
    headings = [number for number, line in enumerate(lines) if _HEADING.fullmatch(line)]
    for start, end in pairwise([*headings, len(lines)]):
        body = list(lines[start + 1 : end])
        author = _AUTHOR.fullmatch(body[0]) if body else None
        body = body[author is not None :]
        body = body[bool(body and _TIMESTAMP.match(body[0])) :]
        yield start, author and author[1], "\n".join(_PROTECTED_LINE.sub(r"\1\2", line) for line in body)
