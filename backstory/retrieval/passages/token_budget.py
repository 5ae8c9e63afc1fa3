"""Dividing a budget among documents by what each serves."""

from __future__ import annotations

from collections.abc import Sequence


def share_budget(room: int, weights: Sequence[int], wants: Sequence[int], floors: Sequence[int]) -> list[int]:
    """Divide tokens by weight; what one cannot use goes to the others.

    Args:
        room: Tokens to divide; may be below the sum of the floors.
        weights: Weight of each, at least 1.
        wants: Most tokens that each can use.
        floors: Fewest tokens of each, given even where there is no room.

    Returns:
        Tokens of each: from its floor to its want. They add up to at most ``room``, or to the floors.
    """
    shares = [min(floor, want) for floor, want in zip(floors, wants, strict=True)]
    left = room - sum(shares)
    hungry = [place for place, want in enumerate(wants) if want > shares[place]]
    while left > 0 and hungry:
        total = sum(weights[place] for place in hungry)
        grants = {
            place: min(wants[place] - shares[place], left * weights[place] // total) for place in hungry
        }
        if not any(grants.values()):
            grants = dict.fromkeys(hungry[:left], 1)
        for place, tokens in grants.items():
            shares[place] += tokens
        left -= sum(grants.values())
        hungry = [place for place in hungry if wants[place] > shares[place]]
    return shares
