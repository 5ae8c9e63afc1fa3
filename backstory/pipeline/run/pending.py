"""Whether a run would rebuild anything; a run, the sensor and `backstory doctor` ask this."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from backstory.base.ids import digest
from backstory.index.snapshot import current_version
from backstory.ingest.sources.roots import list_sources
from backstory.pipeline.incremental.fingerprints import hash_dependencies, hash_document_files
from backstory.pipeline.incremental.visible_documents import name_snapshots, read_searched, read_visible
from backstory.pipeline.run.plan import STAGES
from backstory.pipeline.stages.post_folder import list_files_of_people
from backstory.pipeline.stages.stage import RunResources
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.catalog import Entry
from backstory.storage.tables.tables import WHOLE

_PARTITIONED: Final = tuple(stage for stage in STAGES if stage.partitioned)
_OF_DOCUMENTS: Final = tuple(stage for stage in STAGES if not stage.partitioned)


def find_outdated(workspace: Workspace) -> list[str]:
    """List the partitions whose contexts name another snapshot than the published one, in order.

    Where written posts are documents, a partition is up to date if it was searched in the documents before it.
    """
    if workspace.feeds_back:
        searched = read_searched(workspace)
        now = read_visible(workspace).name_earlier(sorted(searched))
        return sorted(key for key, earlier in now.items() if searched[key] != earlier)
    current = current_version(workspace.index)
    return sorted(key for key, version in name_snapshots(workspace, None).items() if version != current)


def hash_state(workspace: Workspace) -> str:
    """Hash the catalog, the settings and the sizes and times of the tables' files.

    Equal hashes mean that :func:`is_fresh` would answer the same for the same exports and documents, unless a file was
    damaged without a trace in its size and time. Of a bucket, which compares its files with checksums, no file is asked
    about: one that somebody deletes is noticed when something else has changed.
    """
    entries = workspace.catalog.read_all(["sources", *(stage.table for stage in STAGES)])
    files = workspace.tables.list_files()
    parts = [hash_dependencies(workspace, stage.table) for stage in STAGES]
    for table in ("sources", *(stage.table for stage in STAGES)):
        for key, entry in sorted(entries.get(table, {}).items()):
            parts += [table, key, entry.inputs, entry.content]
        parts += [str(workspace.tables.store.stamp(name)) for name in files.get(table, {}).values()]
    return digest(parts, length=16)


_COMPLETE: Final = "complete run"


def is_fresh(workspace: Workspace, partitions: Sequence[str]) -> bool:
    """Check whether every stage is up to date, every output is intact, and the checks have passed.

    Each stage compares its entries in the catalog with its current inputs. Earlier runs that were partial, killed or
    had other settings therefore need no special case. Every byte of exports and tables is hashed; their sizes and times
    are not trusted. A document is hashed if its state on the disk has changed
    (:mod:`backstory.ingest.documents.file_hashes`). Of the snapshot, the sizes of the files are compared.
    """
    if any(source.settings.is_remote for source in list_sources(workspace)):
        return False  # whether a place elsewhere has changed is known only by listing it
    known = workspace.catalog.read(_COMPLETE).get(WHOLE)
    if known is None or (known.inputs, known.content) != (
        _range(partitions),
        _recorded_state(workspace, partitions),
    ):
        return False
    resources = RunResources(workspace)
    return not any(stage(resources, partitions).stale_partitions() for stage in STAGES)


def record_run(workspace: Workspace, partitions: Sequence[str]) -> None:
    """Record that the tables in their current state passed the checks for these partitions."""
    entry = Entry(_range(partitions), _recorded_state(workspace, partitions), len(partitions))
    workspace.catalog.record(_COMPLETE, {WHOLE: entry})


def _range(partitions: Sequence[str]) -> str:
    return f"{partitions[0]} {partitions[-1]}"


def _recorded_state(workspace: Workspace, partitions: Sequence[str]) -> str:
    """Hash the entries of the partitions, and of every table without partitions."""
    partitioned = {stage.table for stage in _PARTITIONED}
    whole = {name for stage in STAGES for name in stage.side_outputs} | {
        stage.table for stage in _OF_DOCUMENTS
    }
    entries = workspace.catalog.read_all(partitioned | whole)
    parts = []
    for table in sorted(partitioned | whole):
        for key, entry in sorted(entries.get(table, {}).items()):
            # Runs of Dagster also record days without messages.
            if table in whole or (entry.rows and partitions[0] <= key <= partitions[-1]):
                parts += [table, key, entry.inputs, entry.content]
    return digest(parts)


def fingerprint_documents(workspace: Workspace) -> str:
    """Hash the path and content of every document file.

    Of the written posts only what people did counts, if they are documents: edited, added and removed files.
    """
    posts = hash_document_files(workspace)
    return digest([posts, *list_files_of_people(workspace)]) if workspace.feeds_back else posts
