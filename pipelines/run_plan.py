"""Plan the automatic runs: ranges of the partitions that the catalog finds pending."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import dagster as dg

from backstory.base.errors import InputError
from backstory.base.ids import digest
from backstory.base.wording import name_some
from backstory.interfaces.dagster_specs.partitions import partitions_of
from backstory.pipeline.run.pending import Pending, join_ranges
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.partitions import partition_range

RANGE_START: Final = "dagster/asset_partition_range_start"
RANGE_END: Final = "dagster/asset_partition_range_end"

MOST_RUNS: Final = 3
"""Maximum number of runs per request. A run costs seconds; an unchanged day in its range is cheap."""

UNFINISHED: Final = [
    dg.DagsterRunStatus(status)
    for status in ("QUEUED", "NOT_STARTED", "STARTING", "STARTED", "CANCELING", "SUSPENDED")
]
_PARTITION = "dagster/partition"
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
        first = run.tags.get(RANGE_START, run.tags.get(_PARTITION))
        last = run.tags.get(RANGE_END, first)
        if first is None or last is None:
            continue
        try:
            found[run.run_id] = partition_range(first, last, workspace.settings.partitions.grain)
        except InputError:
            continue  # a run over the partitions of another grain
    return found


def tag_range(first: str, last: str) -> dict[str, str]:
    """Return the tags that make Dagster execute a range of partitions in one run."""
    return {RANGE_START: first, RANGE_END: last}


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
