"""The collection on a Milvus server that belongs to the folder of an index, written down before the server gets it."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Collection as Container
from contextlib import closing
from pathlib import Path
from typing import Final

from backstory.base.errors import MissingExtraError, SearchIndexError
from backstory.base.files.atomic import flush
from backstory.base.ids import digest
from backstory.index.snapshot.manifest import read_manifest
from backstory.index.snapshot.publication import current_version
from backstory.settings.models import IndexSettings

logger = logging.getLogger(__name__)

COLLECTION_FILE: Final = ".collection"
"""The file that holds the address of the server and the name of the collection."""


def choose_collection(folder: Path, settings: IndexSettings, embedder_id: str, dimension: int) -> str:
    """Choose the collection for the rows of a snapshot.

    It is that of the snapshot before. Another server, vectors of another space, or other settings of the HNSW index
    take another one, and the one before is deleted. So does a folder whose collection another one uses, such as a copy
    of it that was built since; it is left to the other.

    Args:
        folder: The folder of the index.
        settings: Address of the server, and settings of the HNSW index.
        embedder_id: Name of the vectors' embedding space.
        dimension: Width of a vector.

    Raises:
        SearchIndexError: The server cannot be reached, or refuses.
    """
    from backstory.index.engines.milvus import Collection

    graph = (dimension, settings.hnsw_m, settings.hnsw_ef_construction)
    kind = digest([embedder_id, *map(str, graph)], length=8)
    owned = read_collection(folder)
    if owned is not None and owned[0] == settings.uri and owned[1].endswith(f"_{kind}"):
        with closing(Collection(settings, owned[1])) as collection:
            aliases = collection.list_aliases()
            if not aliases or collection.name_alias(current_version(folder)) in aliases:
                return _write_down(folder, *owned)
        logger.warning("%s at %s is left to another folder, such as a copy of %s", *reversed(owned), folder)
    else:
        release_collection(folder)
    return _write_down(folder, settings.uri or "", f"backstory_{secrets.token_hex(8)}_{kind}")


def _write_down(folder: Path, address: str, name: str) -> str:
    """Write down that a server gets a collection, and return its name."""
    written = folder / f"{COLLECTION_FILE}.tmp"
    written.write_text(f"{address} {name}", encoding="utf-8")
    flush(written)
    written.replace(folder / COLLECTION_FILE)
    flush(folder)
    return name


def read_collection(folder: Path) -> tuple[str, str] | None:
    """Read the address of the server and the name of the collection that a folder has; None if it has none."""
    try:
        address, name = (folder / COLLECTION_FILE).read_text(encoding="utf-8").split(" ")
    except FileNotFoundError:
        try:
            manifest = read_manifest(folder / current_version(folder))
        except SearchIndexError:
            return None
        # Another machine may have made the snapshot.
        return None if manifest.collection is None else (manifest.settings.uri or "", manifest.collection)
    return address, name


def release_collection(folder: Path, *, must_succeed: bool = False, without: Container[str] = ()) -> None:
    """Delete the collection of a folder, if it has one.

    Args:
        folder: The folder of the index.
        must_succeed: Whether it is an error, and not a warning that names the collection, if a server does not.
        without: Addresses of servers that are gone for good, which are not asked.

    Raises:
        SearchIndexError: The server cannot be reached, or refuses, and that is an error.
        MissingExtraError: The client of the server is not installed any more, and that is an error.
    """
    owned = read_collection(folder)
    if owned is None:
        return
    address, name = owned
    if address in without:
        return
    try:
        from backstory.index.engines.milvus import Collection

        settings = IndexSettings(engine="milvus", uri=address, allow_http=True)
        with closing(Collection(settings, name)) as collection:
            collection.drop()
    except (SearchIndexError, MissingExtraError) as error:
        if must_succeed:
            raise
        logger.warning("collection %s is still at %s; delete it there (%s)", name, address, error)
    (folder / COLLECTION_FILE).unlink(missing_ok=True)


def is_served(snapshot: Path) -> bool:
    """Return whether the server of a snapshot, if it has one, holds its rows.

    Raises:
        SearchIndexError: The manifest is damaged, or the server cannot be reached, or refuses.
    """
    manifest = read_manifest(snapshot)
    if manifest.collection is None:
        return True
    from backstory.index.engines.milvus import Collection

    with closing(Collection(manifest.settings, manifest.collection)) as collection:
        return collection.name_alias(manifest.version) in collection.list_aliases()
