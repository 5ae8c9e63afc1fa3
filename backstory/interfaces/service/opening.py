"""Opens the parts of a service: accounts, keys and tenants, in its folder or in a database that machines share."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from backstory.base.environment import SETTINGS_FILE, config_folder
from backstory.base.errors import BackstoryError, InputError, SettingsError, StateError
from backstory.interfaces.service.accounts import Accounts
from backstory.interfaces.service.key_file import default_key_file, require_outside
from backstory.interfaces.service.keys import KeyRing
from backstory.interfaces.service.place_marks import claim_for_accounts
from backstory.interfaces.service.tenants import TENANTS_FOLDER, Tenants
from backstory.settings.paths import STATE_FOLDER
from backstory.settings.template import OWNER_ONLY
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
        """Raise if the keys of a tenant cannot be opened, before anybody asks for them.

        Raises:
            StateError: The key file is absent or open to others, or a key was sealed with another one.
        """
        for name in self.tenants.names():
            self.keys.open(name)

    def remove_user(self, name: str, *, without: Collection[str] = ()) -> int:
        """Remove a user with all tokens, roles and conversations.

        Tokens and roles go first, so that the user enters nothing any more. The name stays until no conversation is
        left, so that a removal that stopped can be repeated.

        Args:
            name: Name of the user.
            without: Addresses of databases and folders that are gone for good.

        Returns:
            The number of conversations that were removed.

        Raises:
            InputError: There is no such user.
            StateError: Places that may hold conversations could not be used, and all others were cleared (code
                ``unfinished_removal``).
        """
        user_id = self.accounts.revoke_all(name)
        removed, left = self._remove_conversations(user_id, without)
        if left:
            places = "; ".join(f"{place} ({reason})" for place, reason in left.items())
            raise StateError(
                f"{name} has no token and no role any more, but conversations may be left in: {places}. Repeat the "
                "command when these can be used, or with `--without ADDRESS` for each that is gone for good",
                code="unfinished_removal",
            )
        self.tenants.places.forget_cleared(user_id)
        self.accounts.remove_user(name)
        return removed

    def _remove_conversations(self, user_id: str, without: Collection[str]) -> tuple[int, dict[str, str]]:
        """Remove the conversations of a user; return their number, and why some places could not be used."""
        places, removed = self.tenants.places, 0
        here = {name: self.tenants.folder(name) for name in self.tenants.names()}
        left = {
            folder: "a folder of another machine: run the command there"
            for folder in places.list_files_elsewhere(here.values(), user_id)
            if folder not in without
        }

        @contextmanager
        def noting(place: str) -> Iterator[None]:
            try:
                yield
            except BackstoryError as error:
                left[place] = str(error)

        for tenant, folder in here.items():
            if str(folder) not in without:
                with noting(str(folder)), self.tenants.holding(tenant):
                    state = open_state(folder / STATE_FOLDER, None, STATE)
                    removed += ConversationStore(state).remove_person(user_id)
        # Settings may be invalid, or on other machines.
        for address in places.list_databases():
            if address not in without:
                with noting(address):
                    state = open_state(self.tenants.root, address, STATE)
                    removed += ConversationStore(state).remove_person(user_id)
        if left:  # so that the same command on another machine does not name what was cleared here
            cleared = [folder for folder in here.values() if str(folder) not in {*left, *without}]
            places.note_cleared(cleared, user_id)
        return removed, left


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
        StateError: The key file lies in the folder, or accounts of a file cannot be copied to the database.
        SettingsError: The settings of the folder are invalid, or name the database of a tenant.
        WorkspaceError: The database cannot be used.
    """
    if makes:
        root.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
    elif not any((root / name).exists() for name in (_ACCOUNTS_FILE, TENANTS_FOLDER, SERVICE_SETTINGS)):
        raise InputError(
            f"{root} is no folder of a service; make it by `backstory serve tenant add NAME --root {root}`"
        )
    path = default_key_file(config_folder()) if key_file is None else key_file.expanduser()
    require_outside(path, root)
    accounts = Accounts(_open_accounts(root))
    keys = KeyRing(accounts.state, path)
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
        )
    return settings.storage.database


def _open_accounts(root: Path) -> State:
    """Open the accounts where the settings of the folder say, to which those of a file move that was used before."""
    address = read_shared_database(root)
    state = open_state(root, address, ACCOUNTS)
    if address is not None:
        claim_for_accounts(address)
        path = root / _ACCOUNTS_FILE
        if path.is_file():
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
