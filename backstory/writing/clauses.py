"""The clauses of a sentence: its first ones may stand for a topic, and those that greet say nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from backstory.text.small_talk import find_small_talk
from backstory.text.words import Words

_LABEL: Final = 24
"""Most characters of a beginning that is joined to the sentence after it, such as "Dress rehearsal"."""
_FEW_WORDS: Final = 3
"""Most words of a clause that is left out since it says nothing."""
_INNER: Final = 0.75
"""How much a part of a sentence counts that does not begin where the sentence does."""
_INTRODUCTION: Final = re.compile(r"\bI[’']m [A-Z]|\b[Mm]y name is\b")
_CLAUSE: Final = re.compile(r"[,.!?:;–—]")
_PART: Final = re.compile(r"(?<=[,;:–—.!?…])\s+|\s+[-–—]+\s+|(?<=[、。！？])(?!\Z)")


def greets(text: str) -> bool:
    """Return whether the first clause of a sentence is a greeting, thanks, or the like, or somebody says a name."""
    return bool(_INTRODUCTION.search(text)) or find_small_talk([_CLAUSE.split(text, maxsplit=1)[0]])[0]


def skip_empty_clauses(text: str, words: Words) -> str:
    """Leave out the short clauses at the beginning of a sentence that say nothing; empty if all of them do."""
    clauses = ((start, text[start:stop]) for start, stop in _split_clauses(text))
    return next((text[start:] for start, clause in clauses if _tells(clause, words)), "")


def list_beginnings(text: str, following: str, longest: int) -> Iterator[tuple[str, float]]:
    """List what may stand for a beginning, with how much it counts.

    It is the sentence, joined to the beginning of the one after it if it is as short as a label. Of a long sentence, it
    is its first clauses, or those after a short one or a colon.

    Args:
        text: A sentence.
        following: The sentence after it; empty if there is none.
        longest: Most characters of a beginning.
    """
    if len(text) <= longest:
        yield text, 1.0
        if len(text) <= _LABEL and following:
            for _, stop in _split_clauses(following):
                if len(text) + 1 + stop <= longest:
                    yield f"{text} {following[:stop]}", 1.0
        return
    clauses = _split_clauses(text)
    for number, (start, _) in enumerate(clauses[:2]):
        head = text[:start].rstrip()
        if not head or head.endswith(":") or len(head.split()) <= _FEW_WORDS:
            for _, stop in clauses[number:]:
                if stop - start <= longest:
                    yield text[start:stop], _INNER if number else 1.0


def _split_clauses(text: str) -> list[tuple[int, int]]:
    """Return where the clauses of a sentence begin and end."""
    gaps = [match.span() for match in _PART.finditer(text)]
    return list(zip([0, *(end for _, end in gaps)], [*(start for start, _ in gaps), len(text)], strict=True))


def _tells(clause: str, words: Words) -> bool:
    if len(clause.split()) > _FEW_WORDS:
        return True
    return bool(words.split(clause)) and not find_small_talk([clause])[0]
