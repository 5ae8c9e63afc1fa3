"""Starts runs automatically: a sensor for changed inputs, and a schedule for the latest partitions."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

import dagster as dg
from pydantic import BaseModel, Field

from assets import tags
from backstory.base.ids import digest
from backstory.ingest.sources.syncing import SYNC_SECONDS, find_next_sync
from backstory.interfaces.dagster_specs.asset_keys import CHATS, DOCUMENT_FILES, asset_key
from backstory.interfaces.dagster_specs.partitions import partitions_of
from backstory.pipeline.chats.exports_reading import exports_fingerprint
from backstory.pipeline.run.pending import (
    find_stale_partitions,
    fingerprint_documents,
    hash_messages,
    hash_state,
)
from backstory.pipeline.run.plan import STAGES
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.tables.partitions import partition_key, previous_partition
from pipelines.dagster_internals.types import AssetJob
from pipelines.run_plan import RunPlan, find_canceled, find_under_way, list_distinct, plan_runs, tag_range

_SECONDS = 60
_CRONS = {"hour": "10 * * * *", "day": "0 3 * * *", "week": "0 3 * * 1", "month": "0 3 1 * *"}
_OF_DOCUMENTS: Final = tuple(stage.table for stage in STAGES if not stage.partitioned)


class _Seen(BaseModel):
    """The cursor of the sensor, which Dagster stores with the requested runs.

    The fields other than ``asked``, ``runs`` and ``synced`` only save a tick the work of the previous one.

    Attributes:
        asked: The reason why each partition was pending when its run was requested.
        runs: The runs that were under way; a person may have terminated some since.
        synced: When a run was last requested because sources elsewhere were due, in seconds since 1970.
    """

    chats: str = ""
    posts: str = ""
    state: str = ""
    messages: dict[str, str] = Field(default_factory=dict)
    asked: dict[str, str] = Field(default_factory=dict)
    runs: list[str] = Field(default_factory=list)
    synced: float = 0
    notes: list[str] = Field(default_factory=list)


def make_sensor(
    workspace: Workspace, job: AssetJob, clock: Callable[[], float] = time.time
) -> dg.SensorDefinition:
    """Define the sensor that requests the partitions whose inputs differ from what the catalog has recorded.

    Args:
        workspace: The workspace; the sensor opens it at each tick, so that changed settings take effect.
        job: The job of the requested runs.
        clock: Gives seconds since 1970.
    """
    root = workspace.root

    @dg.sensor(
        name="changed_files",
        job=job,
        minimum_interval_seconds=_SECONDS,
        description="Asks for the partitions that the catalog finds pending: messages were added, edited or removed, a "
        "setting was changed, a run failed or was lost, a file was damaged. After changed posts, asks for the "
        "partitions that `partitions.after_posts` names. Files are compared by their content.",
    )
    def changed_files(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        opened = open_workspace(root)
        before = _Seen.model_validate_json(context.cursor) if context.cursor else _Seen()
        chats, posts = exports_fingerprint(opened), fingerprint_documents(opened)
        under_way = find_under_way(context.instance, opened)
        state = _hash_state(opened, chats, posts, under_way)
        now = clock()
        syncs = not under_way and _is_sync_due(opened, before, now)
        if before.state == state and not syncs:
            return dg.SensorResult(skip_reason=" ".join(["Nothing has changed.", *before.notes]))
        messages = before.messages if before.chats == chats else hash_messages(opened)
        plan = plan_runs(
            opened,
            find_stale_partitions(opened, messages),
            posts,
            before.asked,
            list_distinct(under_way),
            canceled=list_distinct(find_canceled(context.instance, opened, before.runs)),
        )
        plan = replace(plan, documents=plan.documents or (syncs and not plan.ranges))
        seen = _Seen(
            chats=chats,
            posts=posts,
            state=state,
            messages=messages,
            asked=dict(plan.requested),
            runs=sorted(under_way),
            synced=now if syncs else before.synced,
            notes=list(plan.notes),
        )
        requests = _request(opened, plan)
        return dg.SensorResult(
            run_requests=requests or None,
            skip_reason=None if requests else " ".join(["No further partition is pending.", *plan.notes]),
            cursor=seen.model_dump_json(),
            asset_events=_observe(opened, before, seen),
        )

    return changed_files


def make_schedule(workspace: Workspace, job: AssetJob) -> dg.ScheduleDefinition:
    """Define the schedule that requests each ended partition, some before it, and all that are pending.

    After a downtime, Dagster evaluates only the latest missed tick; it finds the partitions of the others pending. A
    partition whose run failed is requested by each tick until it can be built.

    Args:
        workspace: The workspace; the schedule runs in the time zone ``conversations.timezone``.
        job: The job of the requested runs.
    """
    settings = workspace.settings
    root = workspace.root

    @dg.schedule(
        name="materialize_recent",
        job=job,
        cron_schedule=_CRONS[settings.partitions.grain],
        execution_timezone=settings.conversations.timezone,
        description=f"The partition that has ended, {settings.partitions.look_back} before it, and every other that is "
        "pending, also if its last run failed.",
    )
    def materialize_recent(context: dg.ScheduleEvaluationContext) -> list[dg.RunRequest] | dg.SkipReason:
        opened = open_workspace(root)
        moment = context.scheduled_execution_time
        plan = plan_runs(
            opened,
            find_stale_partitions(opened, hash_messages(opened)),
            fingerprint_documents(opened),
            {},
            list_distinct(find_under_way(context.instance, opened)),
            recent=list_recent(opened, moment),
        )
        reason = " ".join(["Every partition to request is under way.", *plan.notes])
        return _request(opened, plan, f"{moment.isoformat()} ") or dg.SkipReason(reason)

    return materialize_recent


def list_recent(workspace: Workspace, moment: datetime) -> Sequence[str]:
    """List the latest ended partition and the ``partitions.look_back`` partitions before it, in order of time."""
    settings, timezone = workspace.settings.partitions, workspace.settings.conversations.timezone
    keys = [previous_partition(partition_key(moment, settings.grain, timezone), settings.grain)]
    for _ in range(settings.look_back):
        keys.append(previous_partition(keys[-1], settings.grain))
    return keys[::-1]


def _request(workspace: Workspace, plan: RunPlan, tick: str | None = None) -> list[dg.RunRequest]:
    """Request the runs of a plan.

    Args:
        workspace: An open workspace.
        plan: The plan.
        tick: Beginning of the runs' keys; without keys, equal requests of later ticks start runs, too.
    """
    requests = [
        dg.RunRequest(run_key=tick and f"{tick}{first}", tags=tag_range(first, last))
        for first, last in plan.ranges
    ]
    if plan.documents:
        requests.append(
            dg.RunRequest(
                run_key=tick and f"{tick}{DOCUMENT_FILES}",
                asset_selection=[asset_key(workspace, name) for name in _OF_DOCUMENTS],
            )
        )
    return requests


def _is_sync_due(workspace: Workspace, before: _Seen, now: float) -> bool:
    """Return whether a source elsewhere was neither tried nor requested for an hour."""
    moment = find_next_sync(workspace)
    return moment is not None and max(moment, before.synced + SYNC_SECONDS) <= now


def _hash_state(workspace: Workspace, chats: str, posts: str, under_way: Iterable[str]) -> str:
    settings = workspace.settings.partitions
    last = partitions_of(workspace).get_last_partition_key() or ""
    policy = [settings.after_posts, str(settings.look_back)]
    return digest([hash_state(workspace), chats, posts, last, *policy, *sorted(under_way)], length=16)


def _observe(workspace: Workspace, before: _Seen, now: _Seen) -> list[dg.AssetObservation]:
    """Report the inputs that have changed to Dagster."""
    observed = []
    if before.chats != now.chats:
        observed.append(dg.AssetObservation(asset_key(workspace, CHATS)))
    if before.posts != now.posts:
        observed.append(
            dg.AssetObservation(asset_key(workspace, DOCUMENT_FILES), tags={tags.DATA_VERSION: now.posts})
        )
    return observed
