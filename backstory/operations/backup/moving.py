"""Moves a workspace onto servers and back: files, each compared with its hash, and rows, each read where it arrived."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from backstory.base.errors import InputError, SettingsError, StateError, StoreError
from backstory.base.extras import require_extra
from backstory.pipeline.sharing import open_replica, open_store
from backstory.pipeline.workspace import Workspace
from backstory.settings.storage import DATABASE_SCHEMES, clean_store_address, require_database_address
from backstory.storage.schema import STATE, WORKSPACE_PARTS
from backstory.storage.state_places import copy_state, open_state
from backstory.storage.tables.locks import running

# The client of a store takes long to load.
if TYPE_CHECKING:
    from backstory.storage.store.manifest import Manifest
    from backstory.storage.store.objects import ObjectStore
    from backstory.storage.store.replica import Replica

LOCAL: Final = "local"
"""The target of a copy that is the workspace folder."""

_THREADS: Final = 8


@dataclass(frozen=True)
class Copied:
    """What a copy did.

    Attributes:
        files: Number of files of the workspace that are in the target now.
        size: Their bytes.
        copied: Number of contents that were not there before, or not whole.
        rows: Number of rows of its databases that are in the target now.
        copied_rows: Number of rows that were not there before.
    """

    files: int = 0
    size: int = 0
    copied: int = 0
    rows: int = 0
    copied_rows: int = 0


def copy_workspace(workspace: Workspace, target: str) -> Copied:
    """Copy the files or the databases of a workspace, and compare every content and every row where it arrived.

    The call waits for a run that is under way. One that was stopped goes on where it was. A database that holds state
    of other machines takes this one's up. The limits of calls are not copied: they are grants of the last minute, by
    the clock of one machine.

    Args:
        workspace: An open workspace.
        target: An address such as ``s3://bucket/prefix`` or ``file:///folder``, for the files; that of a Postgres
            database, for the databases; or :data:`LOCAL`, for the workspace folder, to which both come that the
            settings keep elsewhere.

    Returns:
        What is in the target.

    Raises:
        InputError: The target is the folder, and the settings name nothing to copy from (code ``no_store``).
        StoreError: The store holds another workspace (code ``already_there``), cannot be used, or changed what it was
            given (``damaged_object``); or the folder lacks what others published there (``not_in_step``).
        SettingsError: The target is no address that may be used, or holds a password or a key.
        StateError: A database cannot be used.
    """
    storage = workspace.settings.storage
    is_database = urlsplit(target).scheme in DATABASE_SCHEMES
    if target == LOCAL and storage.files is None and storage.database is None:
        raise InputError(
            f"everything is in {workspace.root} already: storage of the settings names nothing to copy from",
            code="no_store",
        )
    with _naming_target(target):
        if is_database:
            require_database_address(target)
            require_extra(
                "postgres", "A database for several machines", "leave out `storage: {database: ...}`"
            )
            open_state(workspace.root, target, STATE).exists()
        elif target != LOCAL:
            target = clean_store_address(target)
    workspace.follower.follow(before_run=True)
    with running(workspace.tables, "backstory storage copy"):
        done = Copied()
        if not is_database and (target != LOCAL or storage.files is not None):
            done = _copy_files(workspace, target)
        if is_database or (target == LOCAL and storage.database is not None):
            # As for files, a copy to where the settings say that they are is one from the folder.
            source = None if storage.database == target else storage.database
            to = target if is_database else None
            moved = [
                copy_state(workspace.open_state(part, source), workspace.open_state(part, to))
                for part in WORKSPACE_PARTS
            ]
            done = replace(
                done, rows=sum(read for read, _ in moved), copied_rows=sum(copied for _, copied in moved)
            )
    return done


@contextmanager
def _naming_target(target: str) -> Iterator[None]:
    """Say in errors that the address of the target is wrong; it is not repeated where it may hold a secret."""
    try:
        yield
    except SettingsError as error:
        raise SettingsError(f"--to, the address of the copy: {error}", code=error.code) from error
    except StateError as error:
        raise StateError(f"--to {target} cannot be used: {error}", code=error.code) from error


def _copy_files(workspace: Workspace, target: str) -> Copied:
    from backstory.storage.store.exchange import pull
    from backstory.storage.store.objects import ObjectStore

    current = open_store(workspace)
    replica = open_replica(workspace)
    with replica.held():
        replica.ledger.set_aside_if_damaged()
        if current is not None and (
            current.address != target or replica.has_lost_tables(replica.read_in_step(target).manifest)
        ):
            pull(replica, current, changes=False)
        if current is not None and target == LOCAL:
            return _check_folder(replica, current)
        return _copy_into(replica, ObjectStore(target), stays=current is None or current.address == target)


def _copy_into(replica: Replica, store: ObjectStore, *, stays: bool) -> Copied:
    """Put every content into a store, and then the manifest.

    Args:
        replica: The folder.
        store: The store.
        stays: Whether the folder is a copy of this store from now on.
    """
    from backstory.storage.store.exchange import fetch_manifest
    from backstory.storage.store.manifest import MANIFEST, make_manifest, utc_now
    from backstory.storage.store.replica import JOINED, InStep

    published, etag = fetch_manifest(store)
    known = replica.read_in_step(store.address)
    if known.etag == JOINED:
        raise StoreError(
            f"{replica.root} lacks what other workers published to {store.address} last; run the same command on "
            "a worker that is up to date, or, if the manifest is there, run `backstory run` here first",
            code="not_in_step",
            address=store.address,
        )
    ours = make_manifest(replica.scan(known.manifest), replica.settings, replica.change)
    ours = ours.follow(published, utc_now())
    is_newer = etag != known.etag
    if etag is not None and is_newer and not published.has_same_content(ours):
        raise StoreError(
            f"{store.address} holds files that this folder was never in step with; name an empty prefix, or set "
            "storage.files to it and run, which joins the two",
            code="already_there",
            address=store.address,
        )
    copied = _copy_contents(replica, store, ours)
    if not published.has_same_content(ours) or etag is None:
        etag = store.replace(MANIFEST, ours.encode(), etag)
        if etag is None:
            raise StoreError(
                f"another worker published to {store.address} meanwhile; run the same command again",
                code="conflicting_publication",
                address=store.address,
            )
    if stays:
        replica.write_in_step(InStep(store.address, etag, ours, ours.settings))
    return _describe(ours, copied)


def _copy_contents(replica: Replica, store: ObjectStore, manifest: Manifest) -> int:
    """Read each content of the store back, upload what is absent or damaged, and return how many were."""
    paths = {file.sha256: path for path, file in manifest.files.items()}

    def send(sha256: str) -> bool:
        if store.verify(sha256):
            return False
        store.upload(replica.root / paths[sha256], sha256)
        if not store.verify(sha256):
            raise StoreError(
                f"{store.address} does not give back what it was given for {paths[sha256]}; check the store",
                code="damaged_object",
                address=store.address,
                path=paths[sha256],
            )
        return True

    return _count(send, paths)


def _check_folder(replica: Replica, store: ObjectStore) -> Copied:
    """Hash every file of the folder that the store lists, fetch what is gone or damaged, and return what is there.

    What was changed here since stays, as the ledger and the hands of people have left it.
    """
    from backstory.storage.store.manifest import FILE
    from backstory.storage.store.replica import name_table

    manifest = replica.read_in_step(store.address).manifest
    found = replica.scan_anew(manifest)
    ledger = replica.ledger.read_all()

    def check(path: str) -> bool:
        table = name_table(path)
        if (
            (FILE, path) in found
            or replica.is_closed(path)
            or (
                table is not None
                and ledger.get(table[0], {}).get(table[1]) != manifest.ledger[table[0]][table[1]]
            )
        ):
            return False
        store.download(manifest.files[path].sha256, replica.root / path)
        return True

    return _describe(manifest, _count(check, manifest.files))


def _count(copies: Callable[[str], bool], names: Iterable[str]) -> int:
    with ThreadPoolExecutor(_THREADS) as threads:
        return sum(threads.map(copies, names))


def _describe(manifest: Manifest, copied: int) -> Copied:
    return Copied(len(manifest.files), sum(file.size for file in manifest.files.values()), copied)
