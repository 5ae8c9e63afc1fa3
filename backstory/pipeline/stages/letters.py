"""What the posts of a partition tell of: single windows, and letters of the periods whose last windows it holds."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import date, timedelta
from typing import Any, NamedTuple

import polars as pl

from backstory.base.local_times import localize
from backstory.pipeline.incremental.inputs import read_table_rows
from backstory.pipeline.stages.writer_material import TABLES_READ, read_material
from backstory.pipeline.workspace import Workspace
from backstory.settings.writers import WriterSettings
from backstory.storage.tables.partitions import Grain, next_partition, previous_partition
from backstory.writing.letters import Part, find_period, make_letter, span_days
from backstory.writing.material import Period
from backstory.writing.post_files import make_slug, name_letter


class Told(NamedTuple):
    """A window whose post is a letter that has the row of another window.

    Attributes:
        window: Its row of table ``windows``.
        slug: Slug of the letter.
    """

    window: Mapping[str, Any]
    slug: str


class Assignment(NamedTuple):
    """What the writer is asked for in one partition.

    Attributes:
        material: Windows and letters with their contexts, in order of their beginnings.
        told: Windows of which a letter tells that has the row of another window.
    """

    material: list[Part]
    told: list[Told]


class Neighbours(NamedTuple):
    """The partitions that decide the posts of one partition.

    Attributes:
        told: Those whose windows and contexts are told, or compared with, itself included, in order.
        later: Later ones of its periods, which decide whether a letter is written there.
    """

    told: list[str]
    later: list[str]


def find_neighbours(workspace: Workspace, partition: str) -> Neighbours:
    """Find the partitions that decide the posts of one."""
    grains = workspace.settings.writers.letter_grains
    if not grains:
        return Neighbours([partition], [])
    first, last = _list_days(partition, workspace.settings.partitions.grain)
    spans = [span_days(first, last, grain) for grain in grains]
    begin, end = min(start for start, _ in spans), max(stop for _, stop in spans)
    keys = sorted({partition, *(key for key in workspace.catalog.read("windows") if begin <= key < end)})
    # A week or month may begin before a period whose first days it holds.
    if workspace.settings.partitions.grain in ("week", "month"):
        before = [key for key in sorted(workspace.catalog.read("windows")) if key < begin]
        keys = before[-1:] + keys
    return Neighbours([key for key in keys if key <= partition], [key for key in keys if key > partition])


def read_assignment(
    workspace: Workspace, partition: str, wanted: Collection[str] | None = None
) -> Assignment:
    """Read what the writer is asked for in a partition.

    It is asked for all windows, or for those ``wanted`` whose rows have the posts. Neighbours that are not made are
    left out.
    """
    writers = workspace.settings.writers
    if not writers.letter_grains:
        return Assignment(read_material(workspace, partition, wanted), [])
    told, later = find_neighbours(workspace, partition)
    windows = _read_windows(workspace, [*told, *later])
    periods = _group(windows, writers)
    single = [
        row["window_id"]
        for row in windows
        if row["partition"] == partition and writers.find_grain(row["conversation_id"]) == "window"
    ]
    homes = {name: rows[-1] for name, rows in periods.items()}
    material = read_material(workspace, partition, [key for key in single if wanted is None or key in wanted])
    reader = _Parts(workspace, [key for key in told if _is_made(workspace, key)])
    elsewhere = []
    for name, rows in periods.items():
        conversation_id, grain, key = name
        slug = name_letter(*name)
        own = [row for row in rows if row["partition"] == partition]
        if homes[name]["partition"] != partition:
            elsewhere += [Told(row, slug) for row in own]
            continue
        elsewhere += [Told(row, slug) for row in own[:-1]]
        if wanted is None or homes[name]["window_id"] in wanted:
            before = periods.get((conversation_id, grain, previous_partition(key, grain)), [])
            parts = reader.read(rows)
            material.append(
                make_letter(Period(grain, key), parts, reader.read(before), workspace.settings.context)
            )
    return Assignment(material, elsewhere)


def read_post_material(workspace: Workspace, window_id: str, partition: str) -> Part:
    """Read what a writer is shown for the post that tells of a window: of the window, or of the letter's period."""
    for key in (partition, *find_neighbours(workspace, partition).later):
        for window, context in read_assignment(workspace, key).material:
            if window_id in window.window_ids:
                return window, context
    [found] = read_material(workspace, partition, [window_id])
    return found


def list_homes(workspace: Workspace, partitions: Sequence[str]) -> dict[str, str]:
    """List the posts that windows have now: the window whose row has the post, by slug.

    With letters, ``partitions`` are all of them.
    """
    writers = workspace.settings.writers
    rows = _read_windows(workspace, partitions)
    letters = {
        name_letter(*name): members[-1]["window_id"] for name, members in _group(rows, writers).items()
    }
    single = {
        make_slug(
            row["conversation_id"], row["window_id"], localize(row["started_at"], row["timezone"])
        ): row["window_id"]
        for row in rows
        if writers.find_grain(row["conversation_id"]) == "window"
    }
    return {**single, **letters}


class _Parts:
    """Reads windows with their contexts, each partition once."""

    def __init__(self, workspace: Workspace, partitions: Sequence[str]) -> None:
        self._workspace = workspace
        self._partitions = frozenset(partitions)
        self._read: dict[str, dict[str, Part]] = {}

    def read(self, rows: Sequence[Mapping[str, Any]]) -> list[Part]:
        found = []
        for row in rows:
            key = row["partition"]
            if key not in self._partitions:
                continue
            if key not in self._read:
                parts = read_material(self._workspace, key)
                self._read[key] = {window.window_id: (window, context) for window, context in parts}
            found.append(self._read[key][row["window_id"]])
        return found


def _group(
    rows: Sequence[Mapping[str, Any]], writers: WriterSettings
) -> dict[tuple[str, Any, str], list[Mapping[str, Any]]]:
    """Group windows by conversation and period, the last window of a period last."""
    periods: dict[tuple[str, Any, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        grain = writers.find_grain(row["conversation_id"])
        if grain != "window":
            key = find_period(row["ended_at"], row["timezone"], grain)
            periods.setdefault((row["conversation_id"], grain, key), []).append(row)
    return periods


def _read_windows(workspace: Workspace, partitions: Sequence[str]) -> list[dict[str, Any]]:
    columns = ("window_id", "conversation_id", "partition", "started_at", "ended_at", "timezone")
    rows = read_table_rows(workspace, "windows", partitions).select(columns)
    return rows.sort(pl.col("ended_at"), "started_at", "window_id").to_dicts()


def _is_made(workspace: Workspace, partition: str) -> bool:
    return all(partition in workspace.catalog.read(table) for table in TABLES_READ)


def _list_days(partition: str, grain: Grain) -> tuple[str, str]:
    """Return the first and the last day that a partition may hold by any clock."""
    day = date.fromisoformat(partition[:10])
    if grain == "hour":
        return f"{day - timedelta(days=1)}", f"{day + timedelta(days=1)}"
    if grain == "day":
        return partition, partition
    last = date.fromisoformat(next_partition(partition, grain)) - timedelta(days=1)
    return partition, f"{last}"
