"""Limits of time and memory for reading one file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_WAITS: Final = 5
_SECONDS_PER_MEGABYTE: Final = 1
_MEGABYTE: Final = 1 << 20


@dataclass(frozen=True)
class ReadingLimits:
    """Limits of one file.

    Attributes:
        seconds: CPU time in seconds for a small file; each megabyte of the file adds one second.
        megabytes: Memory (MiB) that the reader may use in addition to its code, and maximum size of a file (MiB).
    """

    seconds: int = 60
    megabytes: int = 2048

    @property
    def most_bytes(self) -> int:
        """Maximum size of a file that is opened; parsing it takes several times as much memory."""
        return self.megabytes * _MEGABYTE // 4

    def processor_seconds(self, size: int) -> int:
        """Return the CPU time that a file of this size may take."""
        return self.seconds + _SECONDS_PER_MEGABYTE * (size // _MEGABYTE)

    def wall_seconds(self, size: int) -> float:
        """Return the wall time that a file of this size may take on a busy machine."""
        return float(_WAITS * self.processor_seconds(size))
