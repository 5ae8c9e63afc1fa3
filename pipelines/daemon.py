"""Dagster's daemon, which looks at backfills every few seconds, and retries lost runs of backfills that have ended.

A backfill is several runs, one after another. Dagster looks for finished ones every half minute, for which it has no
setting, so that a backfill of one day would take two minutes.

After a loss of power, Dagster may end the backfill whose run is lost before it looks for runs to retry, and it retries
no run of a backfill that has ended. Here, only a backfill that a person has canceled keeps its runs from that.
"""

from dagster._core.execution.backfill import BulkActionStatus
from dagster._daemon import controller
from dagster._daemon.auto_run_reexecution import auto_run_reexecution
from dagster._daemon.cli import main

_INTERVAL_SECONDS = 3
_ENDED_BY_A_PERSON = [BulkActionStatus.CANCELING, BulkActionStatus.CANCELED]


def adapt_daemon() -> None:
    """Set in Dagster's modules what has no setting."""
    controller.DEFAULT_DAEMON_INTERVAL_SECONDS = _INTERVAL_SECONDS
    vars(auto_run_reexecution)["BULK_ACTION_TERMINAL_STATUSES"] = _ENDED_BY_A_PERSON


if __name__ == "__main__":
    adapt_daemon()
    main()
