"""What a writer is shown: windows with their contexts, and letters, which tell of all windows of a period."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import date, timedelta
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

import polars as pl

from backstory.base.errors import WorkspaceError
from backstory.base.local_times import localize
from backstory.ingest.documents.files import locate
from backstory.ingest.sources.listing import DocumentLinks
from backstory.pipeline.chats.named_documents import list_unlinked, list_withheld
from backstory.pipeline.chats.people import read_people
from backstory.pipeline.chats.stored_messages import read_with_previous
from backstory.pipeline.incremental.inputs import read_table_rows
from backstory.pipeline.workspace import Workspace
from backstory.retrieval.passages.provenance import is_certain
from backstory.settings.writers import LetterGrain, WriterSettings
from backstory.storage.tables.partitions import Grain, next_partition, previous_partition
from backstory.writing.letters import Part, find_period, make_letter, span_days
from backstory.writing.material import Period, gather_context, gather_windows
from backstory.writing.post_files import make_slug, name_letter

TABLES_READ: Final = ("windows", "window_chunks", "contexts", "window_contexts")
"""Tables that a writer's material comes from, besides ``messages``."""

_Row: TypeAlias = Mapping[str, Any]


class Neighbours(NamedTuple):
    """The partitions that decide the posts of one, in order.

    ``told`` are itself and those of which its letters tell; ``later`` ones decide whether a letter is written there.
    """

    told: list[str]
    later: list[str]


class Assignment(NamedTuple):
    """What the writer is asked for in one partition, and other windows, ``told``, with the slugs of their letters."""

    material: list[Part]
    told: list[tuple[_Row, str]]


def find_neighbours(workspace: Workspace, partition: str) -> Neighbours:
    """Find the partitions that decide the posts of one."""
    grains, grain = workspace.settings.writers.letter_grains, workspace.settings.partitions.grain
    if not grains:
        return Neighbours([partition], [])
    first, last = _list_days(partition, grain)
    spans = [span_days(first, last, grain) for grain in grains]
    begin, end = min(start for start, _ in spans), max(stop for _, stop in spans)
    made = sorted(workspace.catalog.read("windows"))
    keys = {partition, *(key for key in made if begin <= key < end)}
    # A week or month may begin before a period whose first days it holds.
    if grain in ("week", "month"):
        keys.update([key for key in made if key < begin][-1:])
    ordered = sorted(keys)
    after = ordered.index(partition) + 1
    return Neighbours(ordered[:after], ordered[after:])


def read_assignment(
    workspace: Workspace, partition: str, wanted: Collection[str] | None = None
) -> Assignment:
    """Read what the writer is asked for in a partition, of all windows or those ``wanted``, with made neighbours."""
    told, later = find_neighbours(workspace, partition)
    windows = _read_windows(workspace, [*told, *later])
    periods = _group(windows, workspace.settings.writers)
    in_letters = {row["window_id"] for rows in periods.values() for row in rows}
    own = {row["window_id"] for row in windows if row["partition"] == partition}
    asked = own.intersection(own if wanted is None else wanted)
    material, elsewhere = read_material(workspace, partition, asked - in_letters), list[tuple[_Row, str]]()

    @cache
    def read_parts(key: str) -> dict[str, Part]:
        is_made = key in told and all(key in workspace.catalog.read(table) for table in TABLES_READ)
        return {part[0].window_id: part for part in read_material(workspace, key)} if is_made else {}

    def read(rows: Sequence[_Row]) -> list[Part]:
        return [parts[row["window_id"]] for row in rows if (parts := read_parts(row["partition"]))]

    for (conversation_id, grain, key), rows in periods.items():
        slug, home = name_letter(conversation_id, grain, key), rows[-1]
        elsewhere += [(row, slug) for row in rows if row["partition"] == partition and row is not home]
        if home["window_id"] in asked:
            before = periods.get((conversation_id, grain, previous_partition(key, grain)), [])
            context = workspace.settings.context
            material.append(make_letter(Period(grain, key), read(rows), read(before), context))
    return Assignment(material, elsewhere)


def read_post_material(workspace: Workspace, window_id: str, partition: str) -> Part:
    """Read what a writer is shown for the post that tells of a window: of the window, or of the letter's period."""
    for key in (partition, *find_neighbours(workspace, partition).later):
        for window, context in read_assignment(workspace, key).material:
            if window_id in window.window_ids:
                return window, context
    [found] = read_material(workspace, partition, [window_id])
    return found


def list_homes(workspace: Workspace) -> dict[str, str]:
    """List the windows whose rows have posts now, by slug."""
    rows, writers = _read_windows(workspace), workspace.settings.writers
    homes = {name_letter(*name): members[-1]["window_id"] for name, members in _group(rows, writers).items()}
    for row in rows:
        if writers.find_grain(row["conversation_id"]) == "window":
            started_at = localize(row["started_at"], row["timezone"])
            homes[make_slug(row["conversation_id"], row["window_id"], started_at)] = row["window_id"]
    return homes


def read_material(workspace: Workspace, partition: str, wanted: Collection[str] | None = None) -> list[Part]:
    """Read what a writer is shown of the windows of a partition, or of those ``wanted``, which have contexts."""
    tables = (read_table_rows(workspace, table, [partition]) for table in TABLES_READ)
    windows, chunks, contexts, summaries = tables
    if wanted is not None:
        windows = windows.filter(pl.col("window_id").is_in([*wanted]))
    people = read_people(workspace)
    # A prompt leaves out what no model is sent; a writer without a model quotes, and what it quotes is searched.
    withheld = list_withheld(workspace) if workspace.settings.writers.paid_model is not None else []
    unlinked, link = list_unlinked(workspace), DocumentLinks(workspace).link
    folder = workspace.settings.documents.folder
    names = {name: people.names_in(name) for name in windows["conversation_id"].unique()}
    gathered = gather_windows(windows, read_with_previous(workspace, [partition]), summaries, names)
    statuses = dict(summaries.select("window_id", "status").iter_rows())
    first, last = pl.col("first_message"), pl.col("last_message")
    messages = pl.col("message_ids").list.slice(first, last - first + 1)
    asking = dict(chunks.join(windows, on="window_id").select("chunk_id", messages).iter_rows())
    contexts = workspace.date_locally(contexts.filter(~pl.col("document_id").is_in(withheld)))
    rows_of_window = contexts.sort("window_id", "rank").rows_by_key("window_id", named=True)
    material = []
    for window in gathered:
        if window.window_id not in statuses:
            raise WorkspaceError(
                f"window {window.window_id} has no context yet; run `backstory run`, or wait for the run under way",
                code="no_context",
            )
        rows = rows_of_window.get(window.window_id, [])
        places = {message: place for place, message in enumerate(window.message_ids)}
        # The positions of the messages that each document serves; none where that is not certain.
        served = {}
        for row in rows:
            row |= {"path": locate(row["uri"], folder), "link": link(row["uri"])}
            if row["document_id"] in unlinked:
                row |= {"path": "", "slug": "", "link": ""}
            matched = row["matched_query_chunks"] if is_certain(row["serves"]) else ()
            ids = {message for chunk in matched for message in asking.get(chunk, ())}
            served[row["chunk_id"]] = tuple(sorted(places[one] for one in ids if one in places))
        material.append((window, gather_context(statuses[window.window_id], rows, served)))
    return material


def _group(rows: Sequence[_Row], writers: WriterSettings) -> dict[tuple[str, LetterGrain, str], list[_Row]]:
    """Group windows by conversation and period, the last window of a period last."""
    periods: dict[tuple[str, LetterGrain, str], list[_Row]] = defaultdict(list)
    for row in rows:
        grain = writers.find_grain(row["conversation_id"])
        if grain != "window":
            key = find_period(row["ended_at"], row["timezone"], grain)
            periods[row["conversation_id"], grain, key].append(row)
    return periods


def _read_windows(workspace: Workspace, partitions: Sequence[str] | None = None) -> list[dict[str, Any]]:
    columns = ("window_id", "conversation_id", "partition", "started_at", "ended_at", "timezone")
    rows = workspace.tables.read("windows", partitions, columns=columns)
    return rows.sort("ended_at", "started_at", "window_id").to_dicts()


def _list_days(partition: str, grain: Grain) -> tuple[str, str]:
    """Return the first and the last day that a partition may hold by any clock."""
    day = date.fromisoformat(partition[:10])
    if grain == "hour":
        return f"{day - timedelta(days=1)}", f"{day + timedelta(days=1)}"
    last = date.fromisoformat(next_partition(partition, grain)) - timedelta(days=1)
    return partition, f"{last}"
