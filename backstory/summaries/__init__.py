"""Summaries of one document: its sections, what is chosen or written of each, and what becomes of a failed one."""

from backstory.summaries.choice import make_summarizer
from backstory.summaries.request import STYLES, Source, Style, Summarizer
from backstory.summaries.summarizing import DocumentSummary, SectionOutcome, summarize

__all__ = [
    "STYLES",
    "DocumentSummary",
    "SectionOutcome",
    "Source",
    "Style",
    "Summarizer",
    "make_summarizer",
    "summarize",
]
