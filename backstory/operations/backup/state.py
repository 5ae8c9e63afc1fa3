"""Adds what runs have written to a backup: key, archive, catalog, tables, vectors and the current snapshot."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from backstory.base.errors import ContractError, SearchIndexError
from backstory.index.snapshot import CURRENT_FILE, find_damage, open_current
from backstory.ingest.privacy.erasure_list import KEY_SUFFIX
from backstory.operations.backup.members import Members
from backstory.pipeline.workspace import Workspace
from backstory.storage.schema import CATALOG, WORKSPACE_PARTS, Part
from backstory.storage.state import copy_state
from backstory.storage.state_places import open_state
from backstory.storage.state_sqlite import SqliteState
from backstory.storage.tables.catalog import Catalog
from backstory.storage.tables.tables import WHOLE, Tables


def add_state(members: Members, workspace: Workspace, *, keys: bool = True, scratch: Path) -> None:
    """Add the folder ``.backstory``, the catalog, the files that it names, and all other state.

    State of a server is added as the file that it would be on one machine.

    The catalog is copied first, and files never change, so that the tables are those of one moment. A damaged file is
    left out with its entry. The documents must be whole, since they hold tombstones and revisions that nothing else
    holds.

    Args:
        members: The backup.
        workspace: An open workspace.
        keys: Whether to include the keys of pseudonyms and forgotten things.
        scratch: Folder for copies of databases, which are deleted at the end.

    Raises:
        StateError: A part of the state is damaged.
        ContractError: The table ``documents`` is damaged.
    """
    with TemporaryDirectory(dir=scratch, prefix=".backstory-backup-") as folder:
        for path in sorted((workspace.root / ".backstory").rglob("[!.]*")):
            is_kept = not path.is_relative_to(workspace.mirrors) and ".sqlite" not in path.name
            if not keys and path.suffix == KEY_SUFFIX:
                members.leave_out(f"{path.name}, which no store is to hold; keep it yourself")
            elif path.is_file() and not path.is_symlink() and is_kept:
                members.add_file(path)
        if workspace.catalog.state.exists():
            _add_tables(members, workspace, Path(folder))
        for part in WORKSPACE_PARTS:
            if part is not CATALOG:
                _add_part(members, workspace, part, Path(folder))


def add_index(members: Members, workspace: Workspace) -> None:
    """Add the current snapshot; one that is damaged is left out, since the next run builds it again."""
    folder = workspace.index
    try:
        snapshot = open_current(folder)  # as long as it is open, no run deletes it
    except SearchIndexError as error:
        members.leave_out(f"the search index, which the next run builds: {error}")
        return
    with closing(snapshot):
        if damage := find_damage(snapshot.folder, checksums=True):
            members.leave_out(f"the search index, which the next run builds: {damage}")
            return
        for path in sorted(snapshot.folder.rglob("*")):
            if path.is_file():
                members.add_file(path)
        members.add_bytes(f"index/{CURRENT_FILE}", f"{snapshot.folder.name}\n".encode())


def _add_tables(members: Members, workspace: Workspace, scratch: Path) -> None:
    state = SqliteState(scratch / f"{CATALOG.name}.sqlite", CATALOG)
    copy_state(workspace.catalog.state, state)
    copy = Tables(workspace.tables.store, Catalog(state))
    for table, names in copy.list_files().items():
        damaged = copy.find_damage(table)
        if table == "documents" and damaged:
            raise ContractError(damaged[WHOLE], code="damaged_table")
        for key, name in names.items():
            if key not in damaged:
                members.add_bytes(f"data/{name}", copy.store.read(name) or b"")
        if damaged:
            copy.catalog.forget(table, damaged)
            members.leave_out(f"{len(damaged)} partitions of {table}: {next(iter(damaged.values()))}")
    state.close()
    members.add_database(state.path, f"data/{state.path.name}")


def _add_part(members: Members, workspace: Workspace, part: Part, scratch: Path) -> None:
    source = workspace.open_state(part, workspace.settings.storage.database)
    here = workspace.open_state(part, None)
    copy = open_state(scratch, None, part)
    copy_state(source, copy)
    if copy.exists():
        members.add_database(Path(copy.place), members.name_of(Path(here.place)))
    copy.close()
