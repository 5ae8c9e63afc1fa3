"""The wording of a page: moments, causes, and descriptions of the parts of a window."""

from __future__ import annotations

from datetime import datetime

from backstory.interfaces.pages.report.window_report import Candidate, Cell, Query, WindowReport
from backstory.text.prompts.entries import cut_line, cut_snippet

_TITLE_CHARACTERS = 400

CAUSE_WORDS = {
    "kept": "kept",
    "below_threshold": "dropped: too improbable that it tells anything about a part of the window",
    "duplicate_document": "dropped: a better chunk of the same document was preferred",
    "near_duplicate": "dropped: nearly the same text as another chunk",
    "below_rating": "dropped: rated by the reranker as serving no topic",
    "not_selected": "dropped: other documents add more",
    "over_budget": "dropped: chosen, but the token budget was used up",
}

STATE_WORDS = {
    "beyond_limit": "served only by documents beyond the limits of the context",
    "unsure": "whether a document serves it is unsure",
    "uncovered": "nothing in the index serves it",
    "not_asked": "it asks for nothing",
}
"""Why no document of the context serves a part, by its state."""

STATUS_WORDS = {
    "ok": "",
    "no_hits": "No document is probable enough: this window has no context.",
    "disabled": "Retrieval is switched off (rag.enabled is false): nothing was searched for this window.",
    "degraded": "This context is degraded:",
    "error": "The search failed: this window has no context.",
}


def describe_moment(moment: datetime) -> str:
    """Write a moment as day and time."""
    return f"{moment:%d %b %H:%M}"


def describe_query(report: WindowReport, query: Query) -> str:
    """Describe a part of the window: its time, authors and text, and the document that serves it."""
    if query.document is None:
        served = STATE_WORDS[query.state]
    else:
        document = report.documents[query.document]
        served = f"best served by {document.ranks[0]}. {document.title}"
    messages = report.messages[query.first : query.last + 1]
    when = "" if not messages else f"{messages[0].timestamp:%H:%M} to {messages[-1].timestamp:%H:%M}, "
    authors = ", ".join(dict.fromkeys(message.author for message in messages if message.author))
    return f"{when}{cut_line(authors, 120)}: {served}\n{cut_snippet(query.text, _TITLE_CHARACTERS)}"


def describe_cell(report: WindowReport, cell: Cell) -> str:
    """Describe how well one query matches one document."""
    document = report.documents[cell.document]
    keywords = "" if cell.keyword_score is None else f", BM25 {cell.keyword_score:.1f}"
    verdict = "in the context" if cell.kept else "dropped" if cell.passed else "too improbable"
    scores = f"score {cell.score:.3f}, similarity {cell.similarity:.3f}{keywords}"
    found = f"probability {cell.probability:.2f}: {verdict}; {scores}"
    return f"{document.title}\n{found}\n{cut_line(report.queries[cell.query].text, 160)}"


def describe_fate(candidate: Candidate) -> str:
    """Describe whether a chunk is in the context, or the reason why not."""
    return f"kept, rank {candidate.rank}" if candidate.rank is not None else CAUSE_WORDS[candidate.cause]
