"""Scores of posts on a labelled set."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Final

import polars as pl

from backstory.text.words import NO_LANGUAGE, Words
from backstory.writing.citations import LinkedText
from benchmarks.posts.claims import Source

POST_METRICS: Final = (
    "topics said", "topics linked", "sections", "words of names", "ROUGE-L of names", "supported", "valid citations",
    "repeated",
)  # fmt: skip

_RUN: Final = 5
"""Words of a run that counts as repeated if an earlier document holds it."""
_ALWAYS: Final = datetime.min
_WORD: Final = re.compile(r"\w+")


@dataclass(frozen=True)
class TopicLabels:
    """What a window is about, by the labels.

    Attributes:
        said: Topic of each message; empty for none.
        documents: Topics for which each document is relevant.
        names: What a person calls each topic of a message, in one or several ways.
    """

    said: Sequence[str]
    documents: Mapping[str, frozenset[str]]
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)


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


def score_sections(sections: Sequence[Sequence[int]], said: Sequence[str]) -> float:
    """Give the V-measure of the sections of a post against the topics of their messages (Rosenberg, 2007).

    It is 1 where each section holds all messages of one topic and no others. The messages of no section count as one
    more section, and messages without a topic do not count.
    """
    labels = {place: number for number, places in enumerate(sections) for place in places}
    pairs = [(topic, labels.get(place, -1)) for place, topic in enumerate(said) if topic]
    of_topics, of_sections = (_entropy([pair[side] for pair in pairs]) for side in (0, 1))
    both = _entropy(pairs)
    pure = 1 - (both - of_sections) / of_topics if of_topics else 1.0
    complete = 1 - (both - of_topics) / of_sections if of_sections else 1.0
    return 2 * pure * complete / (pure + complete) if pure + complete > 0 else 0.0


def _entropy(values: Sequence[object]) -> float:
    return -sum(count / len(values) * math.log(count / len(values)) for count in Counter(values).values())


def score_names(
    headings: Sequence[tuple[str, Sequence[int]]], labels: TopicLabels, words: Words
) -> tuple[float, float]:
    """Compare headings with what people call the topic of most messages under them.

    Args:
        headings: Headings with the positions of the messages under them.
        labels: What the window is about.
        words: Splits texts into content words.

    Returns:
        The mean share of content words that heading and name share (Dice), and the mean ROUGE-L of the two (its
        F-measure); of several names the one that is nearest counts. 0 for a post without a heading over a named topic.
    """
    scores = []
    for heading, places in headings:
        topics = Counter(labels.said[place] for place in places if labels.said[place])
        names = labels.names.get(topics.most_common(1)[0][0], ()) if topics else ()
        if names:
            scores.append(
                (
                    max(_share(set(words.split(heading)), set(words.split(name))) for name in names),
                    max(_measure_rouge(heading, name) for name in names),
                )
            )
    if not scores:
        return 0.0, 0.0
    return sum(one for one, _ in scores) / len(scores), sum(two for _, two in scores) / len(scores)


def _share(left: set[str], right: set[str]) -> float:
    return 2 * len(left & right) / (len(left) + len(right)) if left and right else 0.0


def _measure_rouge(left: str, right: str) -> float:
    mine, theirs = (_WORD.findall(text.casefold()) for text in (left, right))
    row = [0] * (len(theirs) + 1)
    for word in mine:
        before = 0
        for place, other in enumerate(theirs, 1):
            before, row[place] = row[place], before + 1 if word == other else max(row[place], row[place - 1])
    return 2 * row[-1] / (len(mine) + len(theirs)) if mine and theirs else 0.0


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
