"""The documents of the context, and every found chunk: its rank or the reason why it was dropped, and its source."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from backstory.interfaces.pages.report.palette import name_paint
from backstory.interfaces.pages.report.window_report import WindowReport
from backstory.interfaces.pages.report.wording import describe_fate

_ASKERS = 8


@dataclass(frozen=True)
class Asker:
    """A part of the window that found a chunk: its first message, and when that was written."""

    message: int
    when: str


@dataclass(frozen=True)
class KeptEntry:
    """A document of the context: its colour, its share of the window, and the number of its best chunk in the list."""

    place: int
    rank: str
    title: str
    about: str
    share: str
    paint: str
    entry: int


@dataclass(frozen=True)
class ChunkEntry:
    """One chunk of the list.

    Attributes:
        number: Its number in the list, from 1.
        rank: Rank in the context, from 1; None if dropped.
        title: Title of its document.
        about: Date and headings.
        similarity: Best cosine similarity, as text.
        score: Best score, as text.
        probability: Highest probability, as text.
        fate: "kept" with the rank, or the reason why it was dropped, in words.
        because_of: Number of the chunk that was kept instead.
        because_of_title: Title of that chunk's document.
        paint: CSS classes of its document's colour; empty if the document was dropped.
        askers: The first parts that found it, in the window's order.
        more_askers: How many further parts found it.
        text: Its text; None if the chunk is no longer stored.
        source: Link to the document's file; None if there is no such file.
    """

    number: int
    rank: int | None
    title: str
    about: str
    similarity: str
    score: str
    probability: str
    fate: str
    because_of: int | None
    because_of_title: str
    paint: str
    askers: tuple[Asker, ...]
    more_askers: int
    text: str | None
    source: str | None


def list_kept(report: WindowReport) -> tuple[KeptEntry, ...]:
    """List the documents of the context, by rank."""
    entries: dict[int, int] = {}
    for number, candidate in enumerate(report.candidates, start=1):
        if candidate.rank is not None:
            entries.setdefault(candidate.document, number)
    count = len(report.messages)
    return tuple(
        KeptEntry(
            place=place,
            rank=", ".join(str(rank) for rank in document.ranks),
            title=document.title,
            about=f"{_date(report, place)}, similarity {document.similarity:.2f}",
            share=f"serves {document.served_messages} of {count} messages"
            + (f" ({document.served_messages / count:.0%})" if count else ""),
            paint=name_paint(place),
            entry=entries[place],
        )
        for place, document in enumerate(report.kept_documents)
    )


def list_chunks(report: WindowReport, sources: Mapping[str, str]) -> tuple[ChunkEntry, ...]:
    """List every chunk that was found, kept ones first.

    Args:
        report: From :func:`backstory.interfaces.pages.report.window_tables.make_window_report`.
        sources: From :func:`link_sources`.
    """
    numbers = {candidate.chunk_id: number for number, candidate in enumerate(report.candidates, start=1)}
    entries = []
    for number, candidate in enumerate(report.candidates, start=1):
        document = report.documents[candidate.document]
        firsts = sorted({report.queries[place].first for place in candidate.queries})
        because_of = numbers.get(candidate.because_of) if candidate.because_of else None
        entries.append(
            ChunkEntry(
                number=number,
                rank=candidate.rank,
                title=document.title,
                about=", ".join(filter(None, (_date(report, candidate.document), candidate.heading))),
                similarity=f"{candidate.similarity:.3f}",
                score=f"{candidate.score:.3f}",
                probability=f"{candidate.probability:.2f}",
                fate=describe_fate(candidate),
                because_of=because_of,
                because_of_title=""
                if because_of is None
                else report.documents[report.candidates[because_of - 1].document].title,
                paint=name_paint(candidate.document) if document.ranks else "",
                askers=tuple(
                    Asker(first, f"{report.messages[first].timestamp:%H:%M}") for first in firsts[:_ASKERS]
                ),
                more_askers=max(len(firsts) - _ASKERS, 0),
                text=candidate.text,
                source=sources.get(document.document_id),
            )
        )
    return tuple(entries)


def link_sources(report: WindowReport, posts: Path, page_folder: Path, root: Path) -> dict[str, str]:
    """Link the files of the documents that were found, relative to the folder of the page.

    Args:
        report: From :func:`backstory.interfaces.pages.report.window_tables.make_window_report`.
        posts: Folder of the documents.
        page_folder: Folder that the page is written to.
        root: Folder of the workspace.

    Returns:
        Link by document id, without documents whose file is absent. Empty if the page lies outside the workspace,
        because the relative paths would disclose names of private folders.
    """
    if not page_folder.resolve().is_relative_to(root.resolve()):
        return {}
    files = {document.document_id: posts / document.uri for document in report.documents if document.uri}
    base = page_folder.resolve()
    return {
        key: quote(os.path.relpath(path.resolve(), base)) for key, path in files.items() if path.is_file()
    }


def _date(report: WindowReport, place: int) -> str:
    published_at = report.documents[place].published_at
    return f"{published_at:%Y-%m-%d}" if published_at else "undated"
