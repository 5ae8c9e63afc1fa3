"""The check for real names in texts that a model wrote, as a function that callers pass."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

ScrubText: TypeAlias = Callable[[str], str]
"""Returns a text with markers in place of contact data."""

FindLeaks: TypeAlias = Callable[[Sequence[str]], Collection[str]]
"""Returns those of the texts that hold a real name of an author."""


def find_no_leaks(texts: Sequence[str]) -> Collection[str]:  # noqa: ARG001 - the signature of FindLeaks
    """Return no text: the authors are not hidden."""
    return ()


@dataclass(frozen=True)
class Discretion:
    """What a post may say about people.

    Attributes:
        find_leaks: Finds the texts that must not be stored.
        scrub: Replaces contact data in what is published.
        rule: Name of the rule for names in documents, which decides what a writer is shown.
    """

    find_leaks: FindLeaks
    scrub: ScrubText = str
    rule: str = "keep"
