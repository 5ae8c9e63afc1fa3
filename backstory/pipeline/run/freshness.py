"""Freshness of partitions: whether a run over them would find anything to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from backstory.base.ids import digest
from backstory.ingest.sources.roots import list_sources
from backstory.pipeline.run.plan import STAGES
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.catalog import Entry
from backstory.storage.tables.tables import WHOLE

_COMPLETE: Final = "complete run"


def is_fresh(workspace: Workspace, partitions: Sequence[str]) -> bool:
    """Check whether every stage is up to date, every output is intact, and the checks have passed.

    Each stage compares its entries in the catalog with its current inputs. Earlier runs that were partial, killed or
    had other settings therefore need no special case. Every byte of exports and tables is hashed; their sizes and times
    are not trusted. A document is hashed if its state on the disk has changed
    (:mod:`backstory.ingest.documents.file_hashes`). Of the snapshot, the sizes of the files are compared.

    Args:
        workspace: An open workspace.
        partitions: Keys of the wanted partitions.

    Returns:
        True if a run would rebuild nothing and the current tables passed their checks.
    """
    if any(source.settings.is_remote for source in list_sources(workspace)):
        return False  # whether a place elsewhere has changed is known only by listing it
    known = workspace.catalog.read(_COMPLETE).get(WHOLE)
    if known is None or (known.inputs, known.content) != (
        _range(partitions),
        _recorded_state(workspace, partitions),
    ):
        return False
    return not any(stage.find_stale(workspace, partitions) for stage in STAGES)


def record_run(workspace: Workspace, partitions: Sequence[str]) -> None:
    """Record that the tables in their current state passed the checks for these partitions."""
    entry = Entry(_range(partitions), _recorded_state(workspace, partitions), len(partitions))
    workspace.catalog.record(_COMPLETE, {WHOLE: entry})


def _range(partitions: Sequence[str]) -> str:
    return f"{partitions[0]} {partitions[-1]}"


def _recorded_state(workspace: Workspace, partitions: Sequence[str]) -> str:
    """Hash the entries of the partitions, and of every table without partitions."""
    partitioned = {stage.table for stage in STAGES if stage.partitioned}
    whole = {name for stage in STAGES for name in stage.side_outputs} | {
        stage.table for stage in STAGES if not stage.partitioned
    }
    entries = workspace.catalog.read_all(partitioned | whole)
    wanted = [(table, key) for table in sorted(partitioned) for key in partitions]
    wanted += [(table, key) for table in sorted(whole) for key in sorted(entries.get(table, {}))]
    parts = []
    for table, key in wanted:
        entry = entries.get(table, {}).get(key)
        parts += [table, key, "" if entry is None else entry.inputs, "" if entry is None else entry.content]
    return digest(parts)
