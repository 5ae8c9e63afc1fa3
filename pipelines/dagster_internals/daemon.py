"""Dagster's daemon, which looks at backfills every few seconds, and retries lost runs of backfills that have ended.

A backfill is several runs, one after another. Dagster looks for finished ones every half minute, for which it has no
setting, so that a backfill of one day would take two minutes.

After a loss of power, Dagster may end the backfill whose run is lost before it looks for runs to retry, and it retries
no run of a backfill that has ended. Here, only a backfill that a person has canceled keeps its runs from that.

If the UI that started it is killed, the daemon ends, too. Otherwise there would be two after the next start of the UI,
and each would request the runs of a backfill.
"""

import os
import signal
import threading

from dagster._core.execution.backfill import BulkActionStatus
from dagster._daemon import controller
from dagster._daemon.auto_run_reexecution import auto_run_reexecution
from dagster._daemon.cli import main

_INTERVAL_SECONDS = 3
_ENDED_BY_A_PERSON = [BulkActionStatus.CANCELING, BulkActionStatus.CANCELED]


def end_with(parent: int) -> None:
    """Interrupt this process, as Ctrl-C does, once the process that started it is gone."""

    def watch() -> None:
        never = threading.Event()
        while os.getppid() == parent:
            never.wait(_INTERVAL_SECONDS)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=watch, daemon=True).start()


def adapt_daemon() -> None:
    """Set values in Dagster's modules that have no setting."""
    controller.DEFAULT_DAEMON_INTERVAL_SECONDS = _INTERVAL_SECONDS
    vars(auto_run_reexecution)["BULK_ACTION_TERMINAL_STATUSES"] = _ENDED_BY_A_PERSON


if __name__ == "__main__":
    end_with(os.getppid())
    adapt_daemon()
    main()
