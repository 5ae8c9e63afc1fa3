"""Opens the parts of a service: accounts, keys and tenants, in its folder or in a database that machines share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from backstory.base.environment import SETTINGS_FILE, cache_folder, config_folder
from backstory.base.errors import InputError, SettingsError
from backstory.base.mounts import find_mount, mount
from backstory.interfaces.service.accounts import Accounts
from backstory.interfaces.service.accounts_file import ACCOUNTS_FILE, move_accounts
from backstory.interfaces.service.key_file import default_key_file, require_outside
from backstory.interfaces.service.keys import KeyRing
from backstory.interfaces.service.tenant_places import claim_for_accounts
from backstory.interfaces.service.tenants import TENANTS_FOLDER, Tenants
from backstory.settings.paths import CONVERSATIONS
from backstory.settings.template import OWNER_ONLY
from backstory.settings.yaml_file import read_settings
from backstory.storage.conversations import ConversationStore

SERVICE_SETTINGS: Final = "service.yaml"
"""Name of the settings in the folder of a service, which are those of `backstory.yaml` for the accounts."""

_ANY: Final = ".any"
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
        """Raise if the keys of a tenant cannot be opened, before anybody asks for them.

        Raises:
            AccountError: The key file is absent or open to others, or a key was sealed with another one.
        """
        for name in self.tenants.names():
            self.keys.open(name)

    def remove_user(self, name: str) -> int:
        """Remove a user with all tokens, roles and conversations. A removal that was interrupted can be repeated.

        Returns:
            The number of conversations that were removed.

        Raises:
            InputError: There is no such user.
        """
        user_id = self.accounts.find_user(name)
        removed = self._remove_conversations(user_id)
        self.accounts.remove_user(name)
        return removed + self._remove_conversations(user_id)  # one may have begun meanwhile

    def _remove_conversations(self, user_id: str) -> int:
        removed = 0
        for tenant in self.tenants.names():
            with self.tenants.holding(tenant):
                store = ConversationStore(self.tenants.state_folder(tenant) / CONVERSATIONS)
                removed += store.remove_person(user_id)
        # Where a tenant has no folder here, its settings are not known; the path of a database only names its tables.
        for address in self.tenants.places.list_databases():
            place = self.tenants.root / TENANTS_FOLDER / _ANY / CONVERSATIONS
            mount(place, address)
            removed += ConversationStore(place).remove_person(user_id)
            mount(place, None)
        return removed


def open_service_folder(
    root: Path, key_file: Path | None = None, *, megabytes: int | None = None, makes: bool = False
) -> ServiceFolder:
    """Open the folder of a service.

    Args:
        root: The folder.
        key_file: The key file; None for the one in the folder of the user's configuration.
        megabytes: What the open snapshots may count, in MB of 2**20 bytes; None for :data:`DEFAULT_MEGABYTES`.
        makes: Whether the folder is made if it is absent, open to its owner alone.

    Raises:
        InputError: The folder is none of a service, and is not to be made.
        AccountError: The key file lies in the folder, or accounts of a file cannot be copied to the database.
        SettingsError: The settings of the folder are invalid, or name the database of a tenant.
        WorkspaceError: The database cannot be used.
    """
    if makes:
        root.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
    elif not any((root / name).exists() for name in (ACCOUNTS_FILE, TENANTS_FOLDER, SERVICE_SETTINGS)):
        raise InputError(
            f"{root} is no folder of a service; make it by `backstory serve tenant add NAME --root {root}`",
            code="no_service",
            path=root,
        )
    path = default_key_file(config_folder()) if key_file is None else key_file.expanduser()
    require_outside(path, root)
    _mount_accounts(root)
    accounts = Accounts(root / ACCOUNTS_FILE)
    keys = KeyRing(accounts.database, path)
    memory_bytes = (DEFAULT_MEGABYTES if megabytes is None else megabytes) * MEGABYTE
    return ServiceFolder(accounts, keys, Tenants(root, keys, memory_bytes=memory_bytes))


def read_shared_database(root: Path) -> str | None:
    """Return the address of the database that holds the accounts of a service; None if its folder does.

    Raises:
        SettingsError: The settings of the folder are invalid, or say anything else (code ``other_setting``).
    """
    path = root / SERVICE_SETTINGS
    if not path.exists():
        return None
    settings = read_settings(path)
    said = settings.model_dump(exclude_unset=True)
    if said.keys() - {"storage"} or said.get("storage", {}).keys() - {"database"}:
        raise SettingsError(
            f"{path} says more than `storage: {{database: ADDRESS}}`; all other settings are those of tenants, in "
            f"{TENANTS_FOLDER}/NAME/{SETTINGS_FILE}",
            code="other_setting",
            path=path,
        )
    return settings.storage.database


def _mount_accounts(root: Path) -> None:
    """Keep the accounts where the settings of the folder say, and the limits of calls with them."""
    address = read_shared_database(root)
    mount(root / ACCOUNTS_FILE, address)
    if address is not None:
        claim_for_accounts(address)
        move_accounts(root / ACCOUNTS_FILE, address)
        if find_mount(cache_folder()) is None:
            mount(cache_folder(), address)
