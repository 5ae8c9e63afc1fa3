"""Where tenants keep what they have: in their folders, or in a database and a store that machines share.

There the service assigns each tenant a schema and a prefix, whose names hold a random id. So no two tenants ever have
the same place, and a later tenant of the same name has another one.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, quote, urlencode

from backstory.base.environment import SETTINGS_FILE
from backstory.base.errors import BackstoryError, InputError, SettingsError, StateError
from backstory.base.files.atomic import write_file
from backstory.settings.storage import StorageSettings
from backstory.settings.yaml_file import read_settings
from backstory.storage.schema import ACCOUNTS
from backstory.storage.state import State
from backstory.storage.stores import open_store

# The client of Postgres is an extra.
if TYPE_CHECKING:
    from backstory.storage.state_postgres import PostgresState

RECORD: Final = Path(".backstory", "tenant")
"""Where the folder of a tenant holds its id, on a machine that shares tenants with others."""

ALONE: Final = StorageSettings()
"""The storage of a service on one machine, whose tenants have all in their folders."""

_ID_BYTES: Final = 8
_PATIENCE: Final = timedelta(seconds=10)
"""How long a store is tried again of which a tenant is removed."""


@dataclass
class Emptied:
    """What a removal found outside of the folder.

    Attributes:
        rows: Rows of the database that were removed.
        objects: Objects of the store that were removed.
        left: Objects that are left.
    """

    rows: int = 0
    objects: int = 0
    left: list[str] = field(default_factory=list)


class TenantPlaces:
    """The places of the tenants of a service. Any number of threads share it.

    Args:
        accounts: The accounts.
        storage: The database and the store that machines share; empty for a service on one machine.
    """

    def __init__(self, accounts: State, storage: StorageSettings) -> None:
        self._accounts = accounts
        self._storage = storage

    @property
    def is_shared(self) -> bool:
        """Whether several machines may share the tenants."""
        return self._accounts.address is not None

    def join(self, tenant: str, folder: Path) -> None:
        """Make a folder one of those of a tenant, which other machines may have already; nothing on one machine."""
        if not self.is_shared:
            return
        with self._accounts.begin() as session:
            new = (tenant, secrets.token_hex(_ID_BYTES))
            session.execute("INSERT INTO tenants VALUES (?, ?, 0) ON CONFLICT DO NOTHING", new)
            query = "SELECT tenant_id FROM tenants WHERE tenant = ?"
            tenant_id = str(session.execute(query, (tenant,)).fetchone()[0])
        self._open_server().make_namespace(_name_schema(tenant_id))
        assigned = self._assign(tenant_id)
        with (folder / SETTINGS_FILE).open("a", encoding="utf-8") as settings:
            settings.write(f"\nstorage:\n  database: '{assigned.database}'\n  files: '{assigned.files}'\n")
        write_file(folder / RECORD, tenant_id.encode(), mode=0o600)

    def find(self, folder: Path) -> StorageSettings:
        """Return where the tenant of a folder keeps what it has.

        A folder that was made when the service was another one is an error (code ``foreign_folder``).
        """
        return self._assign(_read_id(folder)) if self.is_shared else ALONE

    def require(self, folder: Path) -> None:
        """Raise unless the settings of a tenant are valid, and name its places (code ``other_place``)."""
        assigned, named = self.find(folder), read_settings(folder / SETTINGS_FILE).storage
        if named != assigned:
            said = f"write `storage: {{database: '{assigned.database}', files: '{assigned.files}'}}`"
            what = said if self.is_shared else "leave out `storage`"
            raise SettingsError(
                f"{folder / SETTINGS_FILE} names another place than the service gives to this tenant; {what} there",
                code="other_place",
            )

    @contextmanager
    def present(self, tenant: str, folder: Path) -> Iterator[None]:
        """Keep other machines from removing a tenant within the block; do nothing where accounts are a file.

        One that was removed is unknown.
        """
        if not self.is_shared:
            yield
            return
        tenant_id = _read_id(folder)
        with self._accounts.lock(
            _name_lock(tenant_id), by="the service", wait=False, shared=True
        ) as is_present:
            if not is_present or not self._has(tenant_id, tenant):
                raise name_unknown()
            yield

    def list_databases(self) -> list[str]:
        """List the addresses of the databases of all tenants, also of those that have no folder on this machine."""
        return [str(self._assign(tenant_id).database) for tenant_id in self._list(is_removed=False)]

    def is_known(self, tenant: str) -> bool:
        """Return whether several machines may have a tenant of this name, or its removal is not finished."""
        return any(tenant == name != tenant_id for tenant_id, name in self._list().items())

    def list_removed(self) -> list[str]:
        """List the names of the tenants whose removal is not finished."""
        return [name for tenant_id, name in self._list(is_removed=True).items() if name != tenant_id]

    def is_of_removed(self, folder: Path) -> bool:
        """Return whether a folder is that of a tenant which was removed, or is being removed."""
        with suppress(FileNotFoundError):
            return (folder / RECORD).read_text(encoding="ascii") in self._list(is_removed=True)
        return False

    @contextmanager
    def removing(self, tenant: str) -> Iterator[Emptied]:
        """Remove a tenant from the database and the store, after the last machine has left it, and let nobody enter it.

        After the block, its id is all that is known of it, by which other machines know their folders of it. If a place
        cannot be reached, the removal can be repeated (code ``unfinished_removal``).
        """
        emptied, known = Emptied(), {name: tenant_id for tenant_id, name in self._list().items()}
        if tenant not in known:
            yield emptied
            return
        tenant_id = known[tenant]
        with self._accounts.begin() as session:
            session.execute("UPDATE tenants SET is_removed = 1 WHERE tenant_id = ?", (tenant_id,))
        with self._accounts.lock(_name_lock(tenant_id), by="the removal of a tenant"):
            try:
                emptied.rows = self._open_server().drop_namespace(_name_schema(tenant_id))
                store = open_store(str(self._assign(tenant_id).files), patience=_PATIENCE)
                names = list(store.list_names(""))
                store.delete(names)
                emptied.left = [store.locate(name) for name in store.list_names("")]
                emptied.objects = len(names) - len(emptied.left)
            except BackstoryError as error:
                raise StateError(
                    f"the removal of {tenant} stopped: {error}; repeat the command when it can be used",
                    code="unfinished_removal",
                ) from error
            yield emptied
        if not emptied.left:
            with self._accounts.begin() as session:
                session.execute("UPDATE tenants SET tenant = tenant_id WHERE tenant_id = ?", (tenant_id,))

    def _assign(self, tenant_id: str) -> StorageSettings:
        database, files = self._storage.database or "", self._storage.files
        return StorageSettings(
            database=_in_schema(database, _name_schema(tenant_id)), files=f"{files}/{tenant_id}"
        )

    def _list(self, *, is_removed: bool | None = None) -> dict[str, str]:
        """Return the names of the tenants of several machines by id, in order of the names."""
        if not self.is_shared:
            return {}
        wanted = (0, 1) if is_removed is None else (int(is_removed),) * 2
        query = "SELECT tenant_id, tenant FROM tenants WHERE is_removed IN (?, ?) ORDER BY tenant"
        with self._accounts.reading() as session:
            return dict(session.execute(query, wanted).fetchall())

    def _has(self, tenant_id: str, tenant: str) -> bool:
        query = "SELECT 1 FROM tenants WHERE tenant_id = ? AND tenant = ? AND is_removed = 0"
        with self._accounts.reading() as session:
            return session.execute(query, (tenant_id, tenant)).fetchone() is not None

    def _open_server(self) -> PostgresState:
        from backstory.storage.state_postgres import PostgresState

        return PostgresState(self._accounts.place, ACCOUNTS)


def name_unknown() -> InputError:
    """Make the error of an absent tenant; a text that cannot be a name gets the same one."""
    return InputError(
        "there is no such tenant; `backstory serve tenant list` shows all", code="unknown_tenant"
    )


def _read_id(folder: Path) -> str:
    try:
        return (folder / RECORD).read_text(encoding="ascii")
    except FileNotFoundError as error:
        raise StateError(
            f"the folder {folder} was made before this service shared tenants with other machines; move it away, run "
            "`backstory serve tenant add`, and move its documents and chats into the new folder",
            code="foreign_folder",
        ) from error


def _name_lock(tenant_id: str) -> str:
    return f"tenant {tenant_id}"


def _name_schema(tenant_id: str) -> str:
    return f"t_{tenant_id}"


def _in_schema(address: str, schema: str) -> str:
    """Give the address of another schema of a database."""
    path, _, query = address.partition("?")
    options = dict(parse_qsl(query))
    others = re.sub(r"-c\s*search_path=\S+", "", options.get("options", "")).strip()
    options["options"] = f"{others} -csearch_path={schema}".strip()
    return f"{path}?{urlencode(options, quote_via=quote)}"
