"""Choose the sentences of an excerpt: highest IDF overlap with the query, then neighbours."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from backstory.retrieval.passages.units import Surroundings

_ELLIPSIS_TOKENS: Final = 3
_LEAST_SHARE: Final = 0.4
"""Of the best unit's rarity per token: what another unit must add to begin a place of its own."""


@dataclass(frozen=True)
class Offer:
    """The units of one chunk and its neighbours, from which a passage is chosen.

    Attributes:
        surroundings: The text and its units.
        words: Words of each unit that the index knows.
        tokens: Estimated tokens of each unit, with the space before it.
    """

    surroundings: Surroundings
    words: Sequence[Collection[int]]
    tokens: Sequence[int]


def choose_units(
    offer: Offer, open_: Collection[int], weights: Mapping[int, float], budget: int
) -> list[int]:
    """Choose the units of a passage within a budget.

    Units of the chosen chunk and of the chunks beside it compete by the rarity of the query words that they add, per
    token; the first is always of the chosen chunk. They bring the heading or line that introduces them. Units that add
    little beside the best one are left, so that the passage does not fall into scraps: the rest of the budget goes to
    what stands beside the chosen ones, so that they are read in their context.

    Args:
        offer: The units.
        open_: Positions of the units that may be chosen.
        weights: Rarity of each word that the query chunks ask for.
        budget: Most tokens.

    Returns:
        Positions in order; empty if no unit fits.
    """
    chosen: set[int] = set()
    left = _take_best(offer, open_, weights, budget, chosen)
    if not chosen:
        left = _take_first(offer, open_, budget, chosen)
    left = _take_introductions(offer, open_, left, chosen)
    _grow(offer, open_, left, chosen)
    return _without_idle_introductions(offer, sorted(chosen))


def count_tokens(offer: Offer, chosen: Sequence[int]) -> int:
    """Count the tokens of chosen units, with the ellipses between them."""
    breaks = sum(after != place + 1 for place, after in pairwise(chosen))
    return sum(offer.tokens[place] for place in chosen) + _ELLIPSIS_TOKENS * (breaks + 1)


def _take_best(
    offer: Offer, open_: Collection[int], weights: Mapping[int, float], left: int, chosen: set[int]
) -> int:
    units = offer.surroundings.units
    query_words = {
        place: [word for word in offer.words[place] if word in weights]
        for place in sorted(open_)
        if units[place].kind != "heading"
    }
    found: set[int] = set()
    least = 0.0
    while True:
        best, most = -1, least
        for place, words in query_words.items():
            if place in chosen or not (chosen or units[place].is_own) or _cost(offer, place, chosen) > left:
                continue
            # Added exactly: sums of rounded numbers would depend on the order of the words.
            gain = math.fsum(weights[word] for word in words if word not in found)
            gain /= math.sqrt(_cost(offer, place, chosen))
            if gain > most:
                best, most = place, gain
        if best < 0:
            return left
        least = least or _LEAST_SHARE * most
        left -= _cost(offer, best, chosen)
        chosen.add(best)
        found.update(query_words[best])


def _take_first(offer: Offer, open_: Collection[int], left: int, chosen: set[int]) -> int:
    """Take the first unit of the chosen chunk that fits, where no unit holds a query word."""
    units = offer.surroundings.units
    for place in sorted(open_):
        if units[place].is_own and units[place].kind != "heading" and _cost(offer, place, chosen) <= left:
            left -= _cost(offer, place, chosen)
            chosen.add(place)
            break
    return left


def _take_introductions(offer: Offer, open_: Collection[int], left: int, chosen: set[int]) -> int:
    """Take what introduces the chosen units, and what introduces that."""
    for place in sorted(chosen):
        above = offer.surroundings.units[place].introduced_by
        while above is not None and above in open_:
            if above not in chosen and _cost(offer, above, chosen) <= left:
                left -= _cost(offer, above, chosen)
                chosen.add(above)
            above = offer.surroundings.units[above].introduced_by
    return left


def _grow(offer: Offer, open_: Collection[int], left: int, chosen: set[int]) -> None:
    """Add neighbours of the chosen units, first of the chosen chunk, then of its neighbours."""
    units = offer.surroundings.units
    for own in (True, False):
        beside = True
        while chosen and beside:
            beside = False
            for place in sorted({near for there in chosen for near in (there + 1, there - 1)} - chosen):
                fits = place in open_ and _cost(offer, place, chosen) <= left
                if fits and (units[place].is_own or not own):
                    left -= _cost(offer, place, chosen)
                    chosen.add(place)
                    beside = True


def _cost(offer: Offer, place: int, chosen: set[int]) -> int:
    alone = place - 1 not in chosen and place + 1 not in chosen
    return offer.tokens[place] + _ELLIPSIS_TOKENS * alone


def _without_idle_introductions(offer: Offer, chosen: list[int]) -> list[int]:
    """Leave out headings and lines with a colon of which nothing that they introduce is shown."""
    units = offer.surroundings.units
    shown = set(chosen)
    for place in reversed(chosen):
        if units[place].kind != "text" and not any(units[other].introduced_by == place for other in shown):
            shown.discard(place)
    return sorted(shown) or chosen
