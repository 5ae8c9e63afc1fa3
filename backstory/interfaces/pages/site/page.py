"""A file of a site: what it is made from, and how it is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Page:
    """A file of a site that is made only if its inputs have changed.

    Attributes:
        inputs: Hash of everything that decides the content, code and settings included.
        make: Returns the content.
    """

    inputs: str
    make: Callable[[], bytes]
