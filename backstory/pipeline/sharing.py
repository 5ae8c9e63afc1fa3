"""The shared form of a workspace: its tables and snapshots are in a store, and its state in a database."""

from __future__ import annotations

import math
import shutil
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from backstory.base.environment import PSEUDONYM_KEY_VARIABLE, find_key
from backstory.base.errors import BackstoryError, SearchIndexError, StateError, WorkspaceError
from backstory.base.files.atomic import write_file
from backstory.index.snapshot import (
    MANIFEST_FILE,
    current_version,
    publish,
    publishing,
    read_manifest,
    require_files,
)
from backstory.settings.paths import WorkspacePaths
from backstory.storage.tables.tables import SNAPSHOTS, WHOLE, Tables

LOOK_SECONDS: Final = 5.0
"""Seconds between two looks at the catalog by one reader."""

AWAY_SECONDS: Final = 60.0
"""Seconds from a look that failed to the next one."""


def send_snapshot(workspace: WorkspacePaths, tables: Tables, version: str) -> None:
    """Copy a snapshot of the index to the store of the tables, for other machines."""
    folder = workspace.index / version
    for name in (*read_manifest(folder).files, MANIFEST_FILE):  # whoever finds this finds all files
        tables.store.write(f"{SNAPSHOTS}/{version}/{name}", folder / name)


def fetch_snapshot(workspace: WorkspacePaths, tables: Tables) -> None:
    """Fetch the snapshot that the catalog names, unless it is published here, or the store does not hold it."""
    entry = tables.catalog.read("search_index").get(WHOLE)
    if entry is None or entry.content == current_version(workspace.index):
        return
    place = f"{SNAPSHOTS}/{entry.content}"
    listed = tables.store.read(f"{place}/{MANIFEST_FILE}")
    if listed is None:
        return
    with publishing(workspace.index):
        folder = workspace.index / entry.content
        if not folder.exists():
            building = workspace.index / f".{entry.content}.fetching"
            shutil.rmtree(building, ignore_errors=True)
            write_file(building / MANIFEST_FILE, listed)
            manifest = read_manifest(building)
            for name in manifest.files:
                (building / name).parent.mkdir(parents=True, exist_ok=True)
                with suppress(FileNotFoundError):
                    tables.store.fetch(f"{place}/{name}", building / name)
            require_files(building, manifest, checksums=True)
            building.rename(folder)
        publish(workspace.index, entry.content, None)


def require_keys(workspace: WorkspacePaths, tables: Tables) -> None:
    """Take the key of a shared workspace from the environment, and raise if a worker lacks it or has another one.

    The key never leaves the machines of the workers: whoever reads the bucket must not learn who is behind a pseudonym.
    """
    if workspace.settings.storage.files is None:
        return
    from backstory.ingest.privacy.pseudonyms import fingerprint_key, parse_key, read_fingerprint

    path, made_with = workspace.secret, read_fingerprint(tables)
    given = find_key(PSEUDONYM_KEY_VARIABLE, workspace.keys)
    texts = [] if given is None else [given.get_secret_value()]
    if path.exists():
        texts.append(path.read_text(encoding="ascii", errors="replace"))
    remedy = f"copy {path.name} from another worker, or set {PSEUDONYM_KEY_VARIABLE} to what it holds there"
    if made_with and not texts:
        raise WorkspaceError(
            f"this worker lacks {path}, which is never in the store; {remedy}", code="no_key"
        )
    keys = [parse_key(text) for text in texts]
    known = {made_with, *(fingerprint_key(key) for key in keys if key)} - {""}
    if None in keys or len(known) > 1:
        raise WorkspaceError(
            f"{path} or {PSEUDONYM_KEY_VARIABLE} is no key of 64 hexadecimal digits, or they are not the key that the "
            f"workspace was made with; {remedy}",
            code="other_secret",
        )
    if texts and not path.exists():
        write_file(path, f"{texts[0]}\n".encode(), mode=0o600)


@dataclass
class Follower:
    """Fetches the snapshot that others have published, for readers, who change nothing. Serves any thread.

    ``error`` says why the last look at the store failed; readers are given what is here.
    """

    workspace: WorkspacePaths
    tables: Tables
    error: BackstoryError | None = None
    _next_look: float = -math.inf
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def follow(self) -> None:
        """Look for a later snapshot, if it is time, and no other thread looks."""
        if self.workspace.settings.storage.files is None or not self._lock.acquire(blocking=False):
            return
        try:
            if time.monotonic() >= self._next_look:
                fetch_snapshot(self.workspace, self.tables)
                self.error, self._next_look = None, time.monotonic() + LOOK_SECONDS
        except (StateError, SearchIndexError) as error:
            self.error, self._next_look = error, time.monotonic() + AWAY_SECONDS
        finally:
            self._lock.release()
