"""Backups in a store: each is one tar, which is made on this machine and put there, without keys."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from backstory.base.errors import InputError
from backstory.operations.backup.archive import TIME, Backup, write_backup
from backstory.operations.backup.restoring import Restored, restore_backup
from backstory.pipeline.workspace import Workspace
from backstory.settings.storage import clean_store_address
from backstory.storage.stores import Store, open_store

_FOLDER: Final = "backups"
_ENDING: Final = ".tar.gz"


def write_to_store(
    workspace: Workspace,
    address: str,
    *,
    inputs: bool = True,
    keep: int | None = None,
) -> tuple[str, Backup, int]:
    """Write a backup into a store.

    Args:
        workspace: An open workspace.
        address: ``s3://bucket/prefix`` or ``file:///folder``.
        inputs: Whether to include chats and posts.
        keep: How many backups of this workspace stay there, this one included; None for all.

    Returns:
        Its address, what was written, and the number of earlier backups that were removed.

    Raises:
        SettingsError: The address may not be used.
        StateError: The store cannot be used.
        BackstoryError: See :func:`~backstory.operations.backup.archive.write_backup`.
    """
    store = open_store(clean_store_address(address))
    name = f"{_FOLDER}/{workspace.root.name}/{datetime.now(UTC).strftime(TIME)}{_ENDING}"
    with TemporaryDirectory(prefix="backstory-") as folder:
        path = Path(folder) / f"backup{_ENDING}"
        done = write_backup(workspace, path, inputs=inputs, keys=False)
        store.send(path, name)
    earlier = [] if keep is None else _list_backups(store, workspace.root.name)[:-keep]
    store.delete(earlier)
    return store.locate(name), replace(done, path=Path(name)), len(earlier)


def restore_from_store(address: str, into: Path | None = None, *, replace: bool = False) -> Restored:
    """Restore a backup from a store.

    Args:
        address: Address of a backup; or of a store, for the last one there.
        into: As of :func:`~backstory.operations.backup.restoring.restore_backup`.
        replace: As of :func:`~backstory.operations.backup.restoring.restore_backup`.

    Raises:
        InputError: There is none (code ``no_backup``), or it is damaged.
        StateError: The store cannot be used.
    """
    place, _, name = address.rpartition(f"/{_FOLDER}/") if address.endswith(_ENDING) else (address, "", "")
    store = open_store(place.rstrip("/"))
    names = [one for one in _list_backups(store, "") if not name or one == f"{_FOLDER}/{name}"]
    if not names:
        raise InputError(f"{address} holds no backup; compare the address", code="no_backup")
    latest = max(names, key=lambda one: one.rpartition("/")[2])
    with TemporaryDirectory(prefix="backstory-") as folder:
        path = Path(folder) / latest.rpartition("/")[2]
        store.fetch(latest, path)
        return restore_backup(path, into, replace=replace)


def _list_backups(store: Store, workspace: str) -> list[str]:
    folder = f"{_FOLDER}/{workspace}".rstrip("/")
    return sorted(name for name in store.list_names(folder) if name.endswith(_ENDING))
