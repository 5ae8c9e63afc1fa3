"""Documents to summarize: plain ones, ones with pages, and ones of random parts."""

from __future__ import annotations

from hypothesis import strategies as st

from backstory.text.chunking.units import Pages
from backstory.writing.summaries.request import SectionRequest, Source, Style
from backstory.writing.summaries.sections import divide_sections

SUBJECTS = ("pump", "valve", "filter", "gauge", "boiler", "heater", "switch", "sensor", "drain", "hose")
PAGES = tuple(
    f"The {subject} of room {number} is checked every {number} weeks by the caretaker.\n\n"
    f"A worn {subject} is replaced before the winter, since spare parts for it are rare."
    for number, subject in enumerate(SUBJECTS, 1)
)


def make_paged(pages: tuple[str, ...] = PAGES, revision: str = "r1") -> Source:
    """Make a document of pages."""
    starts, text = [], ""
    for page in pages:
        starts.append(len(text))
        text += f"{page}\n\n"
    return Source("The plant room", text, Pages(tuple(starts)), revision)


def make_plain(text: str, title: str = "Notes") -> Source:
    """Make a document without pages."""
    return Source(title, text, Pages(), "r1")


def request_of(source: Source, *, style: Style = "detailed", most_words: int = 60) -> SectionRequest:
    """Ask for a summary of a document of one section."""
    [section] = divide_sections(source.text, source.pages, 100_000)
    return SectionRequest(source, section, 1, style, most_words)


_WORDS = st.text("abcdefgh.,:é漢字のไ", min_size=1, max_size=8)
_SENTENCES = st.lists(_WORDS, min_size=1, max_size=14).map(" ".join)
_BLOCKS = st.one_of(
    st.lists(_SENTENCES, min_size=1, max_size=6).map(". ".join),
    st.lists(_SENTENCES, min_size=1, max_size=4).map(lambda items: "\n".join(f"- {item}" for item in items)),
    st.tuples(st.integers(1, 6), _SENTENCES).map(lambda head: f"{'#' * head[0]} {head[1]}"),
    st.just("```\ncode = 1\n\nmore = 2\n```"),
    st.just("| a | b |\n|---|---|\n| 1 | 2 |"),
)
TEXTS = st.lists(_BLOCKS, max_size=14).map("\n\n".join)
