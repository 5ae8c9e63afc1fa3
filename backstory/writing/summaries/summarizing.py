"""Summarize a document section by section, and name every section that failed."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, Literal, TypeAlias

from backstory.base.errors import (
    BudgetExhaustedError,
    ModelError,
    ModelSetupError,
    TransientError,
)
from backstory.base.progress import announce, show_progress
from backstory.base.telemetry import bind
from backstory.text.prompts.entries import cut_line, name_pages
from backstory.text.prompts.escaping import escape_line
from backstory.writing.summaries.request import (
    SectionRequest,
    Source,
    Style,
    Summarizer,
    UnwrittenError,
    choose_length,
)
from backstory.writing.summaries.sections import Section, count_words, divide_sections

Status: TypeAlias = Literal["success", "partial", "failed"]

_COMBINED: Final[dict[Style, int]] = {"brief": 150, "bullets": 300}
"""Most words of the one summary that is made of those of the sections, by style; ``detailed`` keeps them apart."""

_ACCOUNT: Final = (ModelSetupError, BudgetExhaustedError)
"""Errors that every section would meet: they end the calls."""

_SHOWN_REASON: Final = 300

_STEP: Final = "summarizing sections"


@dataclass(frozen=True)
class SectionOutcome:
    """Result of one section.

    Attributes:
        section: The section.
        summary: Its summary, Markdown; None if it has none.
        reason: Why it has none; None if it has one.
    """

    section: Section
    summary: str | None
    reason: str | None = None


@dataclass(frozen=True)
class DocumentSummary:
    """The summary of a document.

    Attributes:
        text: Markdown; names the sections that it lacks. Empty if every section failed.
        status: ``success``; ``partial`` if a section failed, or the step that makes one summary of all.
        sections: What became of each section.
        words: Number of words of the document.
        combining: Why no single summary was made of those of the sections; None if one was made, or none was wanted.
    """

    text: str
    status: Status
    sections: tuple[SectionOutcome, ...]
    words: int
    combining: str | None = None


def summarize(source: Source, summarizer: Summarizer, style: Style, max_words: int) -> DocumentSummary:
    """Summarize a document.

    Args:
        source: The document.
        summarizer: Summarizes its sections.
        style: The style.
        max_words: Most words of a section, at least 1.

    Raises:
        ModelSetupError: There is no key, or it was refused, and no section was summarized.
        BudgetExhaustedError: A budget or a quota is used up, and no section was summarized.
        StateError: The cache cannot be used.
        StoppedError: Whoever listens to the progress has stopped it; what was written is kept.
    """
    sections = divide_sections(source.text, source.pages, max_words)
    words = count_words(source.text)
    calls = _Calls(summarizer)
    requests = [
        SectionRequest(
            source, section, len(sections), style, choose_length(style, section, len(sections), max_words)
        )
        for section in sections
    ]
    outcomes = _ask_all(calls, requests, summarizer.threads)
    written = [outcome.summary for outcome in outcomes if outcome.summary is not None]
    if not written:
        calls.raise_end()
        return DocumentSummary("", "failed", outcomes, words)
    failed = len(written) < len(outcomes)
    text, combining = None, None
    if summarizer.combines and style in _COMBINED and len(written) > 1:
        text, combining = _condense(source, calls, style, written, max_words)
    text = text or _join(outcomes, style)
    if failed:
        text += f"\n\n{_name_failed(outcomes)}"
    status: Status = "partial" if failed or combining else "success"
    return DocumentSummary(text, status, outcomes, words, combining)


def name_section(section: Section) -> str:
    """Name a section for a person, such as ``section 2, Watering > In winter, pages 3-4``."""
    parts = [f"section {section.number}", escape_line(section.heading), _name_pages(section)]
    return ", ".join(part for part in parts if part)


def _ask_all(calls: _Calls, requests: Sequence[SectionRequest], threads: int) -> tuple[SectionOutcome, ...]:
    """Summarize the sections, and announce each before another begins: who stops the work pays for no further one."""
    outcomes: dict[int, SectionOutcome] = {}
    left = enumerate(requests)
    with (
        show_progress(_STEP) as report,
        ThreadPoolExecutor(max_workers=threads, thread_name_prefix="summarizing") as pool,
    ):
        running: dict[Future[SectionOutcome], int] = {}
        while True:
            for place, request in islice(left, threads - len(running)):
                running[pool.submit(bind(calls.summarize), request)] = place
            if not running:
                return tuple(outcomes[place] for place in range(len(requests)))
            ended, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in ended:
                outcomes[running.pop(future)] = future.result()
                report(len(outcomes), len(requests))


class _Calls:
    """Asks about sections, and about no more of them once a budget is used up or the service is down."""

    def __init__(self, summarizer: Summarizer) -> None:
        self.summarizer = summarizer
        self.end: ModelError | BudgetExhaustedError | None = None
        self._lock = threading.Lock()

    def summarize(self, request: SectionRequest) -> SectionOutcome:
        """Summarize a section; the outcome describes a failure."""
        outcome = SectionOutcome(request.section, None)
        try:
            with self._lock:
                end = self.end
            if end is not None:
                return replace(outcome, reason=f"not asked: {cut_line(str(end), _SHOWN_REASON)}")
            return replace(outcome, summary=self.summarizer.summarize(request))
        except UnwrittenError as error:
            return replace(outcome, reason=cut_line(str(error), _SHOWN_REASON))
        except (ModelError, BudgetExhaustedError) as error:
            if isinstance(error, _ACCOUNT) or isinstance(error.__cause__, TransientError):
                with self._lock:
                    self.end = self.end or error
            return replace(outcome, reason=cut_line(str(error), _SHOWN_REASON))

    def raise_end(self) -> None:
        """Raise what ended the calls, if it concerns the account and not the sections."""
        if isinstance(self.end, _ACCOUNT):
            raise self.end


def _join(outcomes: Sequence[SectionOutcome], style: Style) -> str:
    """Put the summaries of the sections one after the other; those of ``detailed`` get a heading each."""
    written = [outcome for outcome in outcomes if outcome.summary is not None]
    texts = [outcome.summary or "" for outcome in written]
    if style == "detailed" and len(outcomes) > 1:
        return "\n\n".join(
            f"## {_write_heading(outcome.section)}\n\n{text}"
            for outcome, text in zip(written, texts, strict=True)
        )
    return ("\n" if style == "bullets" else "\n\n").join(texts)


def _condense(
    source: Source, calls: _Calls, style: Style, summaries: Sequence[str], max_words: int
) -> tuple[str | None, str | None]:
    """Make one summary of several, in steps that each hold the limit of words.

    Returns:
        The summary, or None and why there is none.
    """
    if calls.end is not None:
        return None, cut_line(str(calls.end), _SHOWN_REASON)
    most = min(_COMBINED[style], max_words)
    left = list(summaries)
    while len(left) > 1:
        groups = _group(left, max_words)
        if len(groups) == len(left):
            return None, f"no two of the {len(left)} summaries have at most {max_words} words together"
        announce(_STEP, 1, 1)  # so that a call that was cancelled pays for no further one
        length = most if len(groups) == 1 else max(min(most, max_words // 4), 1)
        try:
            left = [
                calls.summarizer.combine(source, style, group, length) if len(group) > 1 else group[0]
                for group in groups
            ]
        except (UnwrittenError, ModelError, BudgetExhaustedError) as error:
            return None, cut_line(str(error), _SHOWN_REASON)
    return left[0], None


def _group(summaries: Sequence[str], max_words: int) -> list[list[str]]:
    """Put neighbouring summaries together as long as they have at most so many words."""
    groups: list[list[str]] = []
    total = 0
    for summary in summaries:
        words = count_words(summary)
        if groups and total + words <= max_words:
            groups[-1].append(summary)
            total += words
        else:
            groups.append([summary])
            total = words
    return groups


def _write_heading(section: Section) -> str:
    name, pages = escape_line(section.heading), _name_pages(section)
    if name and pages:
        return f"{name} ({pages})"
    return name or pages.capitalize() or f"Part {section.number}"


def _name_pages(section: Section) -> str:
    if section.pages is None:
        return ""
    return name_pages({"page_start": section.pages[0], "page_end": section.pages[1]})


def _name_failed(outcomes: Sequence[SectionOutcome]) -> str:
    """Return which sections the summary lacks, and why."""
    lacking = [
        f"{name_section(outcome.section)}: {escape_line(outcome.reason or '')}"
        for outcome in outcomes
        if outcome.summary is None
    ]
    return f"Not summarized: {'; '.join(lacking)}"
