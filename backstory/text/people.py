"""The people of a chat as readers see them, and what callers pass to show, send and check texts that may name them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from backstory.base.ids import PSEUDONYM_PREFIX

ShowText: TypeAlias = Callable[[str, str, str], str]
"""Returns a text of a document as the readers of a window see it, given the ids of the window and the document."""

SendText: TypeAlias = Callable[[str | None, str], str | None]
"""Returns a text as a chat model is sent it, given the id of its document, or None for the words of who asks; None if
it is not sent."""

ListWithheld: TypeAlias = Callable[[Sequence[str]], Collection[str]]
"""Returns those of some documents, by id, of which a chat model is sent nothing."""

ScrubText: TypeAlias = Callable[[str], str]
"""Returns a text with markers in place of contact data."""

FindLeaks: TypeAlias = Callable[[Sequence[str]], Collection[str]]
"""Returns those of the texts that hold a real name of an author."""

_PSEUDONYM: Final = re.compile(rf"{re.escape(PSEUDONYM_PREFIX)}[0-9a-f]{{10}}(?![0-9a-f])")


def show_as_written(window_id: str, document_id: str, text: str) -> str:  # noqa: ARG001 - the signature of ShowText
    """Return the text: no name is replaced."""
    return text


def name_people(text: str, names: Mapping[str, str]) -> str:
    """Write the people of a text as readers see them."""
    return _PSEUDONYM.sub(lambda found: names.get(found[0], found[0]), text) if names else text


def is_pseudonym(text: str) -> bool:
    """Return whether a text is the pseudonym of a person."""
    return _PSEUDONYM.fullmatch(text) is not None


@dataclass(frozen=True)
class Discretion:
    """What a post may say about people.

    ``find_leaks`` finds the texts that must not be stored, ``scrub`` replaces contact data in what is published, and
    ``rule`` names the rule for names in documents.
    """

    find_leaks: FindLeaks
    scrub: ScrubText = str
    rule: str = "keep"
