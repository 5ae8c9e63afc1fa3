"""The audit of a workspace: every file that a run wrote, compared byte by byte with what was recorded of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from backstory.documents.file_hashes import FileHashes
from backstory.errors import (
    BackstoryError,
    CacheFileError,
    DamagedTableError,
    LedgerError,
    RunHistoryError,
    SearchIndexError,
)
from backstory.forgotten import read_forgotten
from backstory.index.snapshot.history import read_history
from backstory.index.snapshot.manifest import find_damage, hash_manifest
from backstory.index.snapshot.publication import (
    current_version,
    find_history_damage,
    has_pointer,
    require_current,
)
from backstory.inspection.examination import Examination
from backstory.messages.archive import read_archive
from backstory.pipeline.copies import find_stale_copies
from backstory.pipeline.posts import FILES
from backstory.pipeline.search_index import find_manifest_damage
from backstory.privacy import is_unmade, load_secret
from backstory.rerankers.judgement_cache import JudgementCache
from backstory.tables import find_damaged_partitions, list_partitions
from backstory.tables.ledger import LEDGER_FILE
from backstory.tables.locks import is_running
from backstory.tables.schemas import TABLES
from backstory.tables.views import VIEWS_FILE, find_views_damage
from backstory.workspace import Workspace, open_workspace
from backstory.writing.draft_cache import DraftCache
from backstory.writing.post_files import hash_file, inspect_file

_NAMED = 5


def audit(given: Path | None) -> list[Examination]:
    """Compare the content of a workspace with the ledger. Nothing is written, and no model is loaded.

    Args:
        given: Folder of the workspace, or None for the one named by the environment or the current folder.

    Returns:
        The examinations: one of the settings, and if these can be read, one of each table and each other part.
    """
    try:
        workspace = open_workspace(given)
    except BackstoryError as error:
        return [Examination("settings", False, str(error))]
    found = [
        Examination("settings", True, str(workspace.root)),
        examine_settled(workspace, "ledger", lambda: describe_ledger(workspace)),
        *(
            examine_settled(workspace, f"table {name}", partial(_describe_files, workspace, name))
            for name in TABLES
        ),
        examine_settled(workspace, "document files", lambda: _describe_documents(workspace)),
        examine_settled(workspace, "views", lambda: describe_views(workspace)),
        examine_settled(workspace, "search index", lambda: _describe_snapshots(workspace)),
        examine_settled(workspace, "embedding cache", lambda: describe_cache(workspace)),
        examine_settled(workspace, "drafts", lambda: _describe_paid(workspace.drafts, "drafts")),
        examine_settled(
            workspace, "judgements", lambda: _describe_paid(workspace.judgements, "windows with judgements")
        ),
        examine_settled(workspace, "archive", lambda: _describe_archive(workspace)),
        examine_settled(workspace, "forgotten list", lambda: _describe_forgotten(workspace)),
        examine_settled(workspace, "written posts", lambda: _describe_posts(workspace)),
        examine_settled(workspace, "copies", lambda: describe_copies(workspace)),
        examine_settled(workspace, "history of runs", lambda: describe_history(workspace)),
    ]
    if workspace.settings.privacy.pseudonyms:
        found.append(examine_one("secret", lambda: describe_secret(workspace)))
    return found


def examine_one(name: str, look: Callable[[], str]) -> Examination:
    """Make an examination of what a function describes; what it raises is what is wrong."""
    try:
        return Examination(name, True, look())
    except (BackstoryError, OSError, ImportError) as error:
        return Examination(name, False, str(error))


def examine_settled(workspace: Workspace, name: str, look: Callable[[], str]) -> Examination:
    """Do what :func:`examine_one` does of what a run replaces in several steps.

    Between two of these steps a difference says nothing, so that it counts only while no run is under way.
    """
    found = examine_one(name, look)
    # A second look tells a run that ended during the first from a difference that stays.
    for _ in range(2):
        if found.passed:
            return found
        if is_running(workspace.tables):
            told = "not compared, since a run that is under way changes it; look again when it has ended"
            return Examination(name, True, told)
        found = examine_one(name, look)
    return found


def describe_ledger(workspace: Workspace) -> str:
    """Say that every entry of the ledger has its checksum.

    Raises:
        LedgerError: An entry differs, or the ledger is gone although there are tables.
    """
    if damage := workspace.ledger.find_damage():
        raise LedgerError(damage)
    path = workspace.tables / LEDGER_FILE
    if not path.is_file():
        if any(list_partitions(workspace.tables, table) for table in TABLES):
            raise LedgerError(f"{path} is gone; `backstory run` makes it and every table again")
        return "not made yet; the first run makes it"
    return "every entry has its checksum"


def describe_cache(workspace: Workspace) -> str:
    """Say that every cached vector has its checksum.

    Raises:
        CacheFileError: A vector differs, or the file cannot be read.
    """
    if damage := workspace.embeddings.find_damage():
        raise CacheFileError(damage)
    return "every vector has its checksum"


def describe_views(workspace: Workspace) -> str:
    """Say that the file of the views is the one that was written.

    Raises:
        BackstoryError: It is another, or gone.
    """
    if damage := find_views_damage(workspace.tables):
        raise BackstoryError(damage)
    return f"{VIEWS_FILE} is as it was written"


def describe_history(workspace: Workspace) -> str:
    """Say that the history of runs can be read, and that the table ``runs`` agrees with it.

    Raises:
        RunHistoryError: The history is damaged, or the table differs.
    """
    if damage := workspace.runs.store.find_damage():
        raise RunHistoryError(damage)
    if months := workspace.runs.find_damaged_months():
        raise RunHistoryError(
            f"the table runs differs from the history in {', '.join(months)}; `backstory run` writes it again"
        )
    return "the table runs agrees with it"


def describe_copies(workspace: Workspace) -> str:
    """Say that no page or text is left of rows that have left the tables.

    Raises:
        BackstoryError: Some are, which Backstory may not delete.
    """
    if copies := find_stale_copies(workspace):
        raise BackstoryError("; ".join(copies))
    return "none holds what has left the tables"


def describe_secret(workspace: Workspace) -> str:
    """Say that the key of the pseudonyms is the one that was used, and that only its owner can read it.

    Raises:
        WorkspaceError: It is lost, or another.
        PermissionError: Others can read it.
    """
    path = workspace.secret
    if is_unmade(path, workspace.ledger, workspace.tables):
        return "not made yet; the first run makes it"
    if workspace.ledger.read("secret") or not path.is_file():  # else loading it would record it
        load_secret(path, workspace.ledger, workspace.tables)
    mode = path.stat().st_mode & 0o777
    if mode != 0o600:
        raise PermissionError(f"{path} has mode {mode:o}; run `chmod 600 {path}`")
    return f"{path} is readable by its owner only"


def _describe_files(workspace: Workspace, table: str) -> str:
    damaged = find_damaged_partitions(workspace.tables, table)
    if damaged:
        more = f"; and {len(damaged) - _NAMED} more files" if len(damaged) > _NAMED else ""
        raise DamagedTableError("; ".join(list(damaged.values())[:_NAMED]) + more)
    count = len(list_partitions(workspace.tables, table))
    return f"{count} file{'' if count == 1 else 's'} as written"


def _describe_documents(workspace: Workspace) -> str:
    hashes = FileHashes(workspace.ledger)
    if path := hashes.find_deviation():
        raise BackstoryError(
            f"{path} holds another content than a run read, though its size and times are the same; write it again, or "
            "`touch` it, and run `backstory run`"
        )
    return f"{hashes.count():,} remembered by size and times hold what was read"


def _describe_snapshots(workspace: Workspace) -> str:
    """Compare every file of every published snapshot with its checksum."""
    folder = workspace.index
    if not has_pointer(folder):
        if workspace.ledger.read("search_index"):
            raise SearchIndexError(f"what was published in {folder} is gone; `backstory run` builds it again")
        return "not built yet; `backstory run` builds it"
    current = require_current(folder)
    damage = find_manifest_damage(workspace) or find_damage(folder / current, checksums=True)
    damage = damage or find_history_damage(folder)
    if damage is not None:
        raise SearchIndexError(damage)
    earlier = [published for published in read_history(folder) if published.version != current]
    for published in earlier:
        path = folder / published.version
        damage = find_damage(path, checksums=True)
        if damage is None and hash_manifest(path) != published.manifest:
            damage = f"search index {path} has another manifest than the one that was published"
        if damage is not None and current_version(folder) == current:
            raise SearchIndexError(f"{damage.partition('; ')[0]}; it is not in use: delete that folder")
    return f"snapshot {current} and {len(earlier)} earlier: every file has its checksum"


def _describe_posts(workspace: Workspace) -> str:
    """Compare the files of the posts with those that the last run left, and count those that people have edited."""
    changed, edited = [], []
    files = workspace.ledger.read(FILES)
    for slug, entry in sorted(files.items()):
        path = workspace.written / f"{slug}.md"
        if not path.is_file():
            changed.append(f"{path} is gone; `backstory run` writes it again")
        elif hash_file(path) != entry.content:
            changed.append(
                f"{path} was changed since the last run; `backstory run` takes it for edited by a person, and leaves it"
            )
        elif inspect_file(path) == "edited":
            edited.append(path.name)
    if changed:
        more = f"; and {len(changed) - _NAMED} more files" if len(changed) > _NAMED else ""
        raise BackstoryError("; ".join(changed[:_NAMED]) + more)
    people = f", of which people have edited {', '.join(edited[:_NAMED])}" if edited else ""
    more = f" and {len(edited) - _NAMED} more" if len(edited) > _NAMED else ""
    return f"{len(files):,} as the last run left them{people}{more}" if files else "none"


def _describe_paid(cache: DraftCache | JudgementCache, entries: str) -> str:
    """Say that every entry of a cache of what may have been paid for has its checksum."""
    if damage := cache.find_damage():
        raise CacheFileError(damage)
    count = cache.count()
    return f"{count:,} {entries}, each with its checksum" if count else "none"


def _describe_archive(workspace: Workspace) -> str:
    messages = len(read_archive(workspace.archive))
    return f"{messages:,} messages can be read" if messages else "holds nothing"


def _describe_forgotten(workspace: Workspace) -> str:
    read_forgotten(workspace.forgotten)
    return "can be read" if workspace.forgotten.is_file() else "holds nothing"
