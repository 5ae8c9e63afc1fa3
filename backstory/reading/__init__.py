"""Files of unknown content, read in a process of their own that is held to limits of time and memory."""

from backstory.reading.limits import ReadingLimits
from backstory.reading.worker import run_limited

__all__ = ["ReadingLimits", "run_limited"]
