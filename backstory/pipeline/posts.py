"""The stage of the posts: asks the writer about each window, and keeps the files of the posts in step."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import PurePosixPath
from typing import Any, Final

import polars as pl

from backstory.ids import digest
from backstory.messages import read_exports
from backstory.pipeline.incremental import (
    add_counts,
    content_of,
    find_pending,
    materialize_partitions,
    read_made,
    rows_of,
)
from backstory.pipeline.inputs import hash_dependencies
from backstory.pipeline.stage_report import StageReport
from backstory.tables.contracts import empty
from backstory.tables.ledger import Entry
from backstory.tables.partitions import previous_partition
from backstory.tables.schemas import Posts
from backstory.workspace import Workspace
from backstory.writing.draft import Writer
from backstory.writing.material import ContextMaterial, WindowMaterial, gather_context, gather_windows
from backstory.writing.post_files import draft_path, hash_file, place_post, remove_post
from backstory.writing.posts import PUBLISHED, as_post, write_posts

POSTS: Final = "posts"
FILES: Final = "post_files"
"""Name in the ledger of the files of the posts, by slug: partition and hash of the file."""

_TABLES_READ: Final = ("windows", "window_chunks", "contexts", "window_contexts")


def materialize_posts(workspace: Workspace, partitions: Sequence[str]) -> StageReport:
    """Write a post for each window whose messages, context, prompt or writer have changed.

    Files that are lost are written again. A file that a person has edited stays, and the draft goes beside it.
    """
    writer = workspace.writer
    counts: dict[str, int | float | str] = {}
    # A changed or lost file is found by its hash, and its partition is made again.
    workspace.ledger.forget(POSTS, _find_changed_files(workspace, partitions))
    _remove_leftovers(workspace)

    def compute(pending: list[str]) -> Mapping[str, pl.DataFrame]:
        if writer is None:
            return dict.fromkeys(pending, empty(Posts))
        names = cache(lambda: _read_names(workspace))
        written = {key: _write(workspace, writer, key, names) for key in pending}
        placed = {key: _place(workspace, key, rows) for key, rows in written.items()}
        for rows in placed.values():
            add_counts(
                counts, {f"status_{status}": n for status, n in rows["status"].value_counts().iter_rows()}
            )
            add_counts(
                counts,
                {"tokens_in": int(rows["tokens_in"].sum()), "tokens_out": int(rows["tokens_out"].sum())},
            )
        return placed

    weigh = rows_of(workspace, "window_chunks")
    return materialize_partitions(
        workspace, POSTS, _inputs(workspace, partitions), compute, weigh=weigh, counts=counts
    )


def find_pending_posts(workspace: Workspace, partitions: Sequence[str]) -> list[str]:
    """List the partitions of which :func:`materialize_posts` would write a row or a file."""
    changed = set(_find_changed_files(workspace, partitions))
    changed.update(find_pending(workspace, POSTS, _inputs(workspace, partitions)))
    return [key for key in partitions if key in changed]


def _inputs(workspace: Workspace, partitions: Sequence[str]) -> dict[str, str]:
    depends = hash_dependencies(workspace, POSTS)
    if workspace.writer is None:
        return dict.fromkeys(partitions, depends)
    contents = [content_of(workspace, table, partitions) for table in _TABLES_READ]
    return {key: digest([*(content[key] for content in contents), depends]) for key in partitions}


def _find_changed_files(workspace: Workspace, partitions: Sequence[str]) -> list[str]:
    """List the partitions with a post whose file is not the one that the last run left."""
    wanted = set(partitions)
    changed = {
        entry.inputs
        for slug, entry in workspace.ledger.read(FILES).items()
        if entry.inputs in wanted and hash_file(workspace.written / f"{slug}.md") != entry.content
    }
    return sorted(changed)


def _write(
    workspace: Workspace, writer: Writer, partition: str, names: Callable[[], Sequence[str] | None]
) -> pl.DataFrame:
    material = read_material(workspace, partition)
    return write_posts(material, writer, workspace.settings.writers, names() if material else None)


def _read_names(workspace: Workspace) -> list[str] | None:
    """Read the real names of all authors, which only the exports hold; None if no author is hidden."""
    settings = workspace.settings
    if not settings.privacy.pseudonyms:
        return None
    return read_exports(workspace.exports, settings.conversations).names.to_list()


def read_material(workspace: Workspace, partition: str) -> list[tuple[WindowMaterial, ContextMaterial]]:
    """Read what a writer is shown of each window of a partition.

    Args:
        workspace: A workspace whose tables of this partition are made.
        partition: Key of the partition.

    Raises:
        WorkspaceError: A table of the partition was never built.
    """
    windows, chunks, contexts, summaries = (
        read_made(workspace, table, [partition]) for table in _TABLES_READ
    )
    gathered = gather_windows(windows, _read_messages(workspace, partition), summaries)
    statuses = dict(summaries.select("window_id", "status").iter_rows())
    rows_of_window: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in contexts.sort("window_id", "rank").iter_rows(named=True):
        rows_of_window[row["window_id"]].append({**row, "path": _locate(workspace, row["uri"])})
    ids = dict(windows.select("window_id", "message_ids").iter_rows())
    spans = {
        key: (first, last)
        for key, first, last in chunks.select("chunk_id", "first_message", "last_message").iter_rows()
    }
    material = []
    for window in gathered:
        rows = rows_of_window[window.window_id]
        places = {message: place for place, message in enumerate(window.message_ids)}
        served = {row["chunk_id"]: _find_served(row, ids[window.window_id], places, spans) for row in rows}
        material.append((window, gather_context(statuses[window.window_id], rows, served)))
    return material


def _find_served(
    row: Mapping[str, Any],
    message_ids: Sequence[str],
    places: Mapping[str, int],
    spans: Mapping[str, tuple[int, int]],
) -> tuple[int, ...]:
    """Give the positions of the messages whose query chunks found a stored chunk."""
    found = {
        message_ids[place]
        for chunk_id in row["matched_query_chunks"]
        if chunk_id in spans
        for place in range(spans[chunk_id][0], spans[chunk_id][1] + 1)
    }
    return tuple(sorted(places[message] for message in found if message in places))


def _locate(workspace: Workspace, uri: str) -> str:
    """Give the path of a document relative to the workspace."""
    return os.path.normpath(PurePosixPath(workspace.settings.documents.folder) / uri)


def _read_messages(workspace: Workspace, partition: str) -> pl.DataFrame:
    """Read the messages of a partition and, since windows may overlap, of the one before."""
    before = previous_partition(partition, workspace.settings.partitions.grain)
    made = workspace.ledger.read("messages")
    return read_made(
        workspace, "messages", [key for key in (before, partition) if key in made or key == partition]
    )


def _place(workspace: Workspace, partition: str, rows: pl.DataFrame) -> pl.DataFrame:
    """Write the files of the posts of a partition, and remove those of windows that are gone.

    Returns:
        The rows, with status ``edited`` and the reason where a person has edited the file.
    """
    known = {slug for slug, entry in workspace.ledger.read(FILES).items() if entry.inputs == partition}
    placed: dict[str, Entry] = {}
    finished = []
    for row in rows.iter_rows(named=True):
        path = workspace.written / f"{row['slug']}.md"
        if row["status"] in PUBLISHED:
            workspace.ledger.forget(FILES, [row["slug"]])
            if not place_post(path, as_post(row)):
                aside = f"{row['path'].removesuffix(path.name)}{draft_path(path).name}"
                reason = f"a person has edited {row['path']}, which stays; a later draft is in {aside}"
                row |= {"status": "edited", "reason": reason}
            placed[row["slug"]] = Entry(partition, hash_file(path), 1)
        finished.append(row)
    workspace.ledger.record(FILES, placed)
    _remove_files(workspace, known - placed.keys())
    return pl.DataFrame(finished, schema=rows.schema)


def _remove_leftovers(workspace: Workspace) -> None:
    """Remove the files of posts whose partition is gone."""
    made = workspace.ledger.read("windows")
    _remove_files(
        workspace,
        [slug for slug, entry in workspace.ledger.read(FILES).items() if entry.inputs not in made],
    )


def _remove_files(workspace: Workspace, slugs: Sequence[str] | set[str]) -> None:
    for slug in slugs:
        remove_post(workspace.written / f"{slug}.md")
    workspace.ledger.forget(FILES, slugs)
