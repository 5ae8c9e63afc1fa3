"""Whether a run over some partitions would find anything to do."""

from __future__ import annotations

from collections.abc import Sequence

from backstory.ids import digest
from backstory.pipeline.stages import STAGES
from backstory.tables.ledger import Entry
from backstory.workspace import Workspace

_RUNS = "runs"


def is_fresh(workspace: Workspace, partitions: Sequence[str]) -> bool:
    """Say whether every stage was made from what there is now, every output is intact, and the checks have passed.

    Each stage says itself what it would make, by the entries that it recorded: whatever runs lie between, partial,
    killed or of other settings, only what the entries say counts. Every byte of exports, documents, tables and of the
    published snapshot is hashed, and nothing is believed of a file's size or time.

    Args:
        workspace: An open workspace.
        partitions: Keys of the wanted partitions.

    Returns:
        True if a run would make nothing, and these very tables passed their checks.
    """
    workspace.ledger.set_aside_if_damaged()
    known = workspace.ledger.read(_RUNS).get(_range(partitions))
    if known is None or known.content != _recorded_state(workspace, partitions):
        return False
    return not any(stage.find_pending(workspace, partitions) for stage in STAGES)


def record_run(workspace: Workspace, partitions: Sequence[str]) -> None:
    """Note that the tables, as they are recorded now, have passed the checks for these partitions."""
    entry = Entry("", _recorded_state(workspace, partitions), len(partitions))
    workspace.ledger.record(_RUNS, {_range(partitions): entry})


def _range(partitions: Sequence[str]) -> str:
    return f"{partitions[0]} {partitions[-1]}"


def _recorded_state(workspace: Workspace, partitions: Sequence[str]) -> str:
    """Hash what is recorded of the partitions, and of every table that has none."""
    entries = workspace.ledger.read_all()
    partitioned = {stage.table for stage in STAGES if stage.partitioned}
    whole = {name for stage in STAGES for name in stage.writes_beside} | {
        stage.table for stage in STAGES if not stage.partitioned
    }
    wanted = [(table, key) for table in sorted(partitioned) for key in partitions]
    wanted += [(table, key) for table in sorted(whole) for key in sorted(entries.get(table, {}))]
    parts = []
    for table, key in wanted:
        entry = entries.get(table, {}).get(key)
        parts += [table, key, "" if entry is None else entry.inputs, "" if entry is None else entry.content]
    return digest(parts)
