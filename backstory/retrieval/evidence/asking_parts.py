"""Parts of windows that ask for nothing: those all of whose messages are small talk."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice

from backstory.text.layout import MESSAGE_SEPARATOR
from backstory.text.small_talk import find_small_talk


def find_small_talk_parts(texts: Sequence[str | None]) -> list[bool]:
    """Find the parts that are small talk.

    Args:
        texts: The text of each part: its messages, joined by blank lines.

    Returns:
        For each part, whether all of its messages are small talk.
    """
    messages = [[None] if text is None else text.split(MESSAGE_SEPARATOR) for text in texts]
    found = iter(find_small_talk(list(chain.from_iterable(messages))))
    return [all(list(islice(found, len(part)))) for part in messages]
