"""Prunes Dagster's history of runs. The asset pages stay complete: the last event of every partition is not deleted."""

from datetime import UTC, datetime, timedelta
from typing import Final

import dagster as dg

from pipelines.dagster_internals.history import delete_history

KEEP_DAYS: Final = 90
"""Age in days up to which history stays by default."""


def prune_history(instance: dg.DagsterInstance, keep_days: int) -> str:
    """Delete the runs that ended and are older than some days, and say how many these were.

    The last materialization of every partition, the last result of every check, and every run that is the last attempt
    to build something stay, however old. So no partition changes its color.
    """
    count = delete_history(instance, datetime.now(UTC) - timedelta(days=keep_days))
    return f"{count} runs deleted; what the assets show of them stays"


def make_pruning() -> dg.ScheduleDefinition:
    """Define the schedule, off until it is switched on, that prunes the history every night.

    The launchpad can change for one run the age in days from which runs are deleted.
    """

    @dg.op(config_schema={"keep_days": dg.Field(int, default_value=KEEP_DAYS)})
    def delete_old_runs(context: dg.OpExecutionContext) -> None:
        context.log.info(prune_history(context.instance, context.op_config["keep_days"]))

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
