"""The settings of a call, which stages name without the packages that make it."""

from __future__ import annotations

from typing import Protocol


class CallSettings(Protocol):
    """The settings that every stage needs to call a service."""

    @property
    def base_url(self) -> str | None:
        """Address of the API; None for the public one."""
        ...

    @property
    def timeout_seconds(self) -> float:
        """Time-out of one call."""
        ...

    @property
    def max_attempts(self) -> int:
        """Most attempts of one call, the first included."""
        ...

    @property
    def tokens_per_minute(self) -> int | None:
        """Most tokens sent per minute; None for the service's default."""
        ...
