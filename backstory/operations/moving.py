"""Moves a workspace onto servers and back: the files of its tables and its snapshot, and the rows of its state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from backstory.base.errors import InputError, SettingsError, StateError
from backstory.index.snapshot import current_version
from backstory.pipeline.sharing import fetch_snapshot, send_snapshot
from backstory.pipeline.workspace import Workspace
from backstory.settings.storage import DATABASE_SCHEMES, clean_store_address, require_database_address
from backstory.storage.schema import STATE, WORKSPACE_PARTS
from backstory.storage.state import copy_state
from backstory.storage.state_places import open_state
from backstory.storage.stores import Folder, open_store
from backstory.storage.tables.tables import Tables, copy_files
from backstory.storage.turns import running

LOCAL: Final = "local"
"""The target of a copy that is the workspace folder."""


@dataclass(frozen=True)
class Copied:
    """What a copy did: files and rows of state in the target now, their size, and how many were not there before."""

    files: int
    size: int
    copied: int
    rows: int
    copied_rows: int


def copy_workspace(workspace: Workspace, target: str) -> Copied:
    """Copy the tables with the snapshot, or the state of a workspace.

    The target is an address such as ``s3://bucket/prefix`` or ``file:///folder``, for the files; that of a Postgres
    database, for the state; or :data:`LOCAL`, for the folder of the workspace, to which both come that the settings
    keep elsewhere. The call waits for a run that is under way. One that was stopped goes on where it was. A database
    that holds state of other machines takes this one's up.
    """
    storage = workspace.settings.storage
    is_database = urlsplit(target).scheme in DATABASE_SCHEMES
    if target == LOCAL and storage.files is None and storage.database is None:
        what = (
            f"{workspace.root} holds everything already: storage of the settings names nothing to copy from"
        )
        raise InputError(what, code="no_store")
    try:
        if is_database:
            open_state(workspace.root, require_database_address(target), STATE).exists()
        elif target != LOCAL:
            target = clean_store_address(target)
    except (SettingsError, StateError) as error:  # it does not repeat an address that holds a secret
        raise type(error)(f"--to, the address of the copy: {error}", code=error.code) from error
    with running(workspace.catalog.state, "backstory storage copy"):
        files, rows = [], [(0, 0)]
        if not is_database and (target != LOCAL or storage.files is not None):
            files = _copy_files(workspace, target)
        if is_database or (target == LOCAL and storage.database is not None):
            # As for files, a copy to where the settings say that they are is one from the folder.
            source = None if storage.database == target else storage.database
            to = target if is_database else None
            rows = [
                copy_state(workspace.open_state(part, source), workspace.open_state(part, to))
                for part in WORKSPACE_PARTS
            ]
    size, copied = sum(size for _, size, _ in files), sum(is_copied for *_, is_copied in files)
    return Copied(len(files), size, copied, *map(sum, zip(*rows, strict=True)))


def _copy_files(workspace: Workspace, target: str) -> list[tuple[str, int, bool]]:
    here = Tables(Folder(workspace.tables_dir), workspace.catalog)
    there = here if target == LOCAL else Tables(open_store(target), workspace.catalog)
    source = here if workspace.settings.storage.files == target else workspace.tables
    found = list(copy_files(source, there.store))
    if absent := next((name for name, size, _ in found if not size), None):
        what = f"{source.store.locate(absent)} is absent; `backstory run` makes it again"
        raise StateError(what, code="missing_object")
    there.publish()
    if target == LOCAL:
        fetch_snapshot(workspace, source)
    elif version := current_version(workspace.index):
        send_snapshot(workspace, there, version)
    return found
