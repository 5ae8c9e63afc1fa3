"""The partitions of a workspace as a Dagster definition."""

from datetime import UTC, datetime

import dagster as dg

from backstory.pipeline.stages.messages import known_first_partition
from backstory.pipeline.workspace import Workspace
from backstory.settings.models import PartitionSettings
from backstory.storage.tables.partitions import partition_key

_SCHEDULES = {
    "hour": ("0 * * * *", "%Y-%m-%dT%H"),
    "day": ("0 0 * * *", "%Y-%m-%d"),
    "week": ("0 0 * * 1", "%Y-%m-%d"),
    "month": ("0 0 1 * *", "%Y-%m-%d"),
}


def partitions_definition(
    settings: PartitionSettings, first_message: str | None = None, timezone: str = "UTC"
) -> dg.TimeWindowPartitionsDefinition:
    """Define time partitions from the first day of the settings, else from that of the first message, else from today.

    ``first_message`` is the key of its partition. Hours are those of UTC, whatever the time zone of the calendar.
    """
    cron_schedule, form = _SCHEDULES[settings.grain]
    if settings.start is None and first_message is not None:
        start = first_message
    else:
        today = datetime.now(UTC)
        first_day = datetime.fromisoformat(settings.start).replace(tzinfo=UTC) if settings.start else today
        start = partition_key(first_day, settings.grain, "UTC" if settings.start else timezone)
    return dg.TimeWindowPartitionsDefinition(
        start=start,
        fmt=form,
        cron_schedule=cron_schedule,
        timezone="UTC" if settings.grain == "hour" else timezone,
    )


def partitions_of(workspace: Workspace) -> dg.TimeWindowPartitionsDefinition:
    """Define the time partitions of a workspace from the setting ``partitions.start``, else from its first message.

    The exports are not read: the date of the first message is the one that the last run stored.
    """
    settings = workspace.settings
    return partitions_definition(
        settings.partitions, known_first_partition(workspace), settings.conversations.timezone
    )
