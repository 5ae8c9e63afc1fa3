"""The topics of a window: messages that one document serves, and stretches of the rest that hold together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from statistics import fmean, median, pstdev
from typing import Final

from backstory.writing.material import Citation, WindowMessage
from backstory.writing.sentences import sum_weights, weigh_terms

_PAUSE: Final = timedelta(minutes=30)
"""A longer silence ends a stretch."""
_BLOCK: Final = 4
"""Messages on either side of a place whose words are compared there."""
_SAME_DOCUMENTS: Final = 0.5
"""Share of the messages that both of two documents serve, from which on the two belong to one topic."""
_ONLY_WORDS: Final = 0.75
"""How much the words that a message shares with a document count if the document does not serve it for certain."""
_NO_DOCUMENT: Final = 0.9
"""Fit of a message to no document; one that serves it without a word in common fits hardly better."""
_MANY_TERMS: Final = 15
"""Terms from which on a message says more than others, and counts as several."""
_CHANGE: Final = 2.0
"""What a change of topic from one message to the next costs, where there is no pause."""
_USUAL_GAP: Final = (20.0, 300.0)
"""Bounds of the usual time between two messages of a window, in seconds."""
_LONG_GAP: Final = 6
"""Usual gaps from which on a silence makes a change of topic cheaper."""
_LEAST_SHARE: Final = 0.1
"""Share of the cost of a change that the longest silence leaves."""
_SAME_WORDS: Final = 0.5
"""Share of the weight of a stretch's terms that another topic must hold for the two to be one."""
_SAME_WORDS_NEXT: Final = 0.2
"""The same for the topic just before the stretch."""
_FEW_MESSAGES: Final = 3
_FEW_TERMS: Final = 4
"""A stretch with fewer messages or terms is an interjection, and belongs to the talk around it."""


@dataclass(frozen=True)
class Topic:
    """Topic of a part of a window.

    Attributes:
        places: Positions of its messages, ascending.
        citations: The documents that serve it, best first.
    """

    places: tuple[int, ...]
    citations: tuple[Citation, ...] = ()


def find_topics(
    messages: Sequence[WindowMessage],
    terms: Sequence[frozenset[str]],
    citations: Sequence[Citation],
    passages: Sequence[frozenset[str]],
) -> list[Topic]:
    """Divide a window into topics.

    Args:
        messages: Messages of the window, in order.
        terms: Terms of each message.
        citations: Documents of its context, best first.
        passages: Terms of the passage of each document.

    Returns:
        Topics in the order of their first messages. Every message belongs to one of them.
    """
    weights = weigh_terms(terms)
    groups = _join_documents(citations)
    dividing = [_list_dividing(group, citations) for group in groups]
    passage_terms = [frozenset[str]().union(*(passages[at] for at in group)) for group in dividing]
    labels = _label_served(messages, dividing, citations, terms, passage_terms, weights)
    _label_rest(labels, messages, terms, weights, len(groups))
    places: dict[int, list[int]] = {}
    for place, label in enumerate(labels):
        if label is not None:
            places.setdefault(label, []).append(place)
    serving = _spread_documents(groups, citations, labels)
    return [
        Topic(tuple(members), tuple(citations[at] for at in serving.get(label, ())))
        for label, members in places.items()
    ]


def _spread_documents(
    groups: Sequence[Sequence[int]], citations: Sequence[Citation], labels: Sequence[int | None]
) -> dict[int | None, list[int]]:
    """Return the documents of each topic: a group without a topic of its own joins that of most of its messages."""
    held = set(labels)
    serving: dict[int | None, list[int]] = {
        label: list(group) for label, group in enumerate(groups) if label in held
    }
    for label, group in enumerate(groups):
        if label not in held:
            counts = Counter(labels[place] for at in group for place in citations[at].messages)
            serving.setdefault(counts.most_common(1)[0][0], []).extend(group)
    return serving


def _join_documents(citations: Sequence[Citation]) -> list[list[int]]:
    """Join the documents that serve the same messages.

    A post of an earlier window has several topics itself, so it divides nothing that other documents divide: it joins
    the documents with which it shares most messages.
    """
    groups: list[list[int]] = []
    served: list[set[int]] = []
    for place, citation in sorted(enumerate(citations), key=lambda placed: placed[1].is_post):
        mine = set(citation.messages)
        if not mine:
            continue
        shared = [len(mine & theirs) / (1 if citation.is_post else len(mine | theirs)) for theirs in served]
        best = max(range(len(groups)), key=lambda label: (shared[label], -label), default=None)
        if best is not None and shared[best] >= (1 if citation.is_post else _SAME_DOCUMENTS):
            groups[best].append(place)
        else:
            groups.append([place])
            served.append(mine)
    return groups


def _list_dividing(group: Sequence[int], citations: Sequence[Citation]) -> list[int]:
    """Return the documents of a group that say which messages are its own: not posts, unless there are only posts.

    A post that has joined a document serves messages of other topics, too, which are none of the group's.
    """
    return [at for at in group if not citations[at].is_post] or list(group)


def _label_served(
    messages: Sequence[WindowMessage],
    groups: Sequence[Sequence[int]],
    citations: Sequence[Citation],
    terms: Sequence[frozenset[str]],
    passage_terms: Sequence[frozenset[str]],
    weights: Mapping[str, float],
) -> list[int | None]:
    """Assign each message to a group of documents or to none, so that neighbours mostly stay together.

    The labels are those with the highest sum (Viterbi, 1967): each message adds how well its label fits it, and each
    change of the label takes something away, unless there was a pause.
    """
    if not messages:
        return []
    served = [{place for at in group for place in citations[at].messages} for group in groups]
    holders = Counter(term for terms_of_group in passage_terms for term in terms_of_group)
    rarest = max(weights.values(), default=1.0)
    shares = {term: weights.get(term, 0.0) / rarest / count for term, count in holders.items()}
    rest = len(groups)

    def fit(place: int) -> list[float]:
        said = [min(sum_weights(terms[place] & held, shares), 1.0) for held in passage_terms]
        fits = [
            1 + words if place in places else _ONLY_WORDS * words
            for words, places in zip(said, served, strict=True)
        ]
        weight = max(len(terms[place]) / _MANY_TERMS, 1.0)
        return [weight * one for one in (*fits, _NO_DOCUMENT)]

    sums, steps = fit(0), list[list[int]]()
    for place, cost in enumerate(_price_changes(messages), 1):
        best = max(range(rest + 1), key=lambda label: (sums[label], -label))
        before = [label if sums[label] >= sums[best] - cost else best for label in range(rest + 1)]
        steps.append(before)
        sums = [
            sums[come] - (cost if come != label else 0) + value
            for label, (come, value) in enumerate(zip(before, fit(place), strict=True))
        ]
    label = max(range(rest + 1), key=lambda label: (sums[label], -label))
    path = [label]
    for before in reversed(steps):
        label = before[label]
        path.append(label)
    return [None if label == rest else label for label in reversed(path)]


def measure_usual_gap(messages: Sequence[WindowMessage]) -> float:
    """Return the usual time between two messages in seconds, within bounds; the longest for a single message."""
    gaps = [(after.sent_at - before.sent_at).total_seconds() for before, after in pairwise(messages)]
    return min(max(median(gaps), _USUAL_GAP[0]), _USUAL_GAP[1]) if gaps else _USUAL_GAP[1]


def _price_changes(messages: Sequence[WindowMessage]) -> list[float]:
    """Return what a change of topic before each message but the first costs: less, the longer the silence before."""
    gaps = ((after.sent_at - before.sent_at).total_seconds() for before, after in pairwise(messages))
    usual = measure_usual_gap(messages)
    return [_CHANGE * min(max(_LONG_GAP * usual / max(gap, 1.0), _LEAST_SHARE), 1.0) for gap in gaps]


def _label_rest(
    labels: list[int | None],
    messages: Sequence[WindowMessage],
    terms: Sequence[frozenset[str]],
    weights: Mapping[str, float],
    groups: int,
) -> None:
    """Assign each stretch that no document serves to the topic whose words it shares, or make it a topic of its own."""
    terms_by_label: dict[int, Counter[str]] = {}
    for place, label in enumerate(labels):
        if label is not None:
            terms_by_label.setdefault(label, Counter()).update(terms[place])
    for stretch in _find_stretches(labels, messages, terms, weights):
        mine = Counter(term for place in stretch for term in terms[place])
        neighbour = _find_neighbour(stretch, labels, messages)
        label = _find_kindred(mine, terms_by_label, weights, neighbour)
        if label is None and (len(stretch) < _FEW_MESSAGES or len(mine) < _FEW_TERMS):
            label = neighbour
        if label is None:
            label = max([groups - 1, *terms_by_label]) + 1
        terms_by_label.setdefault(label, Counter()).update(mine)
        for place in stretch:
            labels[place] = label


def _find_stretches(
    labels: Sequence[int | None],
    messages: Sequence[WindowMessage],
    terms: Sequence[frozenset[str]],
    weights: Mapping[str, float],
) -> list[list[int]]:
    """Cut the messages without a label into stretches: at others' messages, at pauses, and where the words change."""
    rest = [place for place, label in enumerate(labels) if label is None]
    changes = _find_changes([terms[place] for place in rest], weights)
    stretches: list[list[int]] = []
    for number, place in enumerate(rest):
        before = rest[number - 1] if number else None
        if (
            before is None
            or before != place - 1
            or number in changes
            or messages[place].sent_at - messages[before].sent_at > _PAUSE
        ):
            stretches.append([])
        stretches[-1].append(place)
    return stretches


def _find_changes(terms: Sequence[frozenset[str]], weights: Mapping[str, float]) -> set[int]:
    """Find where the words change: the deep valleys of the cohesion of neighbours (Hearst, 1997)."""
    if len(terms) < 2 * _BLOCK:
        return set()
    cohesion = [
        _compare(terms[max(place - _BLOCK, 0) : place], terms[place : place + _BLOCK], weights)
        for place in range(1, len(terms))
    ]
    depths = [
        _climb(cohesion[place::-1]) + _climb(cohesion[place:]) - 2 * cohesion[place]
        for place in range(len(cohesion))
    ]
    least = fmean(depths) + pstdev(depths) / 2
    changes: list[int] = []
    for place in sorted(range(len(depths)), key=lambda place: (-depths[place], place)):
        far = all(abs(place - other) >= _BLOCK for other in changes)
        if depths[place] > least and far:
            changes.append(place)
    return {place + 1 for place in changes}


def _climb(values: Sequence[float]) -> float:
    """Follow values from the first one up to where they fall."""
    for before, after in pairwise(values):
        if after < before:
            return before
    return values[-1]


def _compare(
    left: Sequence[frozenset[str]], right: Sequence[frozenset[str]], weights: Mapping[str, float]
) -> float:
    before, after = frozenset[str]().union(*left), frozenset[str]().union(*right)
    least = min(sum_weights(before, weights), sum_weights(after, weights))
    return sum_weights(before & after, weights) / least if least else 0.0


def _find_kindred(
    terms: Counter[str],
    terms_by_label: Mapping[int, Counter[str]],
    weights: Mapping[str, float],
    neighbour: int | None,
) -> int | None:
    """Find the topic that holds most of the weight of a stretch's terms; the neighbour needs less."""
    whole = sum_weights(terms, weights)
    shares = {
        label: sum_weights(terms.keys() & others.keys(), weights)
        / (_SAME_WORDS_NEXT if label == neighbour else _SAME_WORDS)
        for label, others in terms_by_label.items()
    }
    best = max(shares, key=lambda label: (shares[label], -label), default=None)
    return best if best is not None and shares[best] >= whole > 0 else None


def _find_neighbour(
    stretch: Sequence[int], labels: Sequence[int | None], messages: Sequence[WindowMessage]
) -> int | None:
    """Find the topic of the message before a stretch, or else after it, unless a pause lies between."""
    for place, edge in ((stretch[0] - 1, stretch[0]), (stretch[-1] + 1, stretch[-1])):
        if 0 <= place < len(messages) and abs(messages[place].sent_at - messages[edge].sent_at) <= _PAUSE:
            label = labels[place]
            if label is not None:
                return label
    return None
