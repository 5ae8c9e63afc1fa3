"""Starts runs automatically: a sensor for changed inputs, and a schedule for the latest partitions."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import dagster as dg
from pydantic import BaseModel, Field

from assets import tags
from assets.reports import Reporter
from backstory.base.errors import InputError
from backstory.base.ids import digest
from backstory.base.wording import name_some
from backstory.ingest.sources.fetching import SYNC_SECONDS, find_next_sync
from backstory.interfaces.dagster_specs.asset_keys import DOCUMENT_FILES, asset_key
from backstory.interfaces.dagster_specs.asset_specs import specify_assets
from backstory.interfaces.dagster_specs.partitions import partitions_of
from backstory.pipeline.chats.exports_reading import exports_fingerprint
from backstory.pipeline.run.pending import (
    Pending,
    find_stale_partitions,
    fingerprint_documents,
    hash_messages,
    hash_state,
    join_ranges,
)
from backstory.pipeline.run.plan import STAGES
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.tables.partitions import partition_key, partition_range, previous_partition
from backstory.storage.turns import running_if_free
from pipelines.dagster_internals.event_log import open_store

JOB: Final = "materialize_everything"

_SECONDS = 60
_CRONS = {"hour": "10 * * * *", "day": "0 3 * * *", "week": "0 3 * * 1", "month": "0 3 1 * *"}
_OF_DOCUMENTS: Final = tuple(stage.table for stage in STAGES if not stage.partitioned)


MOST_RUNS: Final = 3
"""Maximum number of runs per request. A run costs seconds; an unchanged day in its range is cheap."""

UNFINISHED: Final = [
    dg.DagsterRunStatus(status)
    for status in ("QUEUED", "NOT_STARTED", "STARTING", "STARTED", "CANCELING", "SUSPENDED")
]
_DOCUMENTS = "documents"
_NAMED = 3


@dataclass(frozen=True)
class RunPlan:
    """The runs to request, and the partitions left out.

    Attributes:
        ranges: First and last partition of each run.
        documents: Whether to request a run for the documents and their index alone.
        requested: The reason why each partition was pending when its run was requested, for those still pending.
        notes: Sentences about the partitions that are not requested.
    """

    ranges: Sequence[tuple[str, str]]
    documents: bool
    requested: Mapping[str, str]
    notes: Sequence[str]


def plan_runs(
    workspace: Workspace,
    pending: Pending,
    posts: str,
    requested: Mapping[str, str],
    under_way: Collection[str],
    recent: Collection[str] = (),
    canceled: Collection[str] = (),
) -> RunPlan:
    """Choose the partitions to request, and join them to ranges.

    A partition is requested if it is pending, or if its contexts are of an earlier snapshot and
    ``partitions.after_posts`` wants them renewed. It is requested again only after its inputs have changed: a day that
    cannot be built would otherwise be requested every minute.

    Args:
        workspace: An open workspace.
        pending: What a run would rebuild.
        posts: Hash of the documents.
        requested: :attr:`RunPlan.requested` of the plan before.
        under_way: Partitions that a run has, which is queued or executing.
        recent: Partitions to request in any case, unless ``partitions.after_posts`` keeps their contexts.
        canceled: Partitions whose run a person has terminated; they count as requested.
    """
    reasons = dict(pending.partitions)
    renewed = _choose_renewed(workspace, pending)
    inputs = {**reasons, **pending.outdated}
    reasons |= {key: digest([inputs.get(key, ""), posts], length=16) for key in renewed}
    requested = {**requested, **{key: reasons[key] for key in canceled if key in reasons}}
    unrenewed = [key for key in pending.outdated if key not in reasons]
    always = {key for key in recent if key not in unrenewed}
    offered = _find_offered(workspace, [*reasons, *always])
    stuck = [key for key in offered if key not in always and requested.get(key) == reasons[key]]
    wanted = [key for key in offered if key not in stuck and key not in under_way]
    ranges = _join(workspace, wanted, unrenewed)
    alone = pending.documents and not wanted and not under_way and requested.get(_DOCUMENTS) != posts
    requested_now = {key: reasons[key] for key in (*stuck, *wanted) if key in reasons}
    if pending.documents and (wanted or alone or requested.get(_DOCUMENTS) == posts):
        requested_now[_DOCUMENTS] = posts  # every run builds the documents, too
    stuck = [key for key in stuck if key not in under_way]
    return RunPlan(ranges, alone, requested_now, _describe(workspace, reasons, offered, stuck, unrenewed))


def find_under_way(instance: dg.DagsterInstance, workspace: Workspace) -> dict[str, Sequence[str]]:
    """Find the runs that are queued or executing, by id, with their partitions."""
    return _find_partitions(workspace, instance.get_runs(dg.RunsFilter(statuses=UNFINISHED)))


def find_canceled(
    instance: dg.DagsterInstance, workspace: Workspace, runs: Collection[str]
) -> dict[str, Sequence[str]]:
    """Find those of the runs that a person has terminated, by id, with their partitions."""
    if not runs:
        return {}
    ended = instance.get_runs(dg.RunsFilter(run_ids=list(runs), statuses=[dg.DagsterRunStatus.CANCELED]))
    return _find_partitions(workspace, ended)


def list_distinct(partitions: Mapping[str, Sequence[str]]) -> set[str]:
    """Return the partitions of all runs."""
    return {key for keys in partitions.values() for key in keys}


def _find_partitions(workspace: Workspace, runs: Iterable[dg.DagsterRun]) -> dict[str, Sequence[str]]:
    found: dict[str, Sequence[str]] = {}
    for run in runs:
        first = run.tags.get(tags.RANGE_START, run.tags.get(tags.PARTITION))
        last = run.tags.get(tags.RANGE_END, first)
        if first is None or last is None:
            continue
        try:
            found[run.run_id] = partition_range(first, last, workspace.settings.partitions.grain)
        except InputError:
            continue  # a run over the partitions of another grain
    return found


def _choose_renewed(workspace: Workspace, pending: Pending) -> list[str]:
    """Choose the partitions to search again in the newest snapshot, or in the one that the documents will give."""
    settings = workspace.settings.partitions
    if settings.after_posts == "none":
        return []
    chosen = pending.latest if settings.after_posts == "all" else pending.latest[-settings.look_back - 1 :]
    return [key for key in chosen if pending.documents or key in pending.outdated]


def _find_offered(workspace: Workspace, keys: Collection[str]) -> list[str]:
    """Return those of the partitions that Dagster knows: not before the first, and ended."""
    definition = partitions_of(workspace)
    first, last = definition.get_first_partition_key(), definition.get_last_partition_key()
    if first is None or last is None:
        return []
    return sorted(key for key in set(keys) if first <= key <= last)


def _join(workspace: Workspace, wanted: Sequence[str], unrenewed: Collection[str]) -> list[tuple[str, str]]:
    if not wanted:
        return []
    calendar = partition_range(wanted[0], wanted[-1], workspace.settings.partitions.grain)
    return join_ranges(wanted, calendar, MOST_RUNS, apart=unrenewed)


def _describe(
    workspace: Workspace,
    reasons: Mapping[str, str],
    offered: Collection[str],
    stuck: Sequence[str],
    unrenewed: Sequence[str],
) -> list[str]:
    notes = []
    if stuck:
        notes.append(
            f"Still pending after a run: {name_some(stuck, _NAMED)}. The run failed, or was ended; see its error. A "
            "partition is requested again when its inputs change, and by the schedule."
        )
    if absent := sorted(set(reasons) - set(offered)):
        notes.append(
            f"Not requested: {name_some(absent, _NAMED)}. A partition is requested after its end, and not if it lies "
            "before partitions.start."
        )
    if unrenewed:
        policy = workspace.settings.partitions.after_posts
        notes.append(
            f"Contexts of an earlier snapshot stay (partitions.after_posts: {policy}): "
            f"{name_some(unrenewed, _NAMED)}. `backstory run`, or `after_posts: all`, renews them."
        )
    return notes


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


def make_sensor(workspace: Workspace, clock: Callable[[], float] = time.time) -> dg.SensorDefinition:
    """Define the sensor that requests the partitions whose inputs differ from what the catalog has recorded.

    Args:
        workspace: The workspace; the sensor opens it at each tick, so that changed settings take effect.
        clock: Gives seconds since 1970.
    """
    root = workspace.root

    @dg.sensor(
        name="changed_files",
        job_name=JOB,
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
        )

    return changed_files


def make_schedule(workspace: Workspace) -> dg.ScheduleDefinition:
    """Define the schedule that requests each ended partition, some before it, and all that are pending.

    After a downtime, Dagster evaluates only the latest missed tick; it finds the partitions of the others pending. A
    partition whose run failed is requested by each tick until it can be built.

    Args:
        workspace: The workspace; the schedule runs in the time zone ``conversations.timezone``.
    """
    settings = workspace.settings
    root = workspace.root

    @dg.schedule(
        name="materialize_recent",
        job_name=JOB,
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
        dg.RunRequest(run_key=tick and f"{tick}{first}", tags=tags.tag_range(first, last))
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


def make_report_sensor(workspace: Workspace) -> dg.SensorDefinition:
    """Define the sensor that reports days built without Dagster. It is on from the start, since it starts no runs."""
    root = workspace.root

    @dg.sensor(
        name="made_days",
        minimum_interval_seconds=_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Reports days built without Dagster, as by `backstory run`; otherwise Dagster would show them as "
        "missing. It starts no runs.",
    )
    def made_days(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        opened = open_workspace(root)
        if not opened.tables_dir.is_dir():
            return dg.SkipReason("Nothing is built yet.")
        with running_if_free(opened.catalog.state, "the report of made days to Dagster") as is_free:
            if not is_free:
                return dg.SkipReason(
                    "A run of this workspace is under way; its results are reported afterwards."
                )
            state = hash_state(opened)
            if context.cursor == state:
                return dg.SkipReason("Dagster knows all built partitions.")
            reporter = Reporter(opened, context.instance, open_store(context.instance))
            count = reporter.report_built(specify_assets(opened))
        return dg.SensorResult(skip_reason=f"Reported {count} partitions.", cursor=state)

    return made_days
