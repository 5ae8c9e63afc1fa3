"""What reading one file may take."""

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
        seconds: Seconds of processor time for a small file; a file may take one more for each of its megabytes.
        megabytes: Memory (MiB) that the reader may take beside its own code, and most MiB that a file may have.
    """

    seconds: int = 60
    megabytes: int = 2048

    @property
    def most_bytes(self) -> int:
        """Size of the largest file that is opened; text and what is made of it take several times as much."""
        return self.megabytes * _MEGABYTE // 4

    def processor_seconds(self, size: int) -> int:
        """Say how much processor time a file of so many bytes may take."""
        return self.seconds + _SECONDS_PER_MEGABYTE * (size // _MEGABYTE)

    def wall_seconds(self, size: int) -> float:
        """Say how long a file of so many bytes may take on a machine that is busy with other things."""
        return float(_WAITS * self.processor_seconds(size))
