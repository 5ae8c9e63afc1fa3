"""The summary of one document of the tables."""

from __future__ import annotations

from collections.abc import Sequence

from backstory.base.errors import InputError
from backstory.interfaces.library.corpus import Corpus, place_text
from backstory.interfaces.library.names import PlacedText
from backstory.interfaces.library.results import SectionSummary, Style, Summary
from backstory.pipeline.chats.named_documents import NameView
from backstory.retrieval.found import DocumentEntry, cite
from backstory.text.chunking.units import Pages
from backstory.writing.summaries.prompt import list_pages
from backstory.writing.summaries.request import STYLES, Source
from backstory.writing.summaries.summarizing import SectionOutcome, name_section, summarize


def summarize_document(
    corpus: Corpus, name: str, style: Style, max_words: int, notes: Sequence[str]
) -> Summary:
    """Summarize a document by the summarizer of the settings; ``notes`` tell how old the documents are."""
    if style not in STYLES:
        raise InputError(f"{style!r} is no style; choose one of {', '.join(STYLES)}", code="unknown_value")
    if max_words < 1:
        raise InputError(f"max_words_per_section is {max_words}; it must be at least 1", code="out_of_range")
    row = corpus.find(name)
    placed, document, workspace = place_text(row), corpus.describe(row), corpus.workspace
    view = NameView(workspace, workspace.settings.summaries)
    if view.list_withheld([document.document_id]):
        what = f"{document.uri} names members of a chat, and no model is sent it while privacy.documents is reject; set"
        raise InputError(
            f"{what} it to replace, or summaries.provider to extractive", code="withheld_document"
        )

    def send(text: str) -> str:
        return view.show(document.document_id, text) or ""

    source = Source(document.title, placed.text, Pages(placed.page_starts), document.revision, send)
    made = summarize(source, workspace.summarizer, style, max_words)
    sections = tuple(_describe(outcome, document, placed) for outcome in made.sections)
    failed = [each for each in made.sections if each.summary is None]
    reasons = [f"{name_section(each.section)}: {each.reason}" for each in failed]
    if made.combining is not None:
        reasons.append(f"the sections stand one after the other, not as one summary: {made.combining}")
    pages = [cite(document.uri, pages=(page, page), characters=(0, 0)) for page in list_pages(made.text)]
    done = [section.cite for section in sections if section.status == "success"]
    return Summary(
        document=document,
        style=style,
        summary=made.text,
        status=made.status,
        reasons=tuple(reasons),
        total_words=made.words,
        max_words_per_section=max_words,
        sections=len(sections),
        sections_processed=len(done),
        section_summaries=sections,
        citations=tuple(pages or done),
        model=workspace.summarizer.id,
        notes=tuple(note for note in (document.note, *notes, *view.list_notes()) if note),
    )


def _describe(outcome: SectionOutcome, document: DocumentEntry, placed: PlacedText) -> SectionSummary:
    section = outcome.section
    first, last = section.pages or (None, None)
    return SectionSummary.of(
        section,
        section=section.number,
        page_start=first,
        page_end=last,
        char_start=section.start,
        char_end=section.end,
        summary=outcome.summary or "",
        status="failed" if outcome.summary is None else "success",
        reason=outcome.reason,
        cite=cite(
            document.uri,
            pages=section.pages or (None, None),
            lines=(placed.line_of(section.start), placed.line_of(max(section.start, section.end - 1))),
            characters=(section.start, section.end),
        ),
    )
