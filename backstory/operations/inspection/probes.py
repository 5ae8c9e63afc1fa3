"""Probes: single checks of a workspace, and those that `doctor` and its option `--files` share."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from backstory.base.errors import BackstoryError, StateError
from backstory.ingest.privacy.secret_file import is_unmade
from backstory.operations.inspection.files import Examination
from backstory.pipeline.chats.copies import find_stale_copies
from backstory.pipeline.workspace import Workspace
from backstory.storage.schema import STATE
from backstory.storage.state_places import open_state
from backstory.storage.tables.schemas import TABLES
from backstory.storage.tables.views import VIEWS_FILE, find_views_damage
from backstory.storage.turns import is_running

TABLE: Final = "table "
"""How the names of examinations of tables begin."""
_DATABASE: Final = "database"
_QUESTIONS: Final = 5


@dataclass(frozen=True)
class Probe:
    """One check of a workspace.

    Attributes:
        name: What it is.
        look: Describes it, or raises an error that names what is wrong.
        is_replaced: Whether a run replaces it in several steps. Between two of these steps a difference means
            nothing, so it counts only while no run is under way.
    """

    name: str
    look: Callable[[Workspace], str]
    is_replaced: bool = False

    def examine(self, workspace: Workspace) -> Examination:
        """Run the check in a workspace."""
        found = self._look(workspace)
        # A second look separates a run that ended during the first from a difference that stays.
        for _ in range(2 if self.is_replaced else 0):
            if found.passed:
                return found
            if _is_changing(workspace):
                detail = "not compared, since a run is changing it; check again when the run has ended"
                return Examination(self.name, True, detail)
            found = self._look(workspace)
        return found

    def _look(self, workspace: Workspace) -> Examination:
        return examine_one(self.name, lambda: self.look(workspace))


def _is_changing(workspace: Workspace) -> bool:
    """Return whether a run is under way; not known, and taken for no, while the database is away."""
    try:
        return is_running(workspace.catalog.state)
    except StateError:
        return False  # the examination of the database says why


def examine_one(name: str, look: Callable[[], str]) -> Examination:
    """Build an examination from a function: its result describes the finding, its error names what is wrong."""
    try:
        return Examination(name, True, look())
    except (BackstoryError, OSError, ImportError) as error:
        return Examination(name, False, str(error))


def leave_out_explained(found: Sequence[Examination], address: str | None) -> list[Examination]:
    """Leave out what failed since a table or the database cannot be read; the examination of that one says so."""
    named = {one.detail for one in found if not one.passed and one.name.startswith(TABLE)}
    is_away = any(not one.passed and one.name == _DATABASE for one in found)
    return [
        one
        for one in found
        if one.name == _DATABASE
        or one.name.startswith(TABLE)
        or not (one.detail in named or (is_away and not one.passed and str(address) in one.detail))
    ]


def examine_database(address: str | None) -> list[Examination]:
    """Try the database of the settings; nothing without one."""
    return [] if address is None else [examine_one(_DATABASE, lambda: _describe_database(address))]


def _describe_database(address: str) -> str:
    """Describe how fast the server answers."""
    state, seconds = open_state(Path(), address, STATE), []
    for _ in range(_QUESTIONS):  # of which the first may connect
        began = time.perf_counter()
        state.exists()
        seconds.append(time.perf_counter() - began)
    return f"{address} answers in {1000 * min(seconds):.1f} ms (the first time {1000 * seconds[0]:.1f} ms)"


def describe_clock(ahead: float, *, digits: int) -> str:
    """Describe how far a clock is from this machine's.

    Args:
        ahead: Seconds by which it is ahead; negative if behind.
        digits: Digits after the point that are known.
    """
    if not round(ahead, digits):
        return "agrees with that of this machine"
    return f"is {abs(ahead):.{digits}f} s {'ahead of' if ahead > 0 else 'behind'} that of this machine"


def _describe_catalog(workspace: Workspace) -> str:
    """Check that the catalog can be read.

    Raises:
        StateError: It is damaged.
    """
    workspace.catalog.state.examine()
    if workspace.catalog.state.exists():
        return "can be read"
    store = workspace.tables.store
    if left := next((name for table in TABLES for name in store.list_names(table)), None):
        raise StateError(
            f"the catalog of the tables is gone, though there is {left}; `backstory run` makes both again"
        )
    return "not made yet; the first run makes it"


def _describe_cache(workspace: Workspace) -> str:
    """Check that the cache can be read.

    Raises:
        StateError: It is damaged, or cannot be read.
    """
    workspace.cache.examine()
    caches = (
        (workspace.embeddings, "vectors"),
        (workspace.drafts, "drafts"),
        (workspace.judgements, "judgements"),
    )
    held = ", ".join(f"{cache.count():,} {name}" for cache, name in caches)
    return f"{held} can be read"


def _describe_views(workspace: Workspace) -> str:
    """Check that the file of the views is as the last run wrote it.

    Raises:
        BackstoryError: It is another, or gone.
    """
    if workspace.settings.storage.files is not None:
        return "not written, since the tables are in a store"
    if damage := find_views_damage(workspace.tables):
        raise BackstoryError(damage)
    return f"{VIEWS_FILE} is as it was written"


def _describe_history(workspace: Workspace) -> str:
    """Check that the history of runs can be read, and that the table ``runs`` agrees with it.

    Raises:
        StateError: The state is damaged, or the table differs.
    """
    workspace.state.examine()
    if months := workspace.runs.find_damaged_months():
        raise StateError(
            f"the table runs differs from the history in {', '.join(months)}; `backstory run` writes it again"
        )
    return "the table runs agrees with it"


def _describe_copies(workspace: Workspace) -> str:
    """Check that no page or text remains of rows that have left the tables.

    Raises:
        BackstoryError: Some are, which Backstory may not delete.
    """
    if copies := find_stale_copies(workspace):
        raise BackstoryError("; ".join(copies))
    return "none contains data that has left the tables"


def _describe_secret(workspace: Workspace) -> str:
    """Check that the key of the pseudonyms is the one in use, and that only its owner can read it.

    Raises:
        WorkspaceError: It is lost, or another.
        PermissionError: Others can read it.
    """
    if not workspace.settings.privacy.pseudonyms:
        return "not used, since privacy.pseudonyms is off"
    path = workspace.secret
    if is_unmade(path, workspace.tables):
        return "not made yet; the first run makes it"
    if workspace.catalog.read("secret") or not path.is_file():  # else loading it would record it
        workspace.load_secret()
    mode = path.stat().st_mode & 0o777
    if mode != 0o600:
        raise PermissionError(f"{path} has mode {mode:o}; run `chmod 600 {path}`")
    return f"{path} is readable by its owner only"


SHARED: Final = (
    Probe("catalog", _describe_catalog, is_replaced=True),
    Probe("cache", _describe_cache),
    Probe("views", _describe_views, is_replaced=True),
    Probe("copies", _describe_copies, is_replaced=True),
    Probe("history of runs", _describe_history, is_replaced=True),
    Probe("secret", _describe_secret),
)
"""Probes of every examination of a workspace."""
