"""One pass of an index job over the files of a tenant, whichever process makes it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from backstory.base.environment import SETTINGS_FILE
from backstory.base.errors import BackstoryError, StoppedError
from backstory.base.progress import STEP_OF_TABLES, listening
from backstory.base.telemetry import log_event
from backstory.interfaces.library.indexing import IndexingPlace
from backstory.interfaces.library.job_store import JobStore, JobTurn
from backstory.interfaces.library.library import Library
from backstory.interfaces.library.results import IndexReport
from backstory.interfaces.service.disk_quotas import bound_removal, forecast_growth, require_room
from backstory.interfaces.service.refusals import RefusedError, hide_paths, list_places

logger = logging.getLogger(__name__)

_SECONDS_BETWEEN_RECORDS: Final = 0.2
_SECONDS_BETWEEN_MEASURES: Final = 2.0
_COUNTS: Final = ("indexed", "unchanged", "failed", "skipped", "removed", "documents", "chunks", "embedded")


def index_once(
    library: Library, store: JobStore, turn: JobTurn, is_ending: Callable[[], bool], quota: int | None = None
) -> None:
    """Go over the documents and chats of a tenant once, and record what became of the job, also at an unexpected error.

    If the service is about to end, the job stops at its next step, and stays pending. A job that surely takes more
    bytes than the quota does not begin. One that comes to it fails, and what it has made stays. One that carries out a
    removal has more room, since it takes text out of the disk; see :func:`bound_removal`.
    """
    folder = library.workspace.root
    most = bound_removal(library.workspace, quota) if turn.accepts_removals else quota
    listener = _JobListener(
        store, turn, lambda: is_ending() or not is_there(folder), partial(require_room, folder, most)
    )
    report: IndexReport | None = None
    code, failure = "internal", "an unexpected error; the log of the service has its traceback"
    places: dict[Path, str] = {}
    try:
        places = list_places(library.workspace)
        if most is not None:
            require_room(folder, most, forecast_growth(library.workspace))
        with listening(listener, draws=True, names=listener.begin):
            report = library.index(accept_removals=turn.accepts_removals, chats=True)
        code, failure = "failed_steps", hide_paths("; ".join(report.failures), folder, places)
        if listener.refusal is not None:  # a run reports it as the failure of a table
            code, failure = listener.refusal.code, str(listener.refusal)
    except BackstoryError as error:
        code, failure = error.code, hide_paths(str(error), folder, places)
    finally:
        if is_there(folder):
            if listener.is_stopped and is_ending():
                store.put_back(turn)
            elif failure or report is None:
                store.fail(turn, code, failure)
            else:
                store.complete(turn, {name: int(getattr(report, name)) for name in _COUNTS})
            log_event(logger, "an index job ended", job=turn.job_id, state=store.read(turn.job_id).state)


def is_there(folder: Path) -> bool:
    """Return whether a tenant has this folder; its files must not be made again after it was removed."""
    return (folder / SETTINGS_FILE).is_file()


class _JobListener:
    """Records the progress of a job now and then, and stops it at its next step where it was cancelled."""

    def __init__(
        self, store: JobStore, turn: JobTurn, is_over: Callable[[], bool], require_room: Callable[[], None]
    ) -> None:
        self.is_stopped = False
        self.refusal: RefusedError | None = None
        self._store = store
        self._turn = turn
        self._is_over = is_over
        self._require_room = require_room
        self._measured = -_SECONDS_BETWEEN_MEASURES
        self._place = IndexingPlace()
        self._file: str | None = None
        self._step: str | None = None
        self._recorded = 0.0

    def begin(self, name: str) -> None:
        """Note the file that is read next."""
        self._file = name

    def __call__(self, label: str, done: int, total: int) -> None:
        self._place.move(label, done, total)
        if label == STEP_OF_TABLES:
            self._file = None
        moment = time.monotonic()
        if label == self._step and moment - self._recorded < _SECONDS_BETWEEN_RECORDS:
            return
        self._step, self._recorded = label, moment
        if total and label != STEP_OF_TABLES and moment - self._measured >= _SECONDS_BETWEEN_MEASURES:
            self._measured = moment
            try:
                self._require_room()
            except RefusedError as error:
                self.refusal = error
                raise
        percent = round(100 * self._place.done / self._place.total, 1)
        if self._is_over() or not self._store.advance(
            self._turn, percent=percent, step=label, done=done, total=total, file=self._file
        ):
            self.is_stopped = True
            raise StoppedError(
                "the job was stopped; what was made stays, and the next one goes on from there"
            )
