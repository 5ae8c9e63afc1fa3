"""Stages for the windows of a workspace and the chunks that they are searched with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from backstory.ids import digest
from backstory.pipeline.incremental import (
    content_of,
    find_pending,
    materialize_partitions,
    read_made,
    rows_of,
    split_by_partition,
)
from backstory.pipeline.inputs import hash_dependencies
from backstory.pipeline.posts import remove_posts_of_gone_windows
from backstory.pipeline.stage_report import StageReport
from backstory.tables.partitions import partition_keys, previous_partition
from backstory.window_chunks import cut_window_chunks
from backstory.windows import cut_windows
from backstory.workspace import Workspace


def find_pending_windows(workspace: Workspace, partitions: Sequence[str]) -> list[str]:
    """List the partitions that :func:`materialize_windows` would build."""
    return find_pending(workspace, "windows", _inputs_of_windows(workspace, partitions))


def materialize_windows(workspace: Workspace, partitions: Sequence[str]) -> StageReport:
    """Cut the messages of each partition into windows, and remove the posts of windows that are gone."""
    settings = workspace.settings.windows
    embedder = workspace.embedder
    inputs = _inputs_of_windows(workspace, partitions)

    def compute(pending: list[str]) -> Mapping[str, pl.DataFrame]:
        messages = _read_with_previous(workspace, pending)
        windows = cut_windows(
            messages,
            settings,
            partitions=pending,
            grain=workspace.settings.partitions.grain,
            count_tokens=embedder.count_tokens,
        )
        return split_by_partition(windows, pending, keep_key=True)

    report = materialize_partitions(
        workspace, "windows", inputs, compute, weigh=rows_of(workspace, "messages")
    )
    remove_posts_of_gone_windows(workspace, partitions)
    return report


def find_pending_window_chunks(workspace: Workspace, partitions: Sequence[str]) -> list[str]:
    """List the partitions that :func:`materialize_window_chunks` would build."""
    return find_pending(workspace, "window_chunks", _inputs_of_window_chunks(workspace, partitions))


def materialize_window_chunks(workspace: Workspace, partitions: Sequence[str]) -> StageReport:
    """Cut each window into query chunks."""
    settings = workspace.settings.queries
    embedder = workspace.embedder
    limit = min(workspace.settings.chunks.max_tokens, embedder.max_input_tokens)
    inputs = _inputs_of_window_chunks(workspace, partitions)

    def compute(pending: list[str]) -> Mapping[str, pl.DataFrame]:
        windows = read_made(workspace, "windows", pending)
        messages = _read_with_previous(workspace, pending)
        chunks = cut_window_chunks(
            windows,
            messages,
            settings,
            max_tokens=limit,
            count_tokens=embedder.count_tokens,
            default_min_tokens=embedder.default_query_tokens,
        )
        keyed = chunks.join(windows.select("window_id", "partition"), on="window_id", maintain_order="left")
        return split_by_partition(keyed, pending)

    weigh = rows_of(workspace, "messages")
    return materialize_partitions(workspace, "window_chunks", inputs, compute, weigh=weigh)


def _inputs_of_windows(workspace: Workspace, partitions: Sequence[str]) -> dict[str, str]:
    """Hash the messages of each partition, and those of the previous partition where windows overlap."""
    settings = workspace.settings
    depends = hash_dependencies(workspace, "windows")
    overlaps = bool(settings.windows.overlap)
    before = {key: previous_partition(key, settings.partitions.grain) for key in partitions if overlaps}
    contents = content_of(workspace, "messages", [*partitions, *before.values()])
    return {
        key: digest([contents[key], contents[before[key]] if overlaps else "", depends]) for key in partitions
    }


def _inputs_of_window_chunks(workspace: Workspace, partitions: Sequence[str]) -> dict[str, str]:
    depends = hash_dependencies(workspace, "window_chunks")
    contents = content_of(workspace, "windows", partitions)
    return {key: digest([contents[key], depends]) for key in partitions}


def _read_with_previous(workspace: Workspace, partitions: Sequence[str]) -> pl.DataFrame:
    grain = workspace.settings.partitions.grain
    wanted = sorted({*partitions, *(previous_partition(key, grain) for key in partitions)})
    # The partition before the first one may not exist. The wanted partitions must exist.
    made = workspace.ledger.read("messages")
    messages = read_made(workspace, "messages", [key for key in wanted if key in made or key in partitions])
    return messages.with_columns(partition_keys(messages["timestamp"], grain).alias("partition"))
