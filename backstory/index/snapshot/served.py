"""What servers hold of the snapshots of a folder.

The file ``.served`` lists the collections that belong to the folder, and its own number in the file system. In a copy
of the folder it has another number, so the copy searches what the original has on the server, never changes it, and
gets a collection of its own when it is built. The clone of a whole disk or volume has the same number: no number of
the machine or the device stays the same wherever the original is mounted next. So the server tells the two apart.
Each build deletes the aliases that its folder does not know. Whichever of the two lost that of its latest snapshot
leaves the collection to the other at its next build.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from backstory.base.errors import MissingExtraError, SearchIndexError
from backstory.base.files.atomic import flush
from backstory.base.ids import digest
from backstory.index.snapshot.history import read_history
from backstory.index.snapshot.manifest import Manifest, read_manifest
from backstory.index.snapshot.row_keys import KEYS_FILE, Keys, ToldRows, read_row_keys
from backstory.index.snapshot.shards import hash_file
from backstory.settings.models import IndexSettings

# No engine but that of a server needs it.
if TYPE_CHECKING:
    from backstory.index.engines.milvus_rows import MilvusRows

UNPUBLISHED: Final = ".building-"
"""Start of the names of what is not published yet, which the next publication removes."""

SERVED_FILE: Final = ".served"
"""The file that lists the collections of a folder."""

logger = logging.getLogger(__name__)


def choose_collection(folder: Path, settings: IndexSettings, embedder_id: str, dimension: int) -> str:
    """Choose the collection for the vectors of a snapshot, and write down that the server gets it.

    Its name holds a random number, so a removal here never deletes what another workspace of equal documents searches.
    Vectors of another space, or other settings of the HNSW index, get another collection. So does a folder that was
    copied, or whose collection a clone of it has taken.

    Args:
        folder: The folder of the index.
        settings: Address of the server, and settings of the HNSW index.
        embedder_id: Name of the vectors' embedding space.
        dimension: Width of a vector.

    Raises:
        SearchIndexError: The server cannot be reached, or refuses.
    """
    graph = [str(number) for number in (dimension, settings.hnsw_m, settings.hnsw_ef_construction)]
    kind = digest([embedder_id, *graph], length=8)
    is_original, listed = _read_listed(folder)
    owned = dict(listed) if is_original else {}
    for known, uri in listed.items() if is_original else ():
        if uri == settings.uri and known.endswith(f"_{kind}"):
            if not _is_taken(folder, settings, known):
                return known
            logger.warning(
                "another folder, such as a clone of %s, builds into %s at %s, which is left to it; if there is none, "
                "since the server was restored, delete that collection: it may hold what was forgotten",
                folder,
                known,
                uri,
            )
            del owned[known]
    collection = f"backstory_{secrets.token_hex(8)}_{kind}"
    if not is_original:
        logger.warning(
            "%s was copied or restored, so its vectors go to %s; if the original is gone, delete its collections: %s",
            folder,
            collection,
            ", ".join(f"{name} at {uri}" for name, uri in listed.items()),
        )
    _write_owned(folder, {**owned, collection: settings.uri or ""})
    return collection


def adopt_collection(folder: Path, version: str) -> None:
    """Take the collection of a snapshot for one of this folder, which follows the store of the folder that made it.

    Args:
        folder: The folder of the index.
        version: The snapshot's version.
    """
    manifest = read_manifest(folder / version)
    owned = _read_owned(folder)
    if manifest.collection is not None and manifest.collection not in owned:
        _write_owned(folder, {**owned, manifest.collection: manifest.settings.uri or ""})


def list_keyless(folder: Path) -> None:
    """Write down the collections that earlier versions gave to single snapshots, which the next removal deletes.

    Nothing searches them (:attr:`backstory.index.snapshot.manifest.Manifest.keyless_collection`). A copy of a folder
    that has a list leaves them to the original.

    Args:
        folder: The folder of the index.
    """
    is_original, listed = _read_listed(folder)
    if not is_original:
        return
    keyless = {
        collection: manifest.settings.uri or ""
        for _, manifest in _read_manifests(folder)
        if (collection := manifest.keyless_collection) is not None
    }
    if keyless.keys() - listed.keys():
        _write_owned(folder, keyless | listed)


def upload_rows(folder: Path, version: str, settings: IndexSettings, collection: str, rows: ToldRows) -> int:
    """Write those rows of a snapshot that its server lacks.

    Args:
        folder: The folder of the index.
        version: The snapshot's version.
        settings: Address of the server, and settings of the HNSW index.
        collection: The collection, from :func:`choose_collection`.
        rows: The rows.

    Returns:
        Number of rows that were written.

    Raises:
        SearchIndexError: The server cannot be reached, refuses, or does not hold all rows afterwards.
    """
    known = _unite(_list_held(folder, collection).values())
    with closing(_open_rows(settings, collection)) as server:
        return server.upload(name_alias(collection, version), rows, known)


def is_served(snapshot: Path) -> bool:
    """Return whether the server of a snapshot, if it has one, holds all its rows in a collection of this folder.

    Raises:
        SearchIndexError: The manifest is absent or damaged, or the server cannot be reached.
    """
    manifest, folder = read_manifest(snapshot), snapshot.parent
    if manifest.hnsw is None or manifest.settings.engine != "milvus":
        return True
    collection = manifest.collection or ""
    held = _list_held(folder, collection)
    if snapshot.name not in held or _read_owned(folder).get(collection) != manifest.settings.uri:
        return False
    with closing(_open_rows(manifest.settings, collection)) as server:
        alias = name_alias(collection, manifest.version)
        return server.holds(alias, held[snapshot.name], _unite(held.values()))


def list_servers(folder: Path) -> list[str]:
    """List the addresses of the servers that hold something of a folder, sorted."""
    list_keyless(folder)
    return sorted({*_read_owned(folder).values()})


def let_go(
    folder: Path, gone: Collection[Path] = (), *, must_succeed: bool = False, without: Collection[str] = ()
) -> None:
    """Delete from servers what no snapshot needs. The caller publishes in the folder.

    What a server does not delete now, since it cannot be reached, is deleted by a later call.

    Args:
        folder: The folder of the index.
        gone: Snapshots in it that are about to be deleted.
        must_succeed: Whether it is an error, and not a warning, if a server does not delete everything.
        without: Addresses of servers that are gone for good, which are not asked.

    Raises:
        SearchIndexError: A server cannot be reached, or refuses, and that is an error.
        MissingExtraError: The client of the server is not installed any more, and that is an error.
    """
    list_keyless(folder)
    lost = {path.name for path in gone}
    for collection, uri in _read_owned(folder).items():
        if uri in without:
            continue
        held = _list_held(folder, collection)
        kept = {version: keys for version, keys in held.items() if version not in lost}
        settings = IndexSettings(engine="milvus", uri=uri, allow_http=True)
        try:
            with closing(_open_rows(settings, collection)) as server:
                if kept:
                    aliases = [name_alias(collection, version) for version in kept]
                    server.keep(aliases, _unite(kept.values()), _unite(held.values()))
                else:
                    server.drop()
        except (SearchIndexError, MissingExtraError) as error:
            if must_succeed:
                raise
            logger.warning("vectors that no snapshot needs are still on a server: %s", error)
            continue
        if not kept:
            owned = _read_owned(folder)
            del owned[collection]
            _write_owned(folder, owned)


def _is_taken(folder: Path, settings: IndexSettings, collection: str) -> bool:
    """Return whether a collection that belongs to a folder has aliases, but not that of the latest snapshot in it."""
    held = _list_held(folder, collection)
    published = [each.version for each in read_history(folder) if each.version in held]
    if not published:
        return False
    with closing(_open_rows(settings, collection)) as server:
        aliases = server.list_aliases()
    return bool(aliases) and name_alias(collection, published[-1]) not in aliases


def name_alias(collection: str, version: str) -> str:
    """Name the alias that a collection has as long as it has all rows of a snapshot."""
    return f"{collection}_{version}"


def _open_rows(settings: IndexSettings, collection: str) -> MilvusRows:
    # Imported late, since no other engine needs it.
    from backstory.index.engines.milvus_rows import MilvusRows

    return MilvusRows(settings, collection)


def _list_held(folder: Path, collection: str) -> dict[str, Keys]:
    """Map the keys of the snapshots whose rows are in a collection, by version; damaged ones are left out."""
    held = {}
    for path, manifest in _read_manifests(folder):
        record = manifest.files.get(KEYS_FILE)
        try:
            if manifest.collection == collection and record and hash_file(path / KEYS_FILE) == record.sha256:
                held[path.name] = read_row_keys(path).keys
        except OSError:
            continue
    return held


def _read_manifests(folder: Path) -> Iterator[tuple[Path, Manifest]]:
    """Read the manifests of the snapshots of a folder; damaged ones are left out."""
    for path in folder.glob("[!.]*/"):
        try:
            yield path, read_manifest(path)
        except (SearchIndexError, OSError):
            continue


def _unite(keys: Iterable[Keys]) -> Keys:
    return np.unique(np.concatenate([np.empty(0, np.int64), *keys]))


def _read_owned(folder: Path) -> dict[str, str]:
    """Read the address of the server of each collection that belongs to this folder."""
    is_original, listed = _read_listed(folder)
    return listed if is_original else {}


def _read_listed(folder: Path) -> tuple[bool, dict[str, str]]:
    """Read whether the list was written in this folder, and the address of the server of each listed collection."""
    path = folder / SERVED_FILE
    try:
        number, *lines = path.read_text(encoding="utf-8").splitlines() or [""]
    except FileNotFoundError:
        return True, {}
    return number == str(path.stat().st_ino), dict(line.split(" ", 1) for line in lines)


def _write_owned(folder: Path, owned: Mapping[str, str]) -> None:
    written = folder / f"{UNPUBLISHED}served"
    written.touch()
    lines = [str(written.stat().st_ino), *(f"{collection} {uri}" for collection, uri in owned.items())]
    written.write_text("\n".join(lines), encoding="utf-8")
    flush(written)
    written.replace(folder / SERVED_FILE)
    flush(folder)
