"""How much a result holds: lists are cut at their end, and the result says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final, TypeAlias, TypeVar

import numpy as np
from pydantic import Field, TypeAdapter

from backstory.base.errors import InputError
from backstory.interfaces.library.results import Result
from backstory.text.chunking.tokens import estimate_tokens

DEFAULT_TOKENS: Final = 8_000
MOST_TOKENS: Final = 20_000
LEAST_TOKENS: Final = 500
_MATCHES: Final = "matches"
_NEXT_OFFSET: Final = "next_offset gives the others, or a larger max_tokens more at a time"
_ROOM: Final = 150
"""Tokens of the sentence that tells a cut, and of commas between rows."""

MaxTokens: TypeAlias = Annotated[
    int,
    Field(ge=LEAST_TOKENS, le=MOST_TOKENS, description="Most tokens of the result, by a careful estimate."),
]

_MOST_CHARACTERS: Final = 7
"""Characters that no token exceeds on average, by the estimate."""

_R = TypeVar("_R", bound=Result)
_ANY: Final = TypeAdapter[object](object)


def cut_list(result: _R, rows: str, max_tokens: int, *, told_in: str, remedy: str) -> _R:
    """Cut one list of a result so that its JSON is within a number of tokens.

    Args:
        result: The result.
        rows: Name of the list.
        max_tokens: Most tokens of the result, by :func:`backstory.text.chunking.tokens.estimate_tokens`.
        told_in: Name of what says that the list was cut: a text, one that may be null, or a tuple of texts.
        remedy: What to do to get the rest.

    Returns:
        The result, if it is small enough; else one with as many rows as there is room for.
    """
    listed = getattr(result, rows)
    bare = result.model_copy(update={rows: ()})
    room = max_tokens - count_tokens(bare) - _ROOM
    counts = estimate_tokens([_ANY.dump_json(row).decode() for row in listed]) if listed else np.zeros(0)
    shown = int((np.cumsum(counts) <= room).sum())
    if shown == len(listed):
        return result
    note = f"cut at {max_tokens} tokens: {shown} of {len(listed)} {rows} are given; {remedy}"
    before = getattr(result, told_in)
    if isinstance(before, tuple):
        told: object = (*before, note)
    else:
        told = f"{before}; {note}" if before else note
    return result.model_copy(update={rows: listed[:shown], told_in: told})


def cut_matches(result: _R, max_tokens: int, *, told_in: str, offset: int) -> _R:
    """Cut the matches of a result as :func:`cut_list` does, and set ``next_offset`` to the first one that is left out.

    Args:
        result: The result, with ``matches`` and ``next_offset``.
        max_tokens: Most tokens of the result.
        told_in: As for :func:`cut_list`.
        offset: Number of matches before the first one of the result.

    Raises:
        InputError: There is no room for one match, so that the next offset would be this one again.
    """
    cut = cut_list(result, _MATCHES, max_tokens, told_in=told_in, remedy=_NEXT_OFFSET)
    if cut is result:
        return result
    given = len(getattr(cut, _MATCHES))
    if not given:
        raise InputError(f"a match takes more than {max_tokens} tokens; give a larger max_tokens")
    return cut.model_copy(update={"next_offset": offset + given})


def cut_text(text: str, max_tokens: int, count: Callable[[str], int]) -> str:
    """Return the longest beginning of a text, in whole lines if it has several, with which a result is small enough.

    Args:
        text: The text.
        max_tokens: Most tokens of the result.
        count: Counts the tokens of the result with a beginning of the text. A longer one never has fewer, except the
            whole text, with which the result need not say that it was cut.
    """
    low, high = 0, min(len(text), max_tokens * _MOST_CHARACTERS)
    if high == len(text) and count(text) <= max_tokens:
        return text
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(text[:middle]) <= max_tokens else (low, middle - 1)
    return text[: text.rfind("\n", 0, low) + 1 or low]


def count_tokens(result: Result) -> int:
    """Estimate the tokens of a result as JSON."""
    return int(estimate_tokens([result.model_dump_json()])[0])
