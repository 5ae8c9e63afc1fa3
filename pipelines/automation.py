"""Starts runs automatically: a sensor for changed chats and posts, and a schedule for the latest partitions."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import dagster as dg
from dagster._core.definitions.data_version import DATA_VERSION_TAG
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition
from pydantic import BaseModel, Field

from backstory.ids import digest
from backstory.orchestration import CHATS, POSTS
from backstory.pipeline.changes import (
    find_changed,
    fingerprint_chats,
    fingerprint_documents,
    hash_partitions,
    join_ranges,
)
from backstory.tables.partitions import partition_key, partition_range, previous_partition
from backstory.workspace import Workspace, open_workspace

RANGE_START: Final = "dagster/asset_partition_range_start"
RANGE_END: Final = "dagster/asset_partition_range_end"

MOST_RUNS: Final = 3
"""Most runs that the sensor requests per tick. A run costs seconds; an unchanged day in its range is cheap."""

_SECONDS = 60
_CRONS = {"hour": "10 * * * *", "day": "0 3 * * *", "week": "0 3 * * 1", "month": "0 3 1 * *"}


class _Seen(BaseModel):
    """The cursor of the sensor: the hashes of its last tick. Dagster stores it with the requested runs."""

    chats: str = ""
    posts: str = ""
    days: dict[str, str] = Field(default_factory=dict)


def tag_range(first: str, last: str) -> dict[str, str]:
    """Return the tags that make Dagster execute a range of partitions in one run."""
    return {RANGE_START: first, RANGE_END: last}


def make_sensor(workspace: Workspace, job: UnresolvedAssetJobDefinition) -> dg.SensorDefinition:
    """Define the sensor that requests partitions with changed messages and, after a changed post, the latest ones.

    Args:
        workspace: The workspace; the sensor opens it at each tick, so that changed settings take effect.
        job: The job of the requested runs.
    """
    root = workspace.root

    @dg.sensor(
        name="changed_files",
        job=job,
        minimum_interval_seconds=_SECONDS,
        description="Asks for the days whose messages have changed, and after changed posts for the latest days. "
        "Files are compared by their content: a file that was only touched starts nothing.",
    )
    def changed_files(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        opened = open_workspace(root)
        before = _Seen.model_validate_json(context.cursor) if context.cursor else _Seen()
        chats, posts = fingerprint_chats(opened), fingerprint_documents(opened)
        if (before.chats, before.posts) == (chats, posts):
            return dg.SkipReason("no file of the chats and posts has changed")
        days = hash_partitions(opened) if before.chats != chats else before.days
        recent = list(days)[-opened.settings.partitions.look_back - 1 :] if before.posts != posts else []
        wanted = sorted({*find_changed(opened, before.days, days), *recent})
        calendar = partition_range(wanted[0], wanted[-1], opened.settings.partitions.grain) if wanted else []
        return dg.SensorResult(
            run_requests=[
                dg.RunRequest(run_key=digest([chats, posts, first, last]), tags=tag_range(first, last))
                for first, last in join_ranges(wanted, calendar, MOST_RUNS)
            ],
            cursor=_Seen(chats=chats, posts=posts, days=days).model_dump_json(),
            asset_events=[
                dg.AssetObservation(CHATS),
                dg.AssetObservation(POSTS, tags={DATA_VERSION_TAG: posts}),
            ],
        )

    return changed_files


def make_schedule(workspace: Workspace, job: UnresolvedAssetJobDefinition) -> dg.ScheduleDefinition:
    """Define the schedule that requests each ended partition and some before it, in one run.

    Args:
        workspace: The workspace; the schedule runs in the time zone ``conversations.timezone``.
        job: The job of the requested runs.
    """
    settings = workspace.settings

    looks_back = settings.partitions.look_back

    @dg.schedule(
        name="materialize_recent",
        job=job,
        cron_schedule=_CRONS[settings.partitions.grain],
        execution_timezone=settings.conversations.timezone,
        description=f"The partition that has ended, and {looks_back} before it: messages come late.",
    )
    def materialize_recent(context: dg.ScheduleEvaluationContext) -> dg.RunRequest:
        keys = list_recent(workspace, context.scheduled_execution_time.astimezone(UTC))
        return dg.RunRequest(run_key=keys[-1], tags=tag_range(keys[0], keys[-1]))

    return materialize_recent


def list_recent(workspace: Workspace, moment: datetime) -> Sequence[str]:
    """List the latest ended partition and the ``partitions.look_back`` partitions before it, in order of time."""
    settings = workspace.settings.partitions
    keys = [previous_partition(partition_key(moment, settings.grain), settings.grain)]
    for _ in range(settings.look_back):
        keys.append(previous_partition(keys[-1], settings.grain))
    return keys[::-1]
