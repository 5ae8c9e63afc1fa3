"""Real names in what earlier runs wrote: pseudonyms were off, or a name was not known to be one.

The run that replaces such names in the tables deletes the reports and the site, which show texts of chats. Dagster's
history cannot be deleted under a running Dagster. So a file is put into its folder: whoever deletes the history deletes
the file with it, and until then the check ``names_in_history`` and ``backstory doctor`` name it.

The search index, its snapshots and its cache hold texts of documents, and vectors; documents are not pseudonymized.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from backstory.base.errors import ContractError
from backstory.base.ids import digest
from backstory.ingest.privacy.leaks import find_real_names
from backstory.ingest.privacy.pseudonyms import make_pseudonym
from backstory.pipeline.incremental.fingerprints import code_version
from backstory.pipeline.rendered_pages import remove_pages
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.catalog import Entry

MARK_FILE: Final = "holds-real-names.txt"
REMEDY: Final = (
    "Stop Dagster's processes of this workspace, and delete the folder .dagster with the history of runs. If you "
    "set DAGSTER_HOME, or wrote backups or pages elsewhere, clear those yourself."
)

_TABLE: Final = "known_names"
_KEY: Final = "exports"
_EXPLANATION: Final = (
    "The history of runs in this folder was written before Backstory replaced some real names by pseudonyms, and may "
    f"hold them. {REMEDY}\n"
)


def remove_former_names(workspace: Workspace, names: Sequence[str], partitions: Sequence[str]) -> str | None:
    """Delete what earlier runs wrote with real names, before a run replaces these names in the tables.

    Nothing is searched unless a name, or the code that finds names, is new since the last complete run.

    Args:
        workspace: An open workspace.
        names: All real names of people in the exports; empty if pseudonyms are switched off.
        partitions: Keys of the partitions that the run makes again.

    Returns:
        What was deleted and what still holds names; None if earlier runs wrote no such name.
    """
    if not workspace.settings.privacy.pseudonyms:
        workspace.catalog.forget(_TABLE, [_KEY])
        return None
    known = _fingerprint(workspace, names)
    recorded = workspace.catalog.read(_TABLE).get(_KEY)
    if recorded is not None and recorded.content == known:
        return None
    named = _find_named_partitions(workspace, names)
    note = _clear(workspace, sorted(named - set(partitions))) if named else None
    # A day outside this run keeps its names, so that the next run must search again.
    if named <= set(partitions):
        workspace.catalog.record(_TABLE, {_KEY: Entry("", known, len(names))})
    return note


def find_marked_history(workspace: Workspace) -> pl.DataFrame:
    """Find Dagster's history if it may hold real names.

    Args:
        workspace: An open workspace.

    Returns:
        ``place``, the folder of the history, in no row or one.
    """
    marked = workspace.settings.privacy.pseudonyms and (workspace.dagster_home / MARK_FILE).exists()
    return pl.DataFrame(
        {"place": [str(workspace.dagster_home)] if marked else []}, schema={"place": pl.String}
    )


def _fingerprint(workspace: Workspace, names: Sequence[str]) -> str:
    secret = workspace.load_secret()
    # Another version of the code may find names in forms that this one left.
    return digest([code_version("messages"), *(make_pseudonym(name, secret) for name in sorted(set(names)))])


def _find_named_partitions(workspace: Workspace, names: Sequence[str]) -> set[str]:
    """List the partitions whose stored messages hold a name."""
    named = set()
    for key in workspace.tables.keys("messages"):
        try:
            messages = workspace.tables.read("messages", [key])
        except ContractError:
            continue  # the run makes it again, and says so
        if not find_real_names(messages, names).is_empty():
            named.add(key)
    return named


def _clear(workspace: Workspace, outside: Sequence[str]) -> str:
    deleted = list(remove_pages(workspace.root))
    if workspace.dagster_home.is_dir():
        (workspace.dagster_home / MARK_FILE).write_text(_EXPLANATION, encoding="utf-8")
    notes = ["earlier runs wrote real names that are replaced now"]
    if deleted:
        notes.append(f"deleted {', '.join(deleted)}")
    if workspace.dagster_home.is_dir():
        notes.append(f"{workspace.dagster_home} still holds some. {REMEDY}")
    if outside:
        notes.append(
            f"{len(outside)} partitions outside this run, such as {outside[0]}, still hold some; run "
            "`backstory run` without --from and --to"
        )
    return "; ".join(notes)
