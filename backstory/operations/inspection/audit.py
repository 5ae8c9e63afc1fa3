"""The audit of a workspace: compare every file that a run wrote with its recorded checksum."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

from backstory.base.errors import BackstoryError, ContractError, SearchIndexError
from backstory.base.wording import count, name_some
from backstory.index.snapshot import find_damage, has_pointer, require_current
from backstory.ingest.chats.archive import read_archive
from backstory.ingest.documents.file_hashes import FileHashes
from backstory.ingest.privacy.erasure_list import read_forgotten
from backstory.operations.inspection.files import Examination
from backstory.operations.inspection.probes import SHARED, Probe, examine_database, leave_out_explained
from backstory.pipeline.stages.post_folder import FILES
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.conversations import ConversationStore
from backstory.storage.tables.schemas import TABLES
from backstory.writing.post_files import hash_file, inspect_file

_NAMED = 5


def audit(given: Path | None) -> list[Examination]:
    """Compare the content of a workspace with the catalog. Nothing is written, and no model is loaded.

    Args:
        given: Folder of the workspace, or None for the one named by the environment or the current folder.

    Returns:
        The examinations: one of the settings, and if these can be read, one of each table and each other part.
    """
    try:
        workspace = open_workspace(given, follows=False)
    except BackstoryError as error:
        return [Examination("settings", False, str(error))]
    found = [
        *examine_database(workspace.settings.storage.database),
        *(probe.examine(workspace) for probe in (*SHARED, *_PROBES)),
    ]
    return [
        Examination("settings", True, str(workspace.root)),
        *leave_out_explained(found, workspace.settings.storage.database),
    ]


def _describe_files(workspace: Workspace, table: str) -> str:
    damaged = workspace.tables.find_damage(table)
    if damaged:
        raise ContractError(name_some(list(damaged.values()), _NAMED, separator="; "), code="damaged_table")
    return f"{count(len(workspace.tables.keys(table)), 'file')} as written"


def _describe_documents(workspace: Workspace) -> str:
    hashes = FileHashes(workspace.catalog)
    if path := hashes.find_deviation():
        raise BackstoryError(
            f"{path} holds another content than a run read, though its size and times are the same; write it again, or "
            "`touch` it, and run `backstory run`"
        )
    return f"{hashes.count():,} recorded by size and times have the content that was read"


def _describe_snapshots(workspace: Workspace) -> str:
    """Compare every file of the published snapshot with its checksum."""
    folder = workspace.index
    if not has_pointer(folder):
        if workspace.catalog.read("search_index"):
            raise SearchIndexError(f"the published index in {folder} is gone; `backstory run` rebuilds it")
        return "not built yet; `backstory run` builds it"
    current = require_current(folder)
    if damage := find_damage(folder / current, checksums=True):
        raise SearchIndexError(damage)
    return f"snapshot {current}: every file has its checksum"


def _describe_posts(workspace: Workspace) -> str:
    """Compare the files of the posts with those that the last run left, and count those that people have edited."""
    changed, edited = [], []
    files = workspace.catalog.read(FILES)
    for slug, entry in sorted(files.items()):
        path = workspace.posts_dir / f"{slug}.md"
        if not path.is_file():
            changed.append(f"{path} is gone; `backstory run` writes it again")
        elif hash_file(path) != entry.content:
            changed.append(
                f"{path} was changed since the last run; `backstory run` treats it as edited by a person and leaves it"
            )
        elif inspect_file(path) == "edited":
            edited.append(path.name)
    if changed:
        raise BackstoryError(name_some(changed, _NAMED, separator="; "))
    people = f"; people have edited {name_some(edited, _NAMED)}" if edited else ""
    return f"{len(files):,} as the last run left them{people}" if files else "none"


def _describe_archive(workspace: Workspace) -> str:
    messages = len(read_archive(workspace.archive))
    return f"{messages:,} messages can be read" if messages else "holds nothing"


def _describe_forgotten(workspace: Workspace) -> str:
    read_forgotten(workspace.forgotten)
    return "can be read" if workspace.forgotten.is_file() else "holds nothing"


def _describe_conversations(workspace: Workspace) -> str:
    held = ConversationStore(workspace.state).count()
    return f"{held:,} can be read" if held else "none"


_PROBES: Final = (
    *(Probe(f"table {name}", partial(_describe_files, table=name), is_replaced=True) for name in TABLES),
    Probe("document files", _describe_documents, is_replaced=True),
    Probe("search index", _describe_snapshots, is_replaced=True),
    Probe("archive", _describe_archive, is_replaced=True),
    Probe("forgotten list", _describe_forgotten, is_replaced=True),
    Probe("written posts", _describe_posts, is_replaced=True),
    Probe("conversations", _describe_conversations),
)
