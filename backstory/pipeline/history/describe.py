"""Status of a run, in a sentence that says what to do."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from backstory.pipeline.history.record import FAILED, RUNNING, STOPPED, UNSUCCESSFUL, RunRecord

STALLED_SECONDS: Final = 600.0
"""Time without progress after which a run may hang."""

_MINUTE = 60
_HOUR = 3600


def describe_status(record: RunRecord, now: float | None = None) -> str:
    """Describe where a run stands or how it ended, and what to do.

    Args:
        record: A run, from :meth:`backstory.pipeline.history.history.RunHistory.read`.
        now: Seconds since 1970; None for the present.
    """
    name = f"run {record.run_id[:8]} ({record.by})"
    idle = describe_duration((time.time() if now is None else now) - record.heartbeat_at)
    match record.status:
        case "running" if is_stalled(record, now):
            return (
                f"{name} is {_place(record)}, no progress for {idle}, and its process {record.process} is there: it "
                f"waits, works at one long step, or hangs. If it hangs, end it with `kill {record.process}`; finished "
                "work is kept, and `backstory run` resumes"
            )
        case "running":
            return f"{name} is {_place(record)}, last progress {idle} ago"
        case "lost":
            return (
                f"{name} was {_place(record)}, no progress for {idle}: its process was killed, or the machine "
                "restarted. Finished work is kept; `backstory run` resumes"
            )
        case "waiting":
            return f"{name} waits {_place(record)}: {record.failure}"
        case "stopped" | "failed":
            return f"{name} {record.status} {_place(record)}: {record.failure}"
        case _:
            return f"{name} {record.status} after {describe_duration(record.seconds)}"


def is_stalled(record: RunRecord, now: float | None = None) -> bool:
    """Return whether a running run has made no progress for so long that it may hang."""
    moment = time.time() if now is None else now
    return record.status == RUNNING and moment - record.heartbeat_at > STALLED_SECONDS


def find_trouble(records: Sequence[RunRecord], now: float | None = None) -> list[RunRecord]:
    """Choose the runs that a person should look at: those that hang, and the latest ended one if it did not succeed.

    Args:
        records: Runs, the latest first.
        now: Seconds since 1970; None for the present.
    """
    ended = next((record for record in records if record.ended_at is not None), None)
    stalled = [record for record in records if is_stalled(record, now)]
    return stalled + ([ended] if ended is not None and ended.status in UNSUCCESSFUL else [])


def describe_trouble(record: RunRecord, now: float | None = None) -> str:
    """Describe a run that :func:`find_trouble` has chosen, and how this trouble ends."""
    told = describe_status(record, now)
    if record.status not in (FAILED, STOPPED):
        return told
    return f"{told}. `backstory run` tries again; the next success clears this, also one with nothing to do"


def describe_duration(seconds: float) -> str:
    """Write a duration in its largest fitting unit, such as ``12 min``."""
    seconds = max(seconds, 0.0)
    if seconds < 2 * _MINUTE:
        return f"{seconds:.0f} s"
    return f"{seconds / _MINUTE:.0f} min" if seconds < 2 * _HOUR else f"{seconds / _HOUR:.0f} h"


def _place(record: RunRecord) -> str:
    if record.stage is None:
        return "before its first stage"
    parts = [f"at {record.stage}"]
    if record.partition not in (None, "all"):
        parts.append(str(record.partition))
    if record.total > 1:
        parts.append(f"{record.done:,} of {record.total:,} partitions done")
    return ", ".join(parts + ([record.step] if record.step else []))
