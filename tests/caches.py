"""Caches in folders of tests."""

from __future__ import annotations

from pathlib import Path

from backstory.storage.schema import CACHE
from backstory.storage.state import State
from backstory.storage.state_places import open_state


def open_cache(folder: Path) -> State:
    """Open the cache of a folder, which need not exist."""
    return open_state(folder, None, CACHE)
