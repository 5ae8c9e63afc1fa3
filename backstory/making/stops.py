"""What a budget or a limit left, for the person who goes on with the run."""

from __future__ import annotations

from collections.abc import Sequence

from backstory.pipeline import STAGES, Stage


def describe_stop(stage: Stage, partitions: Sequence[str], left: Sequence[str], reason: str) -> str:
    """Say why a run was stopped, and what is left to make.

    Args:
        stage: The stage that was stopped.
        partitions: Keys of the partitions that it was to make.
        left: Those that are not made.
        reason: Why it was stopped.
    """
    of = f"{len(left)} of {len(partitions)} partitions of {stage.table}" if stage.partitioned else stage.table
    later = [one.table for one in STAGES[STAGES.index(stage) + 1 :]]
    return f"{reason}. Left: {of}{', then ' if later else ''}{', '.join(later)}"
