"""Prunes Dagster's history of runs. The asset pages stay complete: the last event of every partition is not deleted."""

from datetime import UTC, datetime, timedelta
from typing import Final

import dagster as dg

from backstory.base.errors import InputError
from pipelines.dagster_internals.history import Pruned, delete_history
from pipelines.dagster_internals.public_api import uses_public_api

KEEP_DAYS: Final = 90
"""Age in days up to which history stays by default."""

_AT_ONCE = 1000


def prune_history(instance: dg.DagsterInstance, keep_days: int, now: datetime) -> Pruned:
    """Delete the runs that ended and are older than some days, with their events, checks and logs.

    The last materialization of every partition, the last result of every check, and every run that is the last attempt
    to build something stay, however old. So no partition changes its color. By the public API alone, the runs that hold
    them stay whole, and so do all runs that did not succeed.

    Args:
        instance: The Dagster instance.
        keep_days: Age in days from which runs are deleted.
        now: The present moment, with a time zone.

    Raises:
        InputError: ``keep_days`` is below 1; or, without the public API, the events are not in an SQL database.
    """
    if keep_days < 1:
        raise InputError(f"{keep_days} days of history is too few; give 1 or more", code="out_of_range")
    before = now - timedelta(days=keep_days)
    return _delete_runs(instance, before) if uses_public_api() else delete_history(instance, before)


def make_pruning() -> dg.ScheduleDefinition:
    """Define the schedule, off until it is switched on, that prunes the history every night.

    The launchpad can change for one run the age in days from which runs are deleted.
    """

    @dg.op(config_schema={"keep_days": dg.Field(int, default_value=KEEP_DAYS)})
    def delete_old_runs(context: dg.OpExecutionContext) -> None:
        pruned = prune_history(context.instance, context.op_config["keep_days"], datetime.now(UTC))
        context.log.info(describe_pruned(pruned))

    @dg.job(
        name="prune_history",
        description="Deletes old runs from Dagster's history; tables and the last event of each partition stay.",
        executor_def=dg.in_process_executor,
    )
    def prune() -> None:
        delete_old_runs()

    return dg.ScheduleDefinition(
        name="prune_history_nightly",
        job=prune,
        cron_schedule="30 4 * * *",
        description=f"Deletes runs that are older than {KEEP_DAYS} days.",
    )


def describe_pruned(pruned: Pruned) -> str:
    """Describe the result of pruning in a sentence."""
    if uses_public_api():
        return f"{pruned.runs} runs deleted with their events"
    return (
        f"{pruned.runs} runs and {pruned.events} events deleted; {pruned.emptied} more runs lost only their "
        "log, since the assets show their results"
    )


def _delete_runs(instance: dg.DagsterInstance, before: datetime) -> Pruned:
    """Delete whole runs by the public API: those that succeeded, and that no asset page shows."""
    shown = _find_shown_runs(instance)
    ended = dg.RunsFilter(statuses=[dg.DagsterRunStatus.SUCCESS], created_before=before)
    old = [record.dagster_run.run_id for record in instance.get_run_records(ended)]
    deleted = [run_id for run_id in old if run_id not in shown]
    for run_id in deleted:
        instance.delete_run(run_id)
    return Pruned(len(deleted), 0, 0)


def _find_shown_runs(instance: dg.DagsterInstance) -> set[str]:
    """Return the last run of each asset, whose checks its page shows, and that of each partition."""
    shown = set()
    keys = instance.get_asset_keys()
    for asset in instance.get_asset_records(keys):
        shown.add(asset.asset_entry.last_run_id or "")
    for key in keys:
        partitions: set[str | None] = set()
        cursor = None
        while True:
            page = instance.fetch_materializations(key, _AT_ONCE, cursor)
            for record in page.records:
                if record.partition_key not in partitions:
                    partitions.add(record.partition_key)
                    shown.add(record.run_id)
            if not page.has_more:
                break
            cursor = page.cursor
    return shown
