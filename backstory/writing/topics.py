"""The topics of a window: messages that one earlier post serves, and stretches of the rest that hold together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from statistics import fmean, pstdev
from typing import Final

from backstory.writing.material import Citation, WindowMessage
from backstory.writing.sentences import sum_weights, weigh_terms

_PAUSE: Final = timedelta(minutes=30)
"""A longer silence ends a stretch."""
_BLOCK: Final = 4
"""Messages on either side of a place whose words are compared there."""
_SAME_DOCUMENTS: Final = 0.5
"""Share of the messages that both of two documents serve, from which on the two belong to one topic."""
_SAME_WORDS: Final = 0.3
"""Share of the weight of a stretch's terms that another topic must hold for the two to be one."""
_SAME_WORDS_NEXT: Final = 0.1
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
    labels = _label_served(len(messages), dividing, citations, terms, passage_terms, weights)
    _drop_strays(labels, messages, terms, passage_terms)
    _label_rest(labels, messages, terms, weights, len(groups))
    places: dict[int, list[int]] = {}
    for place, label in enumerate(labels):
        if label is not None:
            places.setdefault(label, []).append(place)
    return [
        Topic(tuple(members), tuple(citations[at] for at in groups[label]) if label < len(groups) else ())
        for label, members in places.items()
    ]


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
    count: int,
    groups: Sequence[Sequence[int]],
    citations: Sequence[Citation],
    terms: Sequence[frozenset[str]],
    passage_terms: Sequence[frozenset[str]],
    weights: Mapping[str, float],
) -> list[int | None]:
    """Assign each served message to the group of documents with most of its words; without such words, to the best."""
    serving: list[list[int]] = [[] for _ in range(count)]
    for label, group in enumerate(groups):
        for place in sorted({place for at in group for place in citations[at].messages}):
            serving[place].append(label)
    return [
        max(choice, key=lambda label: (sum_weights(terms[place] & passage_terms[label], weights), -label))
        if (choice := serving[place])
        else None
        for place in range(count)
    ]


def _drop_strays(
    labels: list[int | None],
    messages: Sequence[WindowMessage],
    terms: Sequence[frozenset[str]],
    passage_terms: Sequence[frozenset[str]],
) -> None:
    """Take the label from messages that share no word with their document, and are far from others of that label."""
    known = list(labels)
    for place, label in enumerate(known):
        if label is None or terms[place] & passage_terms[label]:
            continue
        near = (
            other
            for other in (_find_same(known, place, -1), _find_same(known, place, 1))
            if other is not None and abs(messages[other].sent_at - messages[place].sent_at) <= _PAUSE
        )
        if next(near, None) is None:
            labels[place] = None if known.count(label) > 1 else label


def _find_same(labels: Sequence[int | None], place: int, step: int) -> int | None:
    """Find the nearest place with the same label in one direction."""
    return next(
        (
            other
            for other in range(place + step, len(labels) if step > 0 else -1, step)
            if labels[other] == labels[place]
        ),
        None,
    )


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
