"""Scores of posts on a labelled set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Final

import polars as pl

from backstory.text.stemmers import NO_LANGUAGE
from backstory.text.words import Words
from backstory.writing.citations import LinkedText
from benchmarks.posts.claims import Source

POST_METRICS: Final = ("topics said", "topics linked", "supported", "valid citations", "repeated")

_RUN: Final = 5
"""Words of a run that counts as repeated if an earlier document holds it."""
_ALWAYS: Final = datetime.min


@dataclass(frozen=True)
class TopicLabels:
    """What a window is about, by the labels.

    Attributes:
        said: Topic of each message; empty for none.
        documents: Topics for which each document is relevant.
    """

    said: Sequence[str]
    documents: Mapping[str, frozenset[str]]


def score_topics(
    supports: Sequence[Source | None], linked: LinkedText, labels: TopicLabels
) -> tuple[float, float]:
    """Give the shares of a window's topics that a post says, and to whose documents it links.

    A topic is said if one of its messages supports a claim of the post. It is linked if the post cites a document that
    is relevant to it.
    """
    topics = {topic for topic in labels.said if topic}
    said = {labels.said[one.message] for one in supports if one is not None and one.message is not None}
    answerable = frozenset[str]().union(*labels.documents.values())
    cited = frozenset[str]().union(*(labels.documents.get(key, frozenset()) for key in linked.cited))
    return (
        len(said & topics) / len(topics) if topics else 0.0,
        len(cited) / len(answerable) if answerable else 0.0,
    )


def score_claims(supports: Sequence[Source | None]) -> float:
    """Give the share of claims with a supporting sentence; 1 for a post without a claim."""
    return sum(one is not None for one in supports) / len(supports) if supports else 1.0


def score_citations(linked: LinkedText) -> float:
    """Give the share of links and citations that name a document that the writer was shown; 1 without any."""
    cited = len(linked.cited)
    return cited / (cited + linked.removed) if cited + linked.removed else 1.0


class Repetition:
    """Finds the runs of five words that posts share with earlier documents.

    Args:
        claims: The claims of every post to be scored.
        documents: Table ``documents``.
    """

    def __init__(self, claims: Iterable[Sequence[str]], documents: pl.DataFrame) -> None:
        self._words = Words(NO_LANGUAGE)
        sought = {run for post in claims for claim in post for run in self._runs(claim)}
        self._first: dict[tuple[str, ...], datetime] = {}
        for text, published in documents.select("text", "published_at").iter_rows():
            date = _ALWAYS if published is None else published.replace(tzinfo=None)
            for run in self._runs(text):
                if run in sought:
                    self._first[run] = min(date, self._first.get(run, date))

    def score(self, claims: Sequence[str], started_at: datetime) -> float:
        """Give the share of a post's runs that documents without a date, or from before a window, hold."""
        runs = {run for claim in claims for run in self._runs(claim)}
        start = started_at.replace(tzinfo=None)
        held = sum(run in self._first and self._first[run] <= start for run in runs)
        return held / len(runs) if runs else 0.0

    def _runs(self, text: str) -> Iterable[tuple[str, ...]]:
        words = self._words.split(text)
        return zip(*(islice(words, start, None) for start in range(_RUN)), strict=False)
