"""The partitions of a workspace, as Dagster names them."""

from datetime import UTC, datetime

import dagster as dg

from backstory.settings import PartitionSettings
from backstory.tables.partitions import partition_key

_SCHEDULES = {
    "hour": ("0 * * * *", "%Y-%m-%dT%H"),
    "day": ("0 0 * * *", "%Y-%m-%d"),
    "week": ("0 0 * * 1", "%Y-%m-%d"),
    "month": ("0 0 1 * *", "%Y-%m-%d"),
}


def partitions_definition(settings: PartitionSettings) -> dg.TimeWindowPartitionsDefinition:
    """Make the time partitions of a workspace, in UTC.

    Args:
        settings: Grain and first day: the part ``partitions`` of a workspace's settings.

    Returns:
        Partitions from the one that holds the first day on, whose keys are those of :mod:`backstory.tables.partitions`.
    """
    cron_schedule, form = _SCHEDULES[settings.grain]
    first_day = datetime.fromisoformat(settings.start).replace(tzinfo=UTC)
    start = partition_key(first_day, settings.grain)
    return dg.TimeWindowPartitionsDefinition(
        start=start, fmt=form, cron_schedule=cron_schedule, timezone="UTC"
    )
