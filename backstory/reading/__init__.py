"""Reading untrusted files in a separate process with limits of time and memory."""

from backstory.reading.limits import ReadingLimits
from backstory.reading.worker import run_limited

__all__ = ["ReadingLimits", "run_limited"]
