"""How much the tests do: ``make test-long`` asks for long ones and more examples, by ``BACKSTORY_LONG_TESTS=1``."""

import os
from collections.abc import Sequence
from typing import Final, TypeVar

LONG_TESTS: Final = os.environ.get("BACKSTORY_LONG_TESTS") == "1"

_SHARE: Final = 3


_T = TypeVar("_T")


def each_of(items: Sequence[_T], step: int) -> Sequence[_T]:
    """Return every so manieth of many items that are alike; all of them in a long run."""
    return items if LONG_TESTS else items[::step]


def some(examples: int) -> int:
    """Return how many random examples a test makes: a third of those of a long run, which are the first of the same."""
    return examples if LONG_TESTS else max(examples // _SHARE, 1)
