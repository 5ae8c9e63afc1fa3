"""The shared form of a workspace: its folder is a copy of what the store holds, and every change is published."""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from backstory.base.credentials import Keys
from backstory.base.database import waiting_at_most
from backstory.base.environment import FORGOTTEN_KEY_VARIABLE, PSEUDONYM_KEY_VARIABLE, find_key
from backstory.base.errors import BackstoryError, DiskFullError, StoreError, WorkspaceError
from backstory.base.files.disk_full import naming_full_disk
from backstory.settings.paths import WorkspacePaths
from backstory.storage.tables.locks import find_lease, is_running_here, require_token

# A workspace of one machine needs none of it, and every command opens a workspace.
if TYPE_CHECKING:
    from backstory.storage.store.manifest import Manifest
    from backstory.storage.store.objects import ObjectStore
    from backstory.storage.store.replica import Replica

_Read = TypeVar("_Read")

logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 5.0
"""Seconds between two looks at the store by one reader. To make a publication takes longer, and 17,280 looks a day cost
less than one cent."""

AWAY_SECONDS: Final = 60.0
"""Seconds from a look that failed to the next one, since each lasts as long as the patience of a reader."""

_READER_PATIENCE: Final = timedelta(seconds=10)
"""How long a reader that has answers tries to reach the store."""
_PAUSE_SECONDS: Final = 0.05
"""Between two attempts to hold a folder that a reader holds for a moment."""
_GOES_ON: Final = frozenset({"unreachable_store", "missing_manifest", "unwritable_file"})
"""Codes of errors after which a reader goes on with what it has, if it was ever in step."""
_DATABASE_PATIENCE: Final = 2.0
"""Seconds for which a reader waits for a database that it can do without."""
_AWAY: Final = "unreachable_database"
"""Code of the error after which a reader goes on without the database."""
_CONFLICTS: Final = frozenset({"conflicting_files", "closed_file"})
"""Codes of errors after which a reader goes on in any case: the files of a person are here."""


def open_store(workspace: WorkspacePaths, *, patience: timedelta | None = None) -> ObjectStore | None:
    """Open the store that the settings name; None for a workspace of one machine.

    Args:
        workspace: The workspace.
        patience: How long calls that fail are tried again; None for that of runs.

    Raises:
        MissingExtraError: The client of S3 is not installed.
    """
    address = workspace.settings.storage.files
    if address is None:
        return None
    from backstory.storage.store.objects import PATIENCE, ObjectStore

    return ObjectStore(address, patience=PATIENCE if patience is None else patience)


def open_replica(workspace: WorkspacePaths) -> Replica:
    """Open the folder of a workspace as a copy of what a store holds."""
    from backstory.index.snapshot.publication import prune, publish, publishing
    from backstory.index.snapshot.served import adopt_collection
    from backstory.ingest.documents.file_rules import make_rules
    from backstory.storage.store.replica import Replica
    from backstory.writing.post_files import inspect_file

    rules = make_rules(workspace.settings.documents)

    def publish_snapshot(version: str) -> None:
        with publishing(workspace.index):
            publish(workspace.index, version, None)
            adopt_collection(workspace.index, version)
            # What another worker took out of the index does not stay here.
            prune(workspace.index, keep=1, on_server=False)

    return Replica(
        workspace,
        publish_snapshot,
        lambda path: rules.explain_secret(path) is not None,
        lambda path: inspect_file(path) == "ours",
    )


@contextmanager
def sharing(
    workspace: WorkspacePaths,
    *,
    deletes_at_once: bool = False,
    count_fetched: Callable[[int], None] = lambda _: None,
) -> Iterator[Callable[[], AbstractContextManager[None]]]:
    """Change a workspace: bring its folder in step with the store, and publish the changes at the end.

    Without a store nothing is done. The caller holds the lock of the workspace; where it does not, its publication is
    joined with those of others, or refused. After an exception nothing is published, and the changes stay here.

    Args:
        workspace: The workspace.
        deletes_at_once: Whether objects that no manifest names any more are deleted now and not a day later, since a
            person asked to have something forgotten.
        count_fetched: Called with the number of files that each look at the store has fetched.

    Yields:
        A function for a part of the work on which other workers wait: what is done within its context begins with what
        they have published by then, and is published at its end.

    Raises:
        StoreError: See :func:`~backstory.storage.store.exchange.pull` and
            :func:`~backstory.storage.store.exchange.publish_changes`.
        StaleLeaseError: Another worker has taken over the work since; nothing was published.
        WorkspaceError: This worker lacks a key, or has a wrong one; see :func:`require_keys`.
    """
    store = open_store(workspace)
    if store is None:
        yield nullcontext
        return
    from backstory.storage.store.exchange import publish_changes, pull
    from backstory.storage.store.garbage import collect_garbage
    from backstory.storage.store.manifest import KEPT

    replica = open_replica(workspace)
    with replica.held():
        replica.ledger.set_aside_if_damaged()
        count_fetched(pull(replica, store))
        require_keys(workspace)
        _tell_other_settings(replica, replica.read_in_step(store.address).manifest)
        if deletes_at_once:
            # What an earlier call published, and was killed before it deleted.
            collect_garbage(store, replica.read_in_step(store.address).manifest, timedelta(0))

        def publish() -> None:
            keeps = timedelta(0) if deletes_at_once else KEPT
            publish_changes(replica, store, partial(_find_tokens, workspace), keeps=keeps)

        @contextmanager
        def publishing_part() -> Iterator[None]:
            count_fetched(pull(replica, store))
            yield
            publish()

        yield publishing_part
        publish()


def share_inputs(workspace: WorkspacePaths) -> None:
    """Publish what people changed in the folder, such as uploads, so that a run of any other worker finds it.

    While a run of this machine is under way, nothing is done: that run, or the next one here, publishes the same.
    Without a store, too. Anything else that holds the replica is waited for, but only for a while.

    Args:
        workspace: The workspace.

    Raises:
        StoreError: See :func:`sharing`; the changes stay here.
    """
    store = open_store(workspace, patience=_READER_PATIENCE)
    if store is None:
        return
    from backstory.storage.store.exchange import publish_changes, pull

    replica = open_replica(workspace)
    until = time.monotonic() + _READER_PATIENCE.total_seconds()
    while True:
        with replica.held(wait=False) as is_free:
            if is_free:
                replica.ledger.set_aside_if_damaged()
                pull(replica, store)
                publish_changes(replica, store)
                return
        if is_running_here(workspace.tables):
            return
        if time.monotonic() > until:
            logger.warning(
                "what was changed here is published by the next run, since a command holds the files"
            )
            return
        threading.Event().wait(_PAUSE_SECONDS)


def _tell_other_settings(replica: Replica, published: Manifest) -> None:
    """Say that this worker is about to change what every other one is held to."""
    if published.settings in ("", replica.settings):
        return
    names = published.change.name_differences(replica.change) if published.change.worker else []
    logger.warning(
        "this publishes changed settings (%s): every other worker then needs this backstory.yaml",
        ", ".join(names) or "which ones is not recorded",
    )


def _find_tokens(workspace: WorkspacePaths) -> dict[str, int]:
    """Return the token of the lease under which the caller works, by the name of the lease and its partitions.

    Raises:
        StaleLeaseError: Another worker has taken over since.
    """
    token, lease = require_token(workspace.tables), find_lease(workspace.tables)
    return {} if token is None or lease is None else {f"{lease.name} {'..'.join(lease.span)}": token}


def require_keys(workspace: WorkspacePaths) -> None:
    """Take the keys of the workspace or the environment, and raise if a worker then lacks one that its files need.

    Keys never leave the machines of the workers: whoever reads the bucket must not learn who is behind a pseudonym.
    Readers need none.

    Args:
        workspace: The workspace; for one of one machine nothing is done.

    Raises:
        WorkspaceError: A key is absent (code ``no_pseudonym_key`` or ``no_forgotten_key``); a file or variable holds no
            key (``no_secret``), or not the one that the workspace was made with (``other_secret``); or the two hold
            different keys (``differing_keys``).
    """
    if workspace.settings.storage.files is None:
        return
    from backstory.ingest.privacy.erasure_list import KEY_SUFFIX, read_key_fingerprint
    from backstory.ingest.privacy.secret_file import read_fingerprint

    made_with = read_fingerprint(open_replica(workspace).ledger)
    _require_key(workspace.secret, PSEUDONYM_KEY_VARIABLE, made_with, workspace.keys)
    if made_with and not workspace.secret.exists():
        raise _name_absence(workspace.secret, PSEUDONYM_KEY_VARIABLE, "no_pseudonym_key")
    key = workspace.forgotten.with_suffix(KEY_SUFFIX)
    _require_key(key, FORGOTTEN_KEY_VARIABLE, read_key_fingerprint(workspace.forgotten), workspace.keys)
    if workspace.forgotten.exists() and not key.exists():
        raise _name_absence(key, FORGOTTEN_KEY_VARIABLE, "no_forgotten_key")


def _require_key(path: Path, variable: str, made_with: str, of_workspace: Keys | None) -> None:
    """Check what a file and a variable hold, and write the key of the variable into an absent file.

    Args:
        path: File of the key.
        variable: The variable.
        made_with: Fingerprint of the key that the workspace was made with; empty if it is not known.
        of_workspace: The keys of the workspace; None for those of the environment.
    """
    from backstory.ingest.privacy.secret_file import fingerprint_key, parse_key

    given = find_key(variable, of_workspace)
    texts = {} if given is None else {variable: given.get_secret_value()}
    if path.exists():
        texts[str(path)] = path.read_text(encoding="ascii", errors="replace")
    keys = {name: parse_key(text) for name, text in texts.items()}
    remedy = f"copy {path.name} from another worker, or set {variable} to what it holds there"
    named = {"path": path, "variable": variable}
    fingerprints: dict[str, str] = {}
    for name, key in keys.items():
        if key is None:
            message = f"{name} is not a key of 64 hexadecimal digits; {remedy}"
            raise WorkspaceError(message, code="no_secret", **named)
        fingerprints[name] = fingerprint_key(key)
    wrong = [name for name, known in fingerprints.items() if made_with and known != made_with]
    if len(set(fingerprints.values())) > 1:
        told = (
            f"; {' and '.join(wrong)} {'are' if wrong[1:] else 'is'} not that of the workspace"
            if wrong
            else ""
        )
        message = (
            f"{variable} and {path} hold different keys{told}; unset the variable, or correct the wrong one"
        )
        raise WorkspaceError(message, code="differing_keys", **named)
    if wrong:
        message = f"{' and '.join(wrong)} is not the key that the workspace was made with; {remedy}"
        raise WorkspaceError(message, code="other_secret", **named)
    if given is not None and not path.exists():
        _write_key(path, given.get_secret_value())


def _name_absence(path: Path, variable: str, code: str) -> WorkspaceError:
    return WorkspaceError(
        f"this worker lacks {path}, which is never in the bucket; copy it from a worker that has it, or set "
        f"{variable} to what it holds",
        code=code,
        path=path,
    )


def _write_key(path: Path, key: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(f"{key}\n")


class Follower:
    """Keeps the folder of a workspace in step with the store for readers, who change nothing. Serves any thread.

    Args:
        workspace: The workspace.
        clock: Seconds of a clock that never goes back.

    Attributes:
        problem: Why the last look failed, for those who are given what is here; empty if it did not.
    """

    def __init__(self, workspace: WorkspacePaths, clock: Callable[[], float] = time.monotonic) -> None:
        self.problem = ""
        self._fetched = 0
        self._workspace = workspace
        self._clock = clock
        self._next_look = -math.inf
        self._lock = threading.Lock()

    def follow(self, *, before_run: bool = False) -> None:
        """Fetch what was published, if the last look is :data:`LOOK_SECONDS` old, or :data:`AWAY_SECONDS` if it failed.

        While a run of this machine changes the folder, nothing is fetched: the run has done so. The log tells once that
        a look failed, until one succeeds.

        Args:
            before_run: Whether a run or the like is to begin: look at once, raise a conflict, which stops it, and let
                the caller tell that the store is away.

        Raises:
            StoreError: The folder was never in step, and the store cannot be used; or what it holds is damaged or
                foreign.
            DiskFullError: What was published finds no room, and a run is to begin or the folder was never in step.
        """
        if self._workspace.settings.storage.files is None or not self._lock.acquire(blocking=False):
            return
        try:
            if before_run or self._clock() >= self._next_look:
                before, self.problem = self.problem, self._look(before_run)
                if self.problem and not before and not before_run:
                    logger.warning("%s", self.problem)
                self._next_look = self._clock() + (AWAY_SECONDS if self.problem else LOOK_SECONDS)
        finally:
            self._lock.release()

    def count_fetched(self, number: int) -> None:
        """Add files that were fetched to those that the next run tells of."""
        self._fetched += number

    def take_fetched(self) -> int:
        """Return the number of files that were fetched since the last call."""
        fetched, self._fetched = self._fetched, 0
        return fetched

    def _look(self, before_run: bool) -> str:
        store = open_store(self._workspace, patience=_READER_PATIENCE)
        if store is None:
            return ""
        from backstory.storage.store.exchange import is_behind, pull

        replica = open_replica(self._workspace)
        try:
            if not is_behind(replica, store):
                return ""
            # An empty folder waits for whoever fills it; any other serves what it has.
            with replica.held(wait=not replica.read_in_step(store.address).etag) as is_free:
                if not is_free:
                    return ""
                with naming_full_disk(self._workspace.root):
                    replica.ledger.set_aside_if_damaged()
                    self.count_fetched(pull(replica, store, changes=False))
        except DiskFullError as error:
            if before_run or not replica.read_in_step(store.address).etag:
                raise
            return (
                "What others have published did not find room here, so this may be out of date, or lack days: "
                f"{error}"
            )
        except StoreError as error:
            has_answers = error.code in _GOES_ON and replica.read_in_step(store.address).etag
            if not has_answers and (error.code not in _CONFLICTS or before_run):
                raise
            return f"Nothing was fetched from the store, so this may be out of date ({error.code}): {error}"
        return ""


class StateReader:
    """Lets readers, who can do without state, go on while the database of the settings is away. Serves any thread.

    Args:
        clock: Seconds of a clock that never goes back.

    Attributes:
        problem: What the answers lack since the last question to the database failed; empty if it did not.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.problem = ""
        self._clock = clock
        self._next_question = -math.inf

    def read(self, ask: Callable[[], _Read], otherwise: Callable[[], _Read]) -> _Read:
        """Ask the database; while it is away, do otherwise, and ask again after :data:`AWAY_SECONDS`.

        Args:
            ask: Reads state of the workspace, or writes what is only kept for later.
            otherwise: Does without.

        Raises:
            BackstoryError: Something else is wrong, such as a password; it is that of the owner of the state.
        """
        if self._clock() < self._next_question:
            return otherwise()
        try:
            with waiting_at_most(_DATABASE_PATIENCE):
                read = ask()
        except BackstoryError as error:
            if error.code != _AWAY:
                raise
            is_first = not self.problem
            self.problem = (
                "The database is away, so vectors of questions and judgements are computed anew and not kept, and "
                f"whether a run is under way elsewhere is not known ({error.code}): {error}"
            )
            if is_first:
                logger.warning("%s", self.problem)
            self._next_question = self._clock() + AWAY_SECONDS
            return otherwise()
        self.problem = ""
        return read
