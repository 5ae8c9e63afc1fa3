"""Reads the writer's material for the windows of a partition from the tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import polars as pl

from backstory.base.errors import WorkspaceError
from backstory.ingest.documents.written import locate
from backstory.ingest.sources.web_address import make_linker
from backstory.pipeline.chats.named_documents import list_unlinked, list_withheld
from backstory.pipeline.chats.people import read_people
from backstory.pipeline.incremental.inputs import read_table_rows
from backstory.pipeline.workspace import Workspace
from backstory.retrieval.passages.provenance import is_certain
from backstory.storage.tables.partitions import previous_partition
from backstory.writing.material import ContextMaterial, WindowMaterial, gather_context, gather_windows

TABLES_READ: Final = ("windows", "window_chunks", "contexts", "window_contexts")
"""Tables that a writer's material comes from, besides ``messages``."""


def read_material(
    workspace: Workspace, partition: str, wanted: Collection[str] | None = None
) -> list[tuple[WindowMaterial, ContextMaterial]]:
    """Read what a writer is shown of the windows of a partition.

    While a run is under way, windows that are not ``wanted`` may not have a context yet.
    """
    windows, chunks, contexts, summaries = (
        read_table_rows(workspace, table, [partition]) for table in TABLES_READ
    )
    if wanted is not None:
        windows = windows.filter(pl.col("window_id").is_in(list(wanted)))
    people = read_people(workspace)
    # A prompt leaves out what no model is sent; a writer without a model quotes, and what it quotes is searched.
    withheld = list_withheld(workspace) if workspace.settings.writers.paid_model is not None else []
    unlinked, folder = list_unlinked(workspace), workspace.settings.documents.folder
    link = make_linker(workspace)
    names = {name: people.names_in(name) for name in windows["conversation_id"].unique()}
    gathered = gather_windows(windows, _read_messages(workspace, partition), summaries, names)
    statuses = dict(summaries.select("window_id", "status").iter_rows())
    rows_of_window: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in workspace.date_locally(contexts).sort("window_id", "rank").iter_rows(named=True):
        if row["document_id"] in withheld:
            continue
        rows_of_window[row["window_id"]].append({**row, **_locate(row, folder, unlinked, link)})
    ids = dict(windows.select("window_id", "message_ids").iter_rows())
    spans = {
        key: (first, last)
        for key, first, last in chunks.select("chunk_id", "first_message", "last_message").iter_rows()
    }
    material = []
    for window in gathered:
        if window.window_id not in statuses:
            raise WorkspaceError(
                f"window {window.window_id} has no context yet; run `backstory run`, or wait for the run under way",
                code="no_context",
            )
        rows = rows_of_window[window.window_id]
        places = {message: place for place, message in enumerate(window.message_ids)}
        served = {row["chunk_id"]: _find_served(row, ids[window.window_id], places, spans) for row in rows}
        material.append((window, gather_context(statuses[window.window_id], rows, served)))
    return material


def _locate(
    row: Mapping[str, Any], folder: str, unlinked: Collection[str], link: Callable[[str], str]
) -> dict[str, str]:
    if row["document_id"] in unlinked:
        return {"path": "", "slug": "", "link": ""}
    return {"path": locate(row["uri"], folder), "link": link(row["uri"])}


def _find_served(
    row: Mapping[str, Any],
    message_ids: Sequence[str],
    places: Mapping[str, int],
    spans: Mapping[str, tuple[int, int]],
) -> tuple[int, ...]:
    """Return the positions of the messages that a document serves; none if that is not certain."""
    if not is_certain(row["serves"]):
        return ()
    found = {
        message_ids[place]
        for chunk_id in row["matched_query_chunks"]
        if chunk_id in spans
        for place in range(spans[chunk_id][0], spans[chunk_id][1] + 1)
    }
    return tuple(sorted(places[message] for message in found if message in places))


def _read_messages(workspace: Workspace, partition: str) -> pl.DataFrame:
    """Read the messages of a partition and, since windows may overlap, of the one before."""
    before = previous_partition(partition, workspace.settings.partitions.grain)
    made = workspace.catalog.read("messages")
    return read_table_rows(
        workspace, "messages", [key for key in (before, partition) if key in made or key == partition]
    )
