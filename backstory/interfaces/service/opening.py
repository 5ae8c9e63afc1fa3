"""Opens the parts of a service: accounts, keys and tenants, in its folder or in a database that machines share."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from backstory.base.environment import SETTINGS_FILE, config_folder
from backstory.base.errors import InputError, SettingsError, StateError
from backstory.interfaces.service.accounts import Accounts
from backstory.interfaces.service.key_file import default_key_file, require_outside
from backstory.interfaces.service.keys import KeyRing
from backstory.interfaces.service.tenant_places import ALONE
from backstory.interfaces.service.tenants import TENANTS_FOLDER, Tenants
from backstory.settings.paths import OWNER_ONLY
from backstory.settings.storage import StorageSettings
from backstory.settings.yaml_file import read_settings
from backstory.storage.conversations import ConversationStore
from backstory.storage.schema import ACCOUNTS, STATE
from backstory.storage.state import State, copy_state
from backstory.storage.state_places import open_state

logger = logging.getLogger(__name__)

SERVICE_SETTINGS: Final = "service.yaml"
"""Name of the settings in the folder of a service, which are those of `backstory.yaml` for the accounts."""

_ACCOUNTS_FILE: Final = f"{ACCOUNTS.name}.sqlite"
MEGABYTE: Final = 1 << 20
DEFAULT_MEGABYTES: Final = 512


@dataclass(frozen=True, slots=True)
class ServiceFolder:
    """The parts of a service, each in its folder or where the settings of the folder say.

    Attributes:
        accounts: Users, tokens and roles.
        keys: The keys of tenants.
        tenants: The workspaces.
    """

    accounts: Accounts
    keys: KeyRing
    tenants: Tenants

    def require_keys(self) -> None:
        """Raise if the keys of a tenant cannot be opened, before anybody asks for them."""
        for name in self.tenants.names():
            self.keys.open(name)

    def remove_user(self, name: str) -> int:
        """Remove a user with all tokens, roles and conversations, and return the number of conversations.

        Tokens and roles go first, so that the user enters nothing any more. The name stays until no conversation is
        left, so that a removal that stopped can be repeated.
        """
        user_id = self.accounts.revoke_all(name)
        removed = 0
        for tenant in self.tenants.names():
            with self.tenants.holding(tenant):
                removed += ConversationStore(self.tenants.open_state(tenant)).remove_person(user_id)
        for address in self.tenants.places.list_databases():  # of which some have no folder on this machine
            removed += ConversationStore(open_state(self.tenants.root, address, STATE)).remove_person(user_id)
        self.accounts.remove_user(name)
        return removed


def open_service_folder(
    root: Path, key_file: Path | None = None, *, megabytes: int | None = None, makes: bool = False
) -> ServiceFolder:
    """Open the folder of a service, or make it if it may be absent, open to its owner alone.

    The key file is that in the folder of the user's configuration unless another is named. The open snapshots may count
    some MB of 2**20 bytes, :data:`DEFAULT_MEGABYTES` unless said.
    """
    if makes:
        root.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
    elif not any((root / name).exists() for name in (_ACCOUNTS_FILE, TENANTS_FOLDER, SERVICE_SETTINGS)):
        raise InputError(
            f"{root} is no folder of a service; make it by `backstory serve tenant add NAME --root {root}`"
        )
    path = default_key_file(config_folder()) if key_file is None else key_file.expanduser()
    require_outside(path, root)
    storage = read_shared_storage(root)
    accounts = Accounts(_open_accounts(root, storage.database))
    keys = KeyRing(accounts.state, path)
    memory_bytes = (DEFAULT_MEGABYTES if megabytes is None else megabytes) * MEGABYTE
    return ServiceFolder(accounts, keys, Tenants(root, keys, memory_bytes=memory_bytes, storage=storage))


def read_shared_storage(root: Path) -> StorageSettings:
    """Read which database and store the machines of a service share; none if its folder holds everything.

    Settings that say anything else are an error (code ``other_setting``).
    """
    path = root / SERVICE_SETTINGS
    if not path.exists():
        return ALONE
    settings = read_settings(path)
    if settings.model_fields_set - {"storage"} or None in (settings.storage.database, settings.storage.files):
        raise SettingsError(
            f"{path} must say `storage: {{database: ADDRESS, files: ADDRESS}}` and nothing more; all other settings "
            f"are those of tenants, in {TENANTS_FOLDER}/NAME/{SETTINGS_FILE}",
            code="other_setting",
        )
    return settings.storage


def _open_accounts(root: Path, address: str | None) -> State:
    """Open the accounts where the settings of the folder say, to which those of a file move that was used before."""
    state, path = open_state(root, address, ACCOUNTS), root / _ACCOUNTS_FILE
    if address is not None and path.is_file():
        _move_accounts(path, open_state(root, None, ACCOUNTS), state)
    return state


def _move_accounts(path: Path, here: State, there: State) -> None:
    """Copy the accounts of a file, which no process uses any more, to a server, and move the file aside."""
    with here.reading() as session:
        own = set(session.execute("SELECT user_id, name FROM users").fetchall())
    with there.reading() as session:
        others = set(session.execute("SELECT user_id, name FROM users").fetchall())
    if others and not own <= others:
        raise StateError(
            f"{there.place} holds other accounts than {path}; name an empty schema, or move the file away",
            code="other_rows",
        )
    read, _ = copy_state(here, there)
    here.close()
    aside = path.with_name(f"{path.name}.moved")
    path.rename(aside)
    logger.warning("%d rows of accounts were copied to %s; delete %s", read, there.place, aside)
