"""Adds what runs have written to a backup: key, archive, ledger, tables, vectors and the current snapshot."""

from __future__ import annotations

from contextlib import ExitStack, closing
from io import BufferedReader
from pathlib import Path
from tempfile import TemporaryDirectory

from backstory.base.database_files import DAMAGED_SUFFIX, DamagedDatabaseError, copy_database, is_database
from backstory.base.errors import DamagedTableError, LedgerError, SearchIndexError
from backstory.index.snapshot.history import HISTORY_FILE, read_history
from backstory.index.snapshot.manifest import Snapshot
from backstory.index.snapshot.publication import CURRENT_FILE, require_current
from backstory.operations.backup.members import Members
from backstory.pipeline.workspace import Workspace
from backstory.storage.schema import WORKSPACE_PARTS, Part
from backstory.storage.state_places import copy_state, open_state
from backstory.storage.tables.ledger import LEDGER_FILE, Ledger
from backstory.storage.tables.parquet import WHOLE, open_if_written
from backstory.storage.tables.schemas import TABLES

_ATTEMPTS = 20


def add_state(members: Members, workspace: Workspace, *, scratch: Path) -> None:
    """Add the folder ``.backstory``, the ledger, the tables that it records, and every other database.

    A database of a server is added as the file that it would be on one machine.

    The ledger is copied first. A file of a table is added only if it is the one that the copy records; if a run has
    replaced it since, its entry is taken out of the copy. The documents must agree, since they hold tombstones and
    revisions that nothing else holds.

    Args:
        members: The backup.
        workspace: An open workspace.
        scratch: Folder for copies of databases, which are deleted at the end.

    Raises:
        LedgerError: The ledger is damaged.
        DamagedTableError: The table ``documents`` is damaged, or never agreed with the ledger.
    """
    with TemporaryDirectory(dir=scratch, prefix=".backstory-backup-") as folder, ExitStack() as stack:
        if workspace.settings.storage.database is not None:
            for part in WORKSPACE_PARTS:
                _add_part_of_server(members, workspace, part, Path(folder))
        for path in sorted((workspace.root / ".backstory").rglob("[!.]*")):
            is_kept = not path.is_relative_to(workspace.mirrors)
            if path.is_file() and not path.is_symlink() and is_kept:
                _add_settled(members, path, Path(folder))
        if not workspace.tables.is_dir():
            return
        copy = Path(folder) / LEDGER_FILE
        if (workspace.tables / LEDGER_FILE).is_file():
            documents = _copy_with_documents(workspace, copy)
            if documents is not None:
                members.add_open_file(stack.enter_context(documents), f"data/documents/{WHOLE}.parquet")
            _add_tables(members, workspace, Ledger(copy))
            members.add_database(copy, f"data/{LEDGER_FILE}")
        for path in sorted(workspace.tables.glob("*.sqlite")):
            if path.name != LEDGER_FILE:
                _add_settled(members, path, Path(folder))


def add_index(members: Members, workspace: Workspace) -> None:
    """Add the current snapshot; one that is damaged is left out, since the next run builds it again."""
    folder = workspace.index
    try:
        version = require_current(folder)
        snapshot = Snapshot(folder / version)  # as long as it is open, no run deletes it
    except SearchIndexError as error:
        members.leave_out(f"the search index, which the next run builds: {error}")
        return
    with closing(snapshot):
        for path in sorted(snapshot.folder.rglob("*")):
            if path.is_file():
                members.add_file(path)
        members.add_bytes(f"index/{CURRENT_FILE}", f"{version}\n".encode())
        lines = [line for line in read_history(folder) if line.version == version]
        members.add_bytes(f"index/{HISTORY_FILE}", "".join(line.as_line() for line in lines).encode())


def _copy_with_documents(workspace: Workspace, copy: Path) -> BufferedReader | None:
    """Copy the ledger until the documents are the ones that the copy records, and open them.

    Returns:
        The file of the documents at its beginning; None if the ledger records no document.
    """
    problem: DamagedTableError | None = None
    for _ in range(_ATTEMPTS):
        try:
            ledger = Ledger(copy_database(workspace.tables / LEDGER_FILE, copy))
        except DamagedDatabaseError as error:
            raise LedgerError(workspace.ledger.find_damage() or str(error)) from error
        if damage := ledger.find_damage():
            raise LedgerError(damage)
        entry = ledger.read("documents").get(WHOLE)
        if entry is None:
            return None
        try:
            return open_if_written(workspace.tables, "documents", WHOLE, entry)
        except DamagedTableError as error:
            problem = error
    raise problem or DamagedTableError("the documents never agreed with the ledger; start the backup again")


def _add_tables(members: Members, workspace: Workspace, ledger: Ledger) -> None:
    for table in TABLES:
        outdated = []
        for key, entry in ledger.read(table).items():
            if (table, key) == ("documents", WHOLE):
                continue
            try:
                file = open_if_written(workspace.tables, table, key, entry)
            except DamagedTableError:
                outdated.append(key)
                continue
            if file is not None:
                with file:
                    members.add_open_file(file, f"data/{table}/{key}.parquet")
        if outdated:
            ledger.forget(table, outdated)
            members.leave_out(
                f"{len(outdated)} partitions of {table} were being written or are damaged, such as {outdated[0]}; the "
                "next run rebuilds them"
            )


def _add_part_of_server(members: Members, workspace: Workspace, part: Part, scratch: Path) -> None:
    source = workspace.open_state(part, workspace.settings.storage.database)
    here = workspace.open_state(part, None)
    copy = open_state(scratch, None, part)
    copy_state(source, copy)
    if copy.exists():
        members.add_database(Path(copy.place), members.name_of(Path(here.place)))
    copy.close()


def _add_settled(members: Members, path: Path, scratch: Path) -> None:
    """Add a file, or a copy of a database at this moment; a damaged one is left out, since runs replace it."""
    if members.holds(members.name_of(path)):
        return  # of the time before its rows were on a server
    if not is_database(path):
        if not path.name.endswith(("-wal", "-shm", DAMAGED_SUFFIX)):
            members.add_file(path)
        return
    try:
        copy = copy_database(path, scratch / path.name)
    except DamagedDatabaseError as error:
        members.leave_out(f"{path.name} is {error}; the next run rebuilds it")
        return
    members.add_database(copy, members.name_of(path))
