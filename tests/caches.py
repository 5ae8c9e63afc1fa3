"""State in folders of tests."""

from __future__ import annotations

from pathlib import Path

from backstory.settings.paths import STATE_FOLDER
from backstory.storage.schema import ACCOUNTS, CACHE, STATE
from backstory.storage.state import State
from backstory.storage.state_places import open_state
from tests.postgres import address_of_test


def open_cache(folder: Path) -> State:
    """Open the cache of a folder, which need not exist."""
    return open_state(folder, None, CACHE)


def open_own_state(folder: Path) -> State:
    """Open the history, the conversations and the jobs of a workspace."""
    return open_state(folder / STATE_FOLDER, address_of_test.get(), STATE)


def open_accounts(root: Path) -> State:
    """Open the accounts of a service."""
    return open_state(root, address_of_test.get(), ACCOUNTS)
