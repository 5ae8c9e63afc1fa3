"""Brings a workspace folder in step with the store, and publishes what was changed in it.

Work on a shared workspace is: pull, change the folder, publish. Contents are uploaded first, as objects that their hash
names; then one conditional write replaces the manifest. So whoever reads sees the state before or the state after, and
a power cut between any two steps leaves at most objects that nothing names.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Final

from backstory.base.errors import StoreError
from backstory.storage.store.arrivals import take_changes
from backstory.storage.store.garbage import collect_garbage, list_all
from backstory.storage.store.manifest import (
    KEPT,
    MANIFEST,
    Manifest,
    decode_manifest,
    join_publications,
    make_manifest,
    utc_now,
)
from backstory.storage.store.objects import CALLS_AT_ONCE, ObjectStore
from backstory.storage.store.replica import JOINED, InStep, Replica

logger = logging.getLogger(__name__)

_ATTEMPTS: Final = 5
"""Publications of others that one publication may lose against before it gives up."""
_YOUNG: Final = KEPT / 2
"""An object that is there already is trusted up to this age: until it may be deleted, half of the time is left."""
_SMALL_BYTES: Final = 131_072
"""A content up to this size is uploaded without a look at what the store holds, which would take as long."""
_BETWEEN_COLLECTIONS: Final = KEPT.total_seconds()


@dataclass(frozen=True)
class Published:
    """What a publication did.

    Attributes:
        changed: Whether a manifest was written; if nothing had changed, none is.
        uploaded: Number of objects that were uploaded.
        size: Their bytes.
    """

    changed: bool = False
    uploaded: int = 0
    size: int = 0


def fetch_manifest(store: ObjectStore) -> tuple[Manifest, str | None]:
    """Read the manifest of a store.

    Returns:
        The manifest, and its etag; an empty one and None if nothing was ever published.

    Raises:
        StoreError: The store cannot be reached, or the manifest is damaged.
    """
    found = store.read(MANIFEST)
    return (Manifest(), None) if found is None else (decode_manifest(found[0], store.address), found[1])


def is_behind(replica: Replica, store: ObjectStore) -> bool:
    """Return whether there is something to pull: another manifest, or tables that were lost here. One small call."""
    found, known = store.find(MANIFEST), replica.read_in_step(store.address)
    if found is None:
        store.read(MANIFEST)  # tells an absent bucket from an absent object
    return (found and found.etag) != known.etag or replica.has_lost_tables(known.manifest)


def pull(replica: Replica, store: ObjectStore, *, changes: bool = True) -> int:
    """Put in place what others have published since; what was changed in the folder meanwhile stays.

    The caller holds the replica. Where both have changed, the store's version is taken of what a run makes and of a
    file that is absent here.

    Args:
        replica: The folder.
        store: The store.
        changes: Whether the caller is about to do so. Its settings must then be those of the others, or a change that
            this worker made to them.

    Returns:
        Number of files that were fetched.

    Raises:
        StoreError: Both changed a file that a person wrote (code ``conflicting_files``); the settings are not those of
            the last publication (``other_settings``); the manifest is gone (``missing_manifest``); an object is damaged
            or gone; or the store cannot be used.
    """
    known = replica.read_in_step(store.address)
    while True:
        found = store.find(MANIFEST)
        is_same = found is not None and found.etag == known.etag
        manifest, etag = (known.manifest, known.etag) if is_same else fetch_manifest(store)
        _require_manifest(store, known, etag)
        if changes:
            require_same_settings(replica, store, known.settings, manifest)
        agreed = manifest.settings if changes else known.settings
        if is_same and agreed == known.settings and not replica.has_lost_tables(manifest):
            return 0
        try:
            fetched = take_changes(replica, store, known, known.manifest, manifest)
        except StoreError as error:
            # A reader that was slow finds that what its manifest names was replaced and deleted.
            if error.code == "missing_object" and fetch_manifest(store)[1] != etag:
                continue
            raise
        replica.write_in_step(
            replace(known, address=store.address, etag=etag, manifest=manifest, settings=agreed, arriving=())
        )
        return fetched


def publish_changes(
    replica: Replica,
    store: ObjectStore,
    find_tokens: Callable[[], Mapping[str, int]] = dict,
    *,
    keeps: timedelta = KEPT,
) -> Published:
    """Publish what was changed in the folder since it was in step with the store.

    The caller holds the replica. If another worker has published meanwhile, both changes are joined where they concern
    different files and partitions. What the other changed comes into the folder by the next :func:`pull`.

    Args:
        replica: The folder.
        store: The store.
        find_tokens: Returns the fencing token of each lease that the caller holds, and raises if one was lost. It is
            called directly before each write of the manifest, since a lease may be lost during an upload.
        keeps: How long objects stay that no manifest names any more; zero deletes them at once.

    Returns:
        What was done.

    Raises:
        StoreError: Another worker changed the same (code ``conflicting_publication``), or has taken the lease over
            (``stale_lease``); the manifest is gone (``missing_manifest``); a file was changed while it was uploaded; or
            the store cannot be used.
    """
    known = replica.read_in_step(store.address)
    base, etag = known.manifest, known.etag
    ours = make_manifest(replica.scan(base), replica.settings, replica.change)
    if etag is not None and ours.has_same_content(base):
        return Published()
    uploaded = upload(replica.root, store, ours, base.objects)
    theirs, target = base, ours
    for _ in range(_ATTEMPTS):
        tokens = find_tokens()
        _require_current_lease(theirs, tokens)
        target = replace(target, tokens=tokens).follow(theirs, utc_now())
        put = store.replace(MANIFEST, target.encode(), etag)
        if put is not None:
            break
        theirs, etag = fetch_manifest(store)
        _require_manifest(store, known, etag)
        if etag is not None and theirs.has_same_content(target):
            put = etag  # written by this call, whose answer was lost on the way
            break
        target = join_publications(base, ours, theirs, store.address)
    else:
        raise StoreError(
            f"other workers published to {store.address} {_ATTEMPTS} times in a row while this one tried; run the same "
            "command again",
            code="conflicting_publication",
            address=store.address,
        )
    is_alone = target.has_same_content(ours)
    held = (put, target) if is_alone else (JOINED, ours)
    in_step = InStep(store.address, *held, target.settings, known.collected)
    replica.write_in_step(in_step)
    if keeps < KEPT or time.time() - known.collected > _BETWEEN_COLLECTIONS:
        collect_garbage(store, target, keeps)
        replica.write_in_step(replace(in_step, collected=time.time()))
    logger.info(
        "published objects=%d bytes=%d address=%s", len(uploaded), sum(uploaded.values()), store.address
    )
    return Published(changed=True, uploaded=len(uploaded), size=sum(uploaded.values()))


def upload(
    root: Path, store: ObjectStore, manifest: Manifest, present: Collection[str] = ()
) -> dict[str, int]:
    """Upload the contents of a manifest that the store lacks, and small ones that are not known to be there.

    Args:
        root: The workspace.
        store: The store.
        manifest: What is in the workspace.
        present: Hashes of objects that are in the store for certain.

    Returns:
        Bytes of each object that was uploaded, by hash.

    Raises:
        StoreError: See :meth:`~backstory.storage.store.objects.ObjectStore.upload`.
    """
    wanted = {
        file.sha256: (path, file.size)
        for path, file in sorted(manifest.files.items(), reverse=True)
        if file.sha256 not in present
    }
    since = utc_now() - _YOUNG

    def send(sha256: str) -> int | None:
        path, size = wanted[sha256]
        if size > _SMALL_BYTES and store.has_content(sha256, size, since=since):
            return None
        store.upload(root / path, sha256)
        return size

    with ThreadPoolExecutor(CALLS_AT_ONCE) as threads:
        sizes = dict(zip(wanted, threads.map(send, wanted), strict=True))
    return {sha256: size for sha256, size in sizes.items() if size is not None}


def remove_all(store: ObjectStore, mark: str) -> tuple[int, list[str]]:
    """Delete everything that was ever published, the backups, and at last the object that says whose it is.

    Args:
        store: The store.
        mark: Name of that object, which stays if anything else does.

    Returns:
        Number of objects that were deleted, and the names of those that are left.

    Raises:
        StoreError: The store cannot be reached, or refuses.
    """
    store.delete([MANIFEST])
    removed = 0
    for _ in range(_ATTEMPTS):  # a list may be stale, or in pages of one moment each
        names = list_all(store)
        if not names:
            break
        store.delete(names)
        removed += len(names)
    left = list_all(store)
    left += [MANIFEST] if store.find(MANIFEST) is not None else []
    if not left:
        store.delete([mark])
    return removed, left


def _require_manifest(store: ObjectStore, known: InStep, etag: str | None) -> None:
    """Raise if the manifest is gone that the folder was in step with: to follow would be to delete every file here."""
    if etag is None and known.etag is not None:
        raise StoreError(
            f"{store.address}/{MANIFEST} is gone; restore it from a version of the bucket, or run `backstory storage "
            f"copy --to {store.address}` on a worker that is up to date, which writes it again",
            code="missing_manifest",
            address=store.address,
        )


def require_same_settings(replica: Replica, store: ObjectStore, agreed: str, published: Manifest) -> None:
    """Raise if other workers publish by other settings: each run would make again what the other has made.

    Args:
        replica: The folder.
        store: The store.
        agreed: Hash of the settings by which the folder was last changed.
        published: The last manifest.

    Raises:
        StoreError: The settings are others (code ``other_settings``).
    """
    if published.settings not in ("", replica.settings, agreed):
        change = published.change
        names = published.change.name_differences(replica.change) if change.worker else []
        who = f"{change.worker} published at {change.at}" if change.worker else "another worker published"
        what = f"of {', '.join(names)}" if names else "or by another version of Backstory"
        raise StoreError(
            f"{who} to {store.address} by other settings {what} than {replica.root / 'backstory.yaml'}; give both the "
            "same file (storage, alerts, agents, orchestration, costs and runs may differ)",
            code="other_settings",
            address=store.address,
            settings=tuple(names),
            worker=change.worker,
            at=change.at,
        )


def _require_current_lease(published: Manifest, tokens: Mapping[str, int]) -> None:
    for lease, token in tokens.items():
        if published.tokens.get(lease, 0) > token:
            raise StoreError(
                f"another worker took over the lease {lease} while this one worked, and has published since; nothing "
                "of this one was published, so run the same command again",
                code="stale_lease",
                lease=lease,
                token=token,
            )
