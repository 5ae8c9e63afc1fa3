"""Dagster's daemon, which looks at backfills every few seconds.

A backfill is several runs, one after another. Dagster looks for finished ones every half minute, for which it has no
setting, so that a backfill of one day would take two minutes.
"""

from dagster._daemon import controller
from dagster._daemon.cli import main

_INTERVAL_SECONDS = 3

if __name__ == "__main__":
    controller.DEFAULT_DAEMON_INTERVAL_SECONDS = _INTERVAL_SECONDS
    main()
