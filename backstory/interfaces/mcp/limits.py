"""How much a result holds: lists are cut at their end, and the result says so.

Tokens are those of the result as JSON, see :mod:`backstory.interfaces.mcp.token_counts`. Models that write have larger
vocabularies of the same kind, and count about as many tokens in English, and fewer in other languages and in code.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Annotated, Final, TypeAlias, TypeVar

from pydantic import Field, TypeAdapter

from backstory.base.errors import InputError
from backstory.interfaces.mcp.token_counts import TokenCounter
from backstory.retrieval.found import Result

DEFAULT_TOKENS: Final = 8_000
MOST_TOKENS: Final = 20_000
LEAST_TOKENS: Final = 500
_MATCHES: Final = "matches"
_NEXT_OFFSET: Final = "next_offset gives the others, or a larger max_tokens more at a time"
_ROOM: Final = 150
"""Tokens of the sentence that tells a cut, and of commas between rows."""

MaxTokens: TypeAlias = Annotated[
    int,
    Field(ge=LEAST_TOKENS, le=MOST_TOKENS, description="Most tokens of the result."),
]

_MOST_CHARACTERS: Final = 7
"""Characters of a token on average that no text exceeds but one of long words or repetitions."""
_LONG: Final = 2_000
"""Characters of a text that is not cut to the last one that has room."""
_NEAR_ENOUGH: Final = 50
"""A long text is cut within one part in so many of the longest one that is small enough."""

_R = TypeVar("_R", bound=Result)
_ANY: Final = TypeAdapter[object](object)
_COUNTER: Final = TokenCounter()


def cut_list(
    result: _R, rows: str, max_tokens: int, *, told_in: str, remedy: str, shortens: str | None = None
) -> _R:
    """Cut one list of a result so that its JSON is within a number of tokens.

    Args:
        result: The result.
        rows: Name of the list.
        max_tokens: Most tokens of the result.
        told_in: Name of what says that the list was cut: a text, one that may be null, or a tuple of texts.
        remedy: What to do to get the rest.
        shortens: Name of the text that is cut in the first row where no whole row has room; None to give none then.

    Returns:
        The result, if it is small enough; else one with as many rows as there is room for.
    """
    listed = getattr(result, rows)
    if fits(result, max_tokens):
        return result
    room = max_tokens - count_tokens(result.model_copy(update={rows: ()})) - _ROOM
    counts = (_COUNTER.count(_ANY.dump_json(row).decode()) for row in listed)
    shown = sum(total <= room for total in accumulate(counts))
    if shortens is not None and listed and not shown:
        shown, listed = 1, (_shorten(listed[0], shortens, room), *listed[1:])
    elif shown == len(listed):
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
    # Near enough: counting a long text takes longer than a few more characters are worth.
    while high - low > (low // _NEAR_ENOUGH if low > _LONG else 0):
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(text[:middle]) <= max_tokens else (low, middle - 1)
    return text[: text.rfind("\n", 0, low) + 1 or low]


def fits(result: Result, max_tokens: int) -> bool:
    """Return whether a result is within a number of tokens. Most are, by an estimate that is rarely too low."""
    return _COUNTER.is_within(result.model_dump_json(), max_tokens)


def count_tokens(result: Result) -> int:
    """Count the tokens of a result as JSON."""
    return _COUNTER.count(result.model_dump_json())


def _shorten(row: _R, name: str, room: int) -> _R:
    """Cut a text of a row so that the row has room."""
    text = str(getattr(row, name))
    cut = cut_text(text, room, lambda beginning: count_tokens(row.model_copy(update={name: beginning})))
    return row.model_copy(update={name: cut})
