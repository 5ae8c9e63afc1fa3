"""Moves a workspace into a store of files and out of it; every content is compared with its hash where it arrives."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from backstory.base.errors import InputError, StoreError
from backstory.pipeline.sharing import open_replica, open_store
from backstory.pipeline.workspace import Workspace
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
    """

    files: int
    size: int
    copied: int


def copy_workspace(workspace: Workspace, target: str) -> Copied:
    """Copy the files of a workspace, and compare every content with its hash where it arrived.

    The call waits for a run that is under way. One that was stopped goes on where it was.

    Args:
        workspace: An open workspace.
        target: An address such as ``s3://bucket/prefix`` or ``file:///folder``; or :data:`LOCAL`, for the workspace
            folder.

    Returns:
        What is in the target.

    Raises:
        InputError: The target is the folder, and the settings name no store to copy from (code ``no_store``).
        StoreError: The store holds another workspace (code ``already_there``), cannot be used, or changed what it was
            given (``damaged_object``).
    """
    from backstory.storage.store.exchange import pull
    from backstory.storage.store.objects import ObjectStore

    current = open_store(workspace)
    replica = open_replica(workspace)
    if target == LOCAL and current is None:
        raise InputError(
            f"the files are in {workspace.root} already: storage.files names no store to copy from",
            code="no_store",
        )
    with running(workspace.tables, "backstory storage copy"), replica.held():
        replica.ledger.set_aside_if_damaged()
        if current is not None and current.address != target:
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
    from backstory.storage.store.replica import InStep

    published, etag = fetch_manifest(store)
    known = replica.read_in_step(store.address)
    ours = make_manifest(replica.scan(known.manifest), replica.settings)
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
        etag = store.replace(MANIFEST, ours.follow(published, utc_now()).encode(), etag)
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
        if (FILE, path) in found or (
            table is not None
            and ledger.get(table[0], {}).get(table[1]) != manifest.ledger[table[0]][table[1]]
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
