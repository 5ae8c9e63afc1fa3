"""The partitions of a workspace, as Dagster names them."""

import dagster as dg

from backstory.settings import PartitionSettings

_SCHEDULES = {
    "hour": ("0 * * * *", "%Y-%m-%dT%H"),
    "day": ("0 0 * * *", "%Y-%m-%d"),
    "week": ("0 0 * * 1", "%Y-%m-%d"),
    "month": ("0 0 1 * *", "%Y-%m-%d"),
}


def define_partitions(settings: PartitionSettings) -> dg.TimeWindowPartitionsDefinition:
    """Make the time partitions of a workspace, in UTC.

    Args:
        settings: Grain and first day.

    Returns:
        Partitions from the first day on, whose keys are those of :mod:`backstory.partitions`.
    """
    cron_schedule, form = _SCHEDULES[settings.grain]
    start = settings.start + ("T00" if settings.grain == "hour" else "")
    return dg.TimeWindowPartitionsDefinition(
        start=start, fmt=form, cron_schedule=cron_schedule, timezone="UTC"
    )
