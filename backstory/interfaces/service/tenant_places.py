"""Where tenants keep what they have beside their folders: databases, stores, and folders on other machines.

The accounts list the places of each tenant before anything is written there, so that a removal finds all of them. A
place bears the id of its tenant, so that two tenants never write to the same one, however its address is spelled.
"""

from __future__ import annotations

import json
import secrets
import socket
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from backstory.base.environment import SETTINGS_FILE
from backstory.base.errors import BackstoryError, InputError, SettingsError, StateError
from backstory.base.files.atomic import write_file
from backstory.interfaces.service.account_rows import count_rows
from backstory.interfaces.service.place_marks import (
    Emptied,
    Kind,
    empty_place,
    find_owner,
    mark_place,
    name_shared,
)
from backstory.settings.storage import DATABASE_SCHEMES, StorageSettings
from backstory.settings.yaml_file import read_settings
from backstory.storage.state import Session, State

RECORD: Final = Path(".backstory", "tenant.json")
"""Where the folder of a tenant says whose it is."""

_ID_BYTES: Final = 16
_REFUSED: Final = frozenset({"shared_place", "tenant_elsewhere"})
"""Codes of settings that name a place that is not the tenant's alone."""
_CLEARED: Final = "cleared"
"""Kind of a place that is a folder, by its id, of which a user and no tenant is noted: nothing of this user is left."""


@dataclass(frozen=True)
class _Record:
    """What a folder knows of its tenant.

    Attributes:
        tenant_id: Id of the tenant, which a later one of the same name does not have.
        folder_id: Id of the folder.
        places: Addresses that bear the id.
    """

    tenant_id: str
    folder_id: str
    places: tuple[str, ...] = ()


class TenantPlaces:
    """The places of the tenants of a service. Any number of threads share it."""

    def __init__(self, accounts: State) -> None:
        """Take the accounts; nothing is read or written yet.

        Args:
            accounts: The accounts.
        """
        self._accounts = accounts
        self._settled: dict[str, tuple[tuple[int, int, int], StorageSettings]] = {}

    @property
    def is_shared(self) -> bool:
        """Whether several machines may share the accounts."""
        return self._accounts.address is not None

    def settle(self, tenant: str, folder: Path, *, without: Collection[str] = ()) -> StorageSettings:
        """Read where a tenant keeps what it has, after its places were found to be its own.

        Args:
            tenant: Name of the tenant.
            folder: Its workspace.
            without: Addresses of places that are not looked at.

        Returns:
            Where the tenant keeps state and files.

        Raises:
            SettingsError: The settings are invalid; or a place is that of another tenant (code ``shared_place``); or
                other machines have the tenant, too, and its settings do not name both a database and a store
                (``tenant_elsewhere``).
            StateError: The folder is not that of the present tenant of this name (``foreign_folder``).
            BackstoryError: A place cannot be reached.
        """
        status = (folder / SETTINGS_FILE).stat()
        stamp = status.st_ino, status.st_size, status.st_mtime_ns
        known = self._settled.get(tenant)
        if known is not None and known[0] == stamp:
            return known[1]
        storage = read_settings(folder / SETTINGS_FILE).storage
        if storage.database is not None or storage.files is not None or self.is_shared:
            self._claim(tenant, folder, storage, without)
        self._settled[tenant] = stamp, storage
        return storage

    def find_database(self, tenant: str, folder: Path) -> str | None:
        """Return the address of the database of a tenant; that of former settings while these are invalid.

        Raises:
            BackstoryError: See :meth:`settle`; invalid settings are passed over.
        """
        try:
            return self.settle(tenant, folder).database
        except SettingsError as error:
            if error.code in _REFUSED:
                raise
        record = _read_record(folder)
        places = () if record is None else record.places
        return next((place for place in reversed(places) if place.startswith(DATABASE_SCHEMES)), None)

    def join(self, tenant: str, made: Path, folder: Path) -> None:
        """Make a folder one of those of a tenant, which other machines may have already; do nothing on one machine.

        Args:
            tenant: Name of the tenant.
            made: The folder as it is now.
            folder: The folder as it will be named.

        Raises:
            StateError: The removal of the tenant is not finished.
        """
        if self.is_shared:
            self._note_folder(self._identify(tenant, made, joins=True), folder)

    @contextmanager
    def present(self, tenant: str, folder: Path) -> Iterator[None]:
        """Keep other machines from removing a tenant within the block; do nothing where accounts are a file.

        Raises:
            InputError: It was removed (code ``unknown_tenant``), or the folder is that of a former one.
        """
        if not self.is_shared:
            yield
            return
        found = self._find(tenant)
        record = _read_record(folder)
        if (found is None) != (record is None) or (found and record and found != (record.tenant_id, 0)):
            raise _unknown()
        if record is None:  # its first entering makes it known
            yield
            return
        with self._accounts.lock(_name_lock(record.tenant_id), wait=False, shared=True) as is_present:
            if not is_present:
                raise _unknown()
            yield

    def list_databases(self) -> list[str]:
        """List the addresses of the databases of all tenants, also of those that have no folder on this machine."""
        with self._accounts.reading() as session:
            query = "SELECT DISTINCT address FROM places WHERE kind = 'database' ORDER BY address"
            return [address for (address,) in session.execute(query).fetchall()]

    def list_files_elsewhere(self, folders: Iterable[Path], user_id: str) -> list[str]:
        """List the places of folders whose tenants have no database, so that what they keep is on one machine alone.

        Args:
            folders: Folders of tenants on this machine, which are left out.
            user_id: A user. Folders that were cleared of what they hold of this user are left out, too.
        """
        own = {record.folder_id for record in map(_read_record, folders) if record is not None}
        with self._accounts.reading() as session:
            query = "SELECT address FROM places WHERE tenant_id = ? AND kind = ?"
            own |= {address for (address,) in session.execute(query, (user_id, _CLEARED)).fetchall()}
            rows = session.execute(
                "SELECT address FROM places JOIN tenants ON tenants.tenant_id = places.tenant_id "
                "WHERE kind = 'folder' AND is_removed = 0 AND places.tenant_id NOT IN "
                "(SELECT tenant_id FROM places WHERE kind = 'database') ORDER BY address"
            ).fetchall()
        return [_name_place("folder", address) for (address,) in rows if address.partition(" ")[0] not in own]

    def note_cleared(self, folders: Iterable[Path], user_id: str) -> None:
        """Note that folders hold nothing of a user any more, who is being removed on one machine after another."""
        records = [record for record in map(_read_record, folders) if record is not None]
        with self._accounts.begin() as session:
            session.executemany(
                "INSERT INTO places VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                [(user_id, _CLEARED, record.folder_id) for record in records],
            )

    def forget_cleared(self, user_id: str) -> None:
        """Forget what was noted of a user who is removed."""
        with self._accounts.begin() as session:
            session.execute("DELETE FROM places WHERE tenant_id = ? AND kind = ?", (user_id, _CLEARED))

    def list_removed(self) -> dict[str, str]:
        """Return the ids of tenants whose removal has begun and is not finished, by name."""
        with self._accounts.reading() as session:
            rows = session.execute(
                "SELECT tenant, tenant_id FROM tenants WHERE is_removed = 1 ORDER BY tenant"
            )
            return dict(rows.fetchall())

    def is_known(self, tenant: str) -> bool:
        """Return whether a tenant was ever kept elsewhere, or on several machines."""
        return self._find(tenant) is not None

    def is_folder_of(self, tenant_id: str, folder: Path) -> bool:
        """Return whether a folder is one of a tenant."""
        record = _read_record(folder)
        return record is not None and record.tenant_id == tenant_id

    def require_places(
        self, tenant: str, folder: Path, named: Collection[str], servers: Collection[str] = ()
    ) -> None:
        """Raise unless every address is that of a place of a tenant, or one that its settings name.

        Args:
            tenant: Name of the tenant.
            folder: Its workspace, which need not be there.
            named: The addresses.
            servers: Addresses of the servers that hold vectors of it, which are places of it, too.

        Raises:
            InputError: An address is neither (code ``unknown_place``).
        """
        found, places = self._find(tenant), [*servers]
        if found is not None:
            places += [_name_place(*place) for place in self._list_places(found[0])]
        with suppress(SettingsError, OSError):  # settings that nobody can read name no place
            storage = read_settings(folder / SETTINGS_FILE).storage
            places += [place for place in (storage.database, storage.files) if place is not None]
        for address in named:
            if address not in places:
                raise InputError(
                    f"{tenant} has no place {address}; its places are: {', '.join(sorted({*places})) or 'none'}",
                    code="unknown_place",
                )

    @contextmanager
    def removing(self, tenant: str, *, without: Collection[str] = ()) -> Iterator[Emptied]:
        """Remove a tenant from its databases and stores, after the last machine has left it. Nobody enters it any more.

        Args:
            tenant: Name of the tenant, whose folder has another name by now.
            without: Addresses of places that are gone for good, which are not looked at, and count as left.

        Raises:
            StateError: A place cannot be reached; the removal can be repeated (code ``unfinished_removal``).
        """
        found = self._find(tenant)
        emptied = Emptied()
        unseen = [f"{address}, which was not looked at" for address in without]
        if found is None:
            emptied.left += unseen
            yield emptied
            return
        with self._accounts.begin() as session:
            session.execute("UPDATE tenants SET is_removed = 1 WHERE tenant = ?", (tenant,))
        with self._alone(found[0]):
            for kind, address in self._list_places(found[0]):
                if kind == "folder" or _name_place(kind, address) in without:
                    continue
                try:
                    left = empty_place(kind, address, found[0], emptied)
                except BackstoryError as error:
                    raise StateError(
                        f"the removal of {tenant} stopped at {address}: {error}; repeat the command when it can be "
                        f"used, or with `--without '{address}'` if it is gone for good",
                        code="unfinished_removal",
                    ) from error
                emptied.left += left
                if not left:
                    self._drop_place(found[0], kind, address)
            yield emptied
            # Only now, so that a removal that was killed is repeated with the same words, and tells the same.
            for kind, address in self._list_places(found[0]):
                if _name_place(kind, address) in without:
                    self._drop_place(found[0], kind, address)
            emptied.left += [
                f"{_name_place(kind, address)}, a folder that its service clears when it runs"
                for kind, address in self._list_places(found[0])
                if kind == "folder"
            ]
            emptied.left += unseen

    def drop_folder(self, folder: Path, tenant: str) -> None:
        """Note that a folder is gone, and forget the tenant if nothing else is left of it.

        Args:
            folder: The folder, in which nothing but :data:`RECORD` is left.
            tenant: Name of the tenant.
        """
        self._settled.pop(tenant, None)
        record, found = _read_record(folder), self._find(tenant)
        if found is None:
            return
        for kind, address in self._list_places(found[0]):
            if kind == "folder" and record is not None and address.startswith(f"{record.folder_id} "):
                self._drop_place(found[0], kind, address)

    def forget(self, tenant: str) -> None:
        """Forget a tenant that is being removed, if nothing is left of it anywhere, and neither roles nor keys."""
        with self._accounts.begin() as session:
            if count_rows(session, tenant):
                return  # else a later tenant of this name would have them, if the removal was killed
            session.execute(
                "DELETE FROM tenants WHERE tenant = ? AND is_removed = 1 "
                "AND tenant_id NOT IN (SELECT tenant_id FROM places)",
                (tenant,),
            )

    def _claim(self, tenant: str, folder: Path, storage: StorageSettings, without: Collection[str]) -> None:
        record = self._identify(tenant, folder)
        if self.is_shared:
            others = self._note_folder(record, folder)
            if others and (storage.database is None or storage.files is None):
                raise SettingsError(
                    f"another machine has the tenant {tenant}, too ({others[0]}), and what it keeps in its folder is "
                    "not here; name a database and a store in its backstory.yaml, the same on every machine",
                    code="tenant_elsewhere",
                )
        places: tuple[tuple[Kind, str | None], ...]
        places = ("database", storage.database), ("store", storage.files)
        for kind, address in places:
            if address is None or address in record.places or address in without:
                continue
            # A place that nobody can reach, such as one that is misspelled, must not keep a removal from its end.
            if find_owner(kind, address) not in (None, record.tenant_id):
                raise name_shared(kind, address)
            self._note_place(record.tenant_id, kind, address)
            if self._mark_noted(kind, address, record.tenant_id) != record.tenant_id:
                self._drop_place(record.tenant_id, kind, address)
                raise name_shared(kind, address)
            record = replace(record, places=(*record.places, address))
            _write_record(folder, record)

    def _mark_noted(self, kind: Kind, address: str, tenant_id: str) -> str:
        """Mark a place that was noted, and note it no more if that fails before anything was written there."""
        try:
            return mark_place(kind, address, tenant_id)
        except BackstoryError:
            with suppress(BackstoryError):  # what cannot be told counts as written
                if find_owner(kind, address) is None:
                    self._drop_place(tenant_id, kind, address)
            raise

    def _identify(self, tenant: str, folder: Path, *, joins: bool = False) -> _Record:
        """Find or make the id of a tenant, and that of its folder."""
        with self._accounts.begin() as session:  # which excludes whoever does the same
            record, found = _read_record(folder), _find(session, tenant)
            if found is not None and found[1]:
                raise name_unfinished(tenant)
            known = None if found is None else found[0]
            if self.is_shared and not joins and known != (record and record.tenant_id):
                raise StateError(
                    f"the folder {folder} is not one of the tenant {tenant}: that was removed, or made on another "
                    "machine; move the folder away, and run `backstory serve tenant add` here. If it is neither, "
                    f"delete {RECORD} in it",
                    code="foreign_folder",
                )
            tenant_id = known or secrets.token_hex(_ID_BYTES)
            if record is None or record.tenant_id != tenant_id:
                record = _Record(tenant_id, secrets.token_hex(_ID_BYTES))
                _write_record(folder, record)
            if found is None:
                session.execute("INSERT INTO tenants VALUES (?, ?, 0)", (tenant, tenant_id))
        return record

    def _note_folder(self, record: _Record, folder: Path) -> list[str]:
        """Note a folder of a tenant, and return where the others are."""
        place = f"{record.folder_id} {socket.gethostname()}:{folder}"
        others = []
        for kind, address in self._list_places(record.tenant_id):
            if kind == "folder" and not address.startswith(f"{record.folder_id} "):
                others.append(_name_place(kind, address))
            elif kind == "folder" and address != place:
                self._drop_place(record.tenant_id, kind, address)
        self._note_place(record.tenant_id, "folder", place)
        return others

    def _note_place(self, tenant_id: str, kind: Kind, address: str) -> None:
        with self._accounts.begin() as session:
            if kind == "store":
                others = "SELECT address FROM places WHERE kind = 'store' AND tenant_id <> ?"
                for (other,) in session.execute(others, (tenant_id,)).fetchall():
                    if address.startswith(f"{other}/") or other.startswith(f"{address}/"):
                        raise name_shared(kind, address)
            row = (tenant_id, kind, address)
            session.execute("INSERT INTO places VALUES (?, ?, ?) ON CONFLICT DO NOTHING", row)

    def _drop_place(self, tenant_id: str, kind: Kind, address: str) -> None:
        with self._accounts.begin() as session:
            row = (tenant_id, kind, address)
            session.execute("DELETE FROM places WHERE tenant_id = ? AND kind = ? AND address = ?", row)

    def _list_places(self, tenant_id: str) -> list[tuple[Kind, str]]:
        with self._accounts.reading() as session:
            query = "SELECT kind, address FROM places WHERE tenant_id = ? ORDER BY kind, address"
            found: list[tuple[Kind, str]] = session.execute(query, (tenant_id,)).fetchall()
            return found

    def _find(self, tenant: str) -> tuple[str, int] | None:
        with self._accounts.reading() as session:
            return _find(session, tenant)

    @contextmanager
    def _alone(self, tenant_id: str) -> Iterator[None]:
        """Wait until no machine is in a tenant."""
        if not self.is_shared:
            yield
            return
        with self._accounts.lock(_name_lock(tenant_id), by="the removal of a tenant"):
            yield


def name_unfinished(tenant: str) -> StateError:
    """Make the error of a tenant that cannot be used again until its removal is finished."""
    return StateError(
        f"the removal of a tenant {tenant} is not finished; repeat `backstory serve tenant remove {tenant}`, or start "
        "the service on the machines that still have a folder of it",
        code="unfinished_removal",
    )


def _find(session: Session, tenant: str) -> tuple[str, int] | None:
    query = "SELECT tenant_id, is_removed FROM tenants WHERE tenant = ?"
    found = session.execute(query, (tenant,)).fetchone()
    return None if found is None else (found[0], found[1])


def _name_lock(tenant_id: str) -> str:
    return f"tenant {tenant_id}"


def _name_place(kind: Kind, address: str) -> str:
    """Return what a person reads of a place, and writes to leave it out."""
    return address.partition(" ")[2] if kind == "folder" else address


def _unknown() -> InputError:
    return InputError(
        "there is no such tenant; `backstory serve tenant list` shows all", code="unknown_tenant"
    )


def _read_record(folder: Path) -> _Record | None:
    with suppress(FileNotFoundError, NotADirectoryError, ValueError, TypeError, KeyError):
        told = json.loads((folder / RECORD).read_bytes())
        return _Record(str(told["tenant_id"]), str(told["folder_id"]), tuple(map(str, told["places"])))
    return None


def _write_record(folder: Path, record: _Record) -> None:
    path = folder / RECORD
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_file(path, json.dumps(asdict(record)).encode(), mode=0o600)
