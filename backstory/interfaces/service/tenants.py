"""The tenants of a service: a workspace each, opened when somebody enters it, and closed when memory is needed."""

from __future__ import annotations

import logging
import os
import shutil
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from backstory.base.environment import SETTINGS_FILE, Keys
from backstory.base.errors import (
    BackstoryError,
    InputError,
    MissingExtraError,
    SearchIndexError,
    StateError,
)
from backstory.base.files.atomic import lock
from backstory.index.milvus import release_collection
from backstory.index.snapshot import current_version
from backstory.interfaces.library.indexing import MakeTables
from backstory.interfaces.library.library import Library
from backstory.interfaces.service.disk_quotas import DiskQuotas, require_room
from backstory.interfaces.service.keys import KeyRing
from backstory.interfaces.service.names import is_tenant_name, require_tenant_name
from backstory.interfaces.service.removal import RemovalProof, remove_files
from backstory.interfaces.service.tenant_places import (
    ALONE,
    TenantPlaces,
    name_unknown,
)
from backstory.pipeline.workspace import open_workspace
from backstory.settings.paths import INDEX_FOLDER, OWNER_ONLY, STATE_FOLDER, init_workspace
from backstory.settings.storage import StorageSettings
from backstory.storage.schema import STATE
from backstory.storage.state import State
from backstory.storage.state_places import open_state

TENANTS_FOLDER: Final = "tenants"
"""Its name in the folder of the service."""

LEAST_BYTES: Final = 8 << 20
"""What an open workspace counts at least: connections and tables, about 4 MB and ten open files, with room to spare."""

_NEW: Final = ".new-"
_REMOVED: Final = ".removed-"
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


logger = logging.getLogger(__name__)


@dataclass
class _Open:
    """An open workspace.

    Attributes:
        library: Its library.
        stamp: What its settings and keys were when it was opened.
        bytes: What it counts.
        users: Number of blocks that are using it.
        is_retired: Whether the last user closes it.
    """

    library: Library
    stamp: str
    bytes: int
    users: int = field(default=0, init=False)
    is_retired: bool = field(default=False, init=False)


class Tenants:
    """The workspaces of tenants. Any number of threads may enter them, and other processes may use the same folder.

    Attributes:
        root: Folder of the service.
        keys: The keys of tenants.
        places: Where they keep what they have beside their folders.
        quotas: What each may take on the disk.
        maker: Gives what builds the tables of a tenant; None to build them in this process.
    """

    def __init__(
        self, root: Path, keys: KeyRing, *, memory_bytes: int, storage: StorageSettings = ALONE
    ) -> None:
        """Name the folder, and what the files of open snapshots may count, those in use aside; nothing is read yet."""
        self.root = root
        self.maker: Callable[[str], MakeTables] | None = None
        self._folder = root.resolve() / TENANTS_FOLDER
        self.keys = keys
        self.places = TenantPlaces(keys.accounts, storage)
        self.quotas = DiskQuotas(keys.accounts)
        self._memory_bytes = memory_bytes
        self._lock = threading.Lock()
        self._open: OrderedDict[str, _Open] = OrderedDict()

    def names(self) -> tuple[str, ...]:
        """Return the names of the tenants, sorted."""
        with suppress(FileNotFoundError):
            return tuple(sorted(path.name for path in self._folder.iterdir() if self._is_tenant(path.name)))
        return ()

    def list_interrupted(self) -> tuple[str, ...]:
        """Return the names of tenants whose removal was interrupted, sorted; :meth:`remove` goes on with it."""
        found = (path.name.removeprefix(_REMOVED) for path in self._folder.glob(f"{_REMOVED}*"))
        return tuple(sorted({*found, *self.places.list_removed()}))

    @property
    def open_names(self) -> tuple[str, ...]:
        """The names of the tenants whose workspaces are open, the least recently entered first."""
        with self._lock:
            return tuple(self._open)

    @property
    def open_bytes(self) -> int:
        """What the open snapshots count."""
        with self._lock:
            return self._count_bytes()

    def create(self, name: str) -> Path:
        """Make the workspace of a tenant, without documents, or a further folder of one that another machine made.

        Returns the folder. A name is refused that cannot be one, is another tenant's, or whose removal has not ended.
        """
        folder = self._folder / require_tenant_name(name)
        self._folder.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
        with self._making():
            if os.path.lexists(folder):
                raise InputError(
                    f"there is a tenant {name} already; choose another name", code="known_tenant"
                )
            # Only now, since a removal begins by giving the folder another name. Its end takes all roles of the name.
            if name in self.list_interrupted():
                raise StateError(
                    f"the removal of a tenant {name} is not finished; repeat `backstory serve tenant remove {name}`",
                    code="unfinished_removal",
                )
            made = init_workspace(self._folder / f"{_NEW}{name}")
            try:
                self.places.join(name, made)
            except BackstoryError:
                shutil.rmtree(made)
                raise
            made.rename(folder)
        return folder

    def folder(self, name: str) -> Path:
        """Return the folder of a tenant. An absent tenant and a text that cannot be a name raise the same error."""
        if not self._is_tenant(name):
            raise name_unknown()
        return self._folder / name

    def open_state(self, name: str) -> State:
        """Open the state of a tenant, where the service has assigned it."""
        folder = self.folder(name)
        return open_state(folder / STATE_FOLDER, self.places.find(folder).database, STATE)

    def follow_removals(self) -> None:
        """Clear the folders here of tenants that were removed on another machine, unless somebody is in them.

        One that cannot be cleared is logged, and holds up no other.
        """
        if not self.places.is_shared:
            return
        for name in self.names():
            if self.places.is_of_removed(self._folder / name):
                with _clearing():
                    self._set_aside(name)
                self._retire(name)
        for aside in self._folder.glob(f"{_REMOVED}*"):
            with _clearing():
                self._clear(aside)

    def _clear(self, aside: Path) -> None:
        """Remove the folder of a removed tenant, unless somebody is in it, or a command removes it."""
        descriptor = os.open(aside, _FOLDER)
        try:
            if lock(descriptor, wait=False):
                _let_go(aside.name.removeprefix(_REMOVED), aside)
                shutil.rmtree(aside)
        finally:
            os.close(descriptor)

    @contextmanager
    def entering(self, name: str) -> Iterator[Library]:
        """Open the library of a tenant, which stays open within the block.

        It is opened again after a change of its settings or keys. A removal waits for the end of the block.
        """
        with self.holding(name):
            entry = self._take(name)
            try:
                yield entry.library
            finally:
                self._leave(entry)

    def open_keys(self, name: str) -> Keys:
        """Open all keys of a tenant."""
        return self.keys.open(name)

    def require_room(self, name: str, added: int = 0) -> None:
        """Refuse what would take more of the disk than a tenant may, by a number of bytes that are added."""
        require_room(self.folder(name), self.quotas.read(name), added)

    def read_quota(self, name: str) -> int | None:
        """Return what a tenant may take on the disk, in bytes; None for any number."""
        return self.quotas.read(name)

    def remove(self, name: str) -> RemovalProof:
        """Remove a tenant with all files, roles, keys, rows and objects, after the last request that has entered it.

        The proof tells what a search of all files of the service, and of its other places, found of it. An error says
        what stopped the removal, which can be repeated.
        """
        aside = self._folder / f"{_REMOVED}{name}"
        if self._is_tenant(name):
            self._set_aside(name)
        elif not is_tenant_name(name) or not (aside.is_dir() or self.places.is_known(name)):
            raise name_unknown()
        self._retire(name)
        aside.mkdir(
            mode=OWNER_ONLY, parents=True, exist_ok=True
        )  # the folders may be those of other machines
        descriptor = os.open(aside, _FOLDER)
        try:
            lock(descriptor)
            _let_go(name, aside)
            with self.places.removing(name) as emptied:
                accounts, folder = self.keys.accounts, self._folder / name
                proof = remove_files(self.root.resolve(), name, folder, aside, accounts)
            return proof.join(emptied)
        except OSError as error:
            raise StateError(
                f"the removal of {name} stopped at {error.filename} ({error.strerror}): what is left lies in {aside}; "
                "permit its removal, and repeat the command",
                code="unfinished_removal",
            ) from error
        finally:
            os.close(descriptor)

    def _set_aside(self, name: str) -> None:
        """Rename the folder of a tenant, so that nobody enters it any more."""
        aside = self._folder / f"{_REMOVED}{name}"
        if aside.exists():  # of an earlier tenant of this name, whose removal was interrupted
            shutil.rmtree(aside)
        (self._folder / name).rename(aside)

    def close(self) -> None:
        """Close all workspaces, those in use after their last user. One that is entered later is opened again."""
        for name in self.open_names:
            self._retire(name)

    def _is_tenant(self, name: str) -> bool:
        if not is_tenant_name(name):
            return False
        folder = self._folder / name
        return folder.is_dir() and not folder.is_symlink() and (folder / SETTINGS_FILE).is_file()

    @contextmanager
    def _making(self) -> Iterator[None]:
        """Let one process at a time make a tenant, without what one that was killed has left."""
        descriptor = os.open(self._folder, _FOLDER)
        try:
            lock(descriptor)
            for left in self._folder.glob(f"{_NEW}*"):
                shutil.rmtree(left)
            yield
        finally:
            os.close(descriptor)

    @contextmanager
    def holding(self, name: str) -> Iterator[int]:
        """Hold a shared lock on the folder of a tenant, for which its removal waits, and yield its descriptor.

        A block may lie in another one.
        """
        try:
            descriptor = os.open(self.folder(name), _FOLDER)
        except OSError as error:  # removed meanwhile, or a link
            raise name_unknown() from error
        try:
            lock(descriptor, shared=True)
            if not self._is_tenant(name) or not os.path.samestat(
                os.fstat(descriptor), (self._folder / name).lstat()
            ):
                raise name_unknown()
            with self.places.present(name, self._folder / name):
                yield descriptor
        finally:
            os.close(descriptor)

    def _take(self, name: str) -> _Open:
        folder = self._folder / name
        stamp = self._stamp(name)
        with self._lock:
            entry = self._open.get(name)
            if entry is not None and entry.stamp == stamp:
                return self._use(name, entry)
        # Outside of the lock, since it reads files. A library that is not used holds nothing.
        self.places.require(folder)
        workspace = open_workspace(folder, keys=self.keys.open(name))
        make = None if self.maker is None else self.maker(name)
        opened = _Open(Library(workspace, make), stamp, _measure(workspace.index))
        with self._lock:
            entry = self._open.get(name)
            if entry is None or entry.stamp != stamp:
                former, entry = self._open.pop(name, None), opened
                unused = self._retire_all([former] if former else [])
                self._open[name] = entry
            else:
                unused = []
            self._use(name, entry)
            unused += self._evict()
        _close(unused)
        return entry

    def _use(self, name: str, entry: _Open) -> _Open:
        entry.users += 1
        self._open.move_to_end(name)
        return entry

    def _leave(self, entry: _Open) -> None:
        size = _measure(entry.library.workspace.index)
        gone = [name for name in self.open_names if not (self._folder / name / SETTINGS_FILE).exists()]
        with self._lock:
            entry.users -= 1
            entry.bytes = size
            unused = [entry] if entry.is_retired and not entry.users else []
            unused += self._evict()
        _close(unused)
        for name in gone:  # removed by another process
            self._retire(name)

    def _evict(self) -> list[_Open]:
        """Take the least recently used workspaces that nobody uses off the list, until the rest fits."""
        spare = [name for name, entry in self._open.items() if not entry.users]
        evicted = []
        for name in spare:
            if self._count_bytes() <= self._memory_bytes:
                break
            evicted.append(self._open.pop(name))
        return self._retire_all(evicted)

    def _retire(self, name: str) -> None:
        with self._lock:
            entry = self._open.pop(name, None)
            unused = self._retire_all([entry] if entry else [])
        _close(unused)

    def _retire_all(self, entries: list[_Open]) -> list[_Open]:
        """Have the last user close workspaces, and return those that have none."""
        for entry in entries:
            entry.is_retired = True
        return [entry for entry in entries if not entry.users]

    def _count_bytes(self) -> int:
        return sum(entry.bytes for entry in self._open.values())

    def _stamp(self, name: str) -> str:
        settings = (self._folder / name / SETTINGS_FILE).stat()
        return f"{settings.st_ino} {settings.st_size} {settings.st_mtime_ns} {self.keys.stamp(name)}"


@contextmanager
def _clearing() -> Iterator[None]:
    """Log why a tenant that was removed on another machine is not cleared yet; the next look tries again.

    A folder that is gone was cleared by a command meanwhile.
    """
    try:
        with suppress(FileNotFoundError):
            yield
    except (BackstoryError, OSError):
        logger.exception("a tenant that was removed on another machine could not be cleared here")


def _let_go(name: str, folder: Path) -> None:
    """Delete the vectors that a folder has on a server, if its index was ever there."""
    index = folder / INDEX_FOLDER
    try:
        release_collection(index, must_succeed=True)
    except (SearchIndexError, MissingExtraError) as error:
        raise StateError(
            f"the removal of {name} stopped at the vectors of its index: {error}; repeat the command when they can be "
            f"deleted, or after you have deleted {index} if that server is gone for good",
            code="unfinished_removal",
        ) from error


def _close(entries: list[_Open]) -> None:
    for entry in entries:
        entry.library.close()


def _measure(index: Path) -> int:
    """Count the bytes of the files of the published snapshot, and what a workspace takes without one."""
    version = current_version(index)
    size = LEAST_BYTES
    for place, _, names in os.walk(index / version) if version else ():
        for name in names:
            with suppress(FileNotFoundError):  # pruned meanwhile, after a later one was published
                size += Path(place, name).stat().st_size
    return size
