"""Opens the parts of a service that lie in its folder: accounts, keys and tenants."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from backstory.base.environment import config_folder
from backstory.base.errors import InputError
from backstory.interfaces.service.accounts import Accounts
from backstory.interfaces.service.accounts_file import ACCOUNTS_FILE
from backstory.interfaces.service.key_file import default_key_file, require_outside
from backstory.interfaces.service.keys import KeyRing
from backstory.interfaces.service.tenants import TENANTS_FOLDER, Tenants
from backstory.settings.paths import CONVERSATIONS
from backstory.settings.template import OWNER_ONLY
from backstory.storage.conversations import ConversationStore

MEGABYTE: Final = 1 << 20
DEFAULT_MEGABYTES: Final = 512


@dataclass(frozen=True, slots=True)
class ServiceFolder:
    """The parts of a service that lie in its folder.

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
                store = ConversationStore(self.tenants.folder(tenant) / CONVERSATIONS)
                removed += store.remove_person(user_id)
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
        AccountError: The key file lies in the folder.
    """
    if makes:
        root.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
    elif not ((root / ACCOUNTS_FILE).exists() or (root / TENANTS_FOLDER).is_dir()):
        raise InputError(
            f"{root} is no folder of a service; make it by `backstory serve tenant add NAME --root {root}`",
            code="no_service",
            path=root,
        )
    path = default_key_file(config_folder()) if key_file is None else key_file.expanduser()
    require_outside(path, root)
    accounts = Accounts(root / ACCOUNTS_FILE)
    keys = KeyRing(accounts.database, path)
    memory_bytes = (DEFAULT_MEGABYTES if megabytes is None else megabytes) * MEGABYTE
    return ServiceFolder(accounts, keys, Tenants(root, keys, memory_bytes=memory_bytes))
