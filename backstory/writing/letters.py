"""Letters: windows of a period with their contexts become the material of one post."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, TypeAlias

import numpy as np

from backstory.retrieval.selection.strategies import cover_evidence
from backstory.settings.models import ContextSettings
from backstory.settings.writers import LetterGrain
from backstory.storage.tables.partitions import next_partition, partition_key, previous_partition
from backstory.text.chunking.units import estimate_tokens
from backstory.writing.digest_writer import outline
from backstory.writing.material import (
    Citation,
    ContextMaterial,
    EarlierTopic,
    Period,
    WindowMaterial,
    WindowMessage,
)

Part: TypeAlias = tuple[WindowMaterial, ContextMaterial]
"""A window and its context."""

_OMISSION: Final = "\n…\n"
_UNCERTAIN: Final = 0.01
"""Evidence of a document for a window of which it serves no message for certain."""


def find_period(ended_at: datetime, timezone: str, grain: LetterGrain) -> str:
    """Return the first day of the period to which a window belongs: that in which it ended, by its own clock."""
    return partition_key(ended_at, grain, timezone)


def span_days(first: str, last: str, grain: LetterGrain) -> tuple[str, str]:
    """Return which days decide the letters of some days.

    Args:
        first: The first of the days, such as ``2025-03-03``.
        last: The last of them.
        grain: The period of a letter.

    Returns:
        The first day of the period before that of ``first``, with whose topics a letter is compared, and the first day
        of the period after that of ``last``.
    """
    begin, end = (
        partition_key(datetime.fromisoformat(day).replace(tzinfo=UTC), grain) for day in (first, last)
    )
    return previous_partition(begin, grain), next_partition(end, grain)


def make_letter(
    period: Period, parts: Sequence[Part], before: Sequence[Part], settings: ContextSettings
) -> Part:
    """Merge windows and their contexts to the material of one letter.

    Args:
        period: What the letter tells of; its windows and earlier topics are filled in.
        parts: The windows, at least one, in order of time.
        before: The windows of the period before, in order of time.
        settings: The budgets of one context, of which a letter has no more than a window.
    """
    earlier: tuple[EarlierTopic, ...] = ()
    if any(window.messages for window, _ in before):
        window, context = _merge(period, before, settings)
        earlier = tuple(
            EarlierTopic(section.heading, section.documents, tuple(sorted(section.terms)))
            for section in outline(window, context)
        )
    window, context = _merge(period, parts, settings)
    told = replace(
        period,
        windows=tuple(one.window_id for one, _ in parts),
        last_started_at=max(one.started_at for one, _ in parts),
        earlier=earlier,
    )
    return replace(window, period=told), context


def _merge(period: Period, parts: Sequence[Part], settings: ContextSettings) -> Part:
    messages: dict[str, WindowMessage] = {}
    for window, _ in parts:
        for message in window.messages:
            messages.setdefault(message.message_id, message)  # windows may overlap
    ordered = tuple(messages.values())
    last = parts[-1][0]
    spoken = Counter(one.language for one, _ in parts for _ in one.messages if one.language)
    merged = WindowMaterial(
        window_id=last.window_id,
        conversation_id=last.conversation_id,
        partition=last.partition,
        started_at=min(window.started_at for window, _ in parts),
        ended_at=max(window.ended_at for window, _ in parts),
        language=spoken.most_common(1)[0][0] if spoken else None,
        messages=ordered,
        period=replace(period, windows=(), earlier=()),
        people=last.people,
    )
    places = {key: place for place, key in enumerate(messages)}
    return merged, _merge_contexts(parts, places, settings)


def _merge_contexts(
    parts: Sequence[Part], places: dict[str, int], settings: ContextSettings
) -> ContextMaterial:
    """Choose among the documents of all contexts those that together serve most messages, within one budget."""
    found: dict[str, Citation] = {}
    perhaps: dict[str, set[int]] = {}
    for window, context in parts:
        own = [places[message.message_id] for message in window.messages]
        for citation in context.citations:
            served = tuple(own[place] for place in citation.messages)
            before = found.get(citation.document_id)
            found[citation.document_id] = replace(
                citation,
                passage=_join_passages(before, citation),
                messages=tuple(sorted({*(before.messages if before else ()), *served})),
            )
            if not served:
                perhaps.setdefault(citation.document_id, set()).update(own)
    budgets = {False: settings.max_tokens, True: settings.posts_max_tokens}
    kept = [
        citation
        for is_post, budget in budgets.items()
        for citation in _cover(
            [one for one in found.values() if one.is_post is is_post], perhaps, len(places), budget
        )
    ]
    status = "ok" if kept else parts[-1][1].status
    numbered = (replace(citation, number=number) for number, citation in enumerate(kept, 1))
    return ContextMaterial(status, tuple(numbered))


def _cover(
    citations: Sequence[Citation], perhaps: dict[str, set[int]], messages: int, budget: int
) -> Iterable[Citation]:
    """Yield documents that serve every message before any message twice, as long as they fit into a budget."""
    if not citations or not messages:
        return
    evidence = np.zeros((messages, len(citations)))
    for column, citation in enumerate(citations):
        evidence[sorted(perhaps.get(citation.document_id, ())), column] = _UNCERTAIN
        evidence[list(citation.messages), column] = 1
    tokens = estimate_tokens([f"{citation.title}\n{citation.passage}" for citation in citations]).tolist()
    left = budget
    for place in cover_evidence(evidence, len(citations)).tolist():
        if tokens[place] <= left:
            left -= tokens[place]
            yield citations[place]


def _join_passages(before: Citation | None, citation: Citation) -> str:
    """Join the passages that two windows were shown of a document, each piece once."""
    pieces = [] if before is None else before.passage.split(_OMISSION)
    pieces += [
        piece for piece in citation.passage.split(_OMISSION) if not any(piece in one for one in pieces)
    ]
    return _OMISSION.join(pieces)
