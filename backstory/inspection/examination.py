"""One thing that was looked at, and whether it is as it should be."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Examination:
    """One thing that was looked at.

    Attributes:
        name: What.
        passed: Whether it is as it should be.
        detail: What was seen, and what to do if it did not pass.
    """

    name: str
    passed: bool
    detail: str

    def as_record(self) -> dict[str, Any]:
        """Give the fields by name."""
        return asdict(self)
