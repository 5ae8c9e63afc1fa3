"""Requests for summaries, and the interface of summarizers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias, get_args

from backstory.text.chunking.units import Pages
from backstory.writing.summaries.sections import Section

Style: TypeAlias = Literal["brief", "detailed", "bullets"]

STYLES: Final[tuple[Style, ...]] = get_args(Style)

_BRIEF_DOCUMENT: Final = 150
"""Words of a brief summary, which its sections share."""
_LEAST: Final = 25
_SHARES: Final[dict[Style, tuple[int, int, int]]] = {
    "brief": (5, 30, 150),
    "detailed": (10, 120, 600),
    "bullets": (15, 80, 300),
}
"""For each style the divisor of a section's words that gives those of its summary, and the least and the most."""


@dataclass(frozen=True)
class Source:
    """A document that is summarized.

    Attributes:
        title: Its title.
        text: Its text.
        pages: Its pages.
        revision: Its revision; what a model writes is kept as long as the document has it.
        send: Gives each text of it as a model is sent it.
    """

    title: str
    text: str
    pages: Pages
    revision: str
    send: Callable[[str], str] = str


@dataclass(frozen=True)
class SectionRequest:
    """One section that is summarized.

    Attributes:
        source: Its document.
        section: The section.
        of: Number of sections of the document.
        style: Style of the summary.
        most_words: Most words of the summary.
    """

    source: Source
    section: Section
    of: int
    style: Style
    most_words: int


class Summarizer(Protocol):
    """Summarizes sections, from any thread.

    Attributes:
        id: Name and version, or the model and its parameters.
        threads: Most sections at once.
        combines: Whether :meth:`combine` makes one summary of several; else they are put one after the other.
    """

    @property
    def combines(self) -> bool:
        """Whether :meth:`combine` makes one summary of several; else they are put one after the other."""

    @property
    def id(self) -> str:
        """Name and version, or the model and its parameters."""

    @property
    def threads(self) -> int:
        """Most sections at once."""

    def summarize(self, request: SectionRequest) -> str:
        """Summarize a section as Markdown without headings.

        Raises:
            UnwrittenError: There is no summary of this section, though others can be summarized.
            ModelError: The model could not be called, or refused the request.
            BudgetExhaustedError: The call would exceed a budget.
        """

    def combine(self, source: Source, style: Style, summaries: Sequence[str], most_words: int) -> str:
        """Make one summary of the summaries of all sections; raises as :meth:`summarize` does."""


class UnwrittenError(Exception):
    """A section has no summary; the message says why, for a person."""


def choose_length(style: Style, section: Section, sections: int, max_words: int) -> int:
    """Choose the most words of the summary of a section.

    Args:
        style: The style.
        section: The section.
        sections: Number of sections of the document.
        max_words: Most words of a section.

    Returns:
        A number that is not above ``max_words``.
    """
    divisor, least, most = _SHARES[style]
    if style == "brief":
        most = max(_BRIEF_DOCUMENT // sections, _LEAST)
        least = min(least, most)
    return min(max(section.words // divisor, least), most, max_words)
