"""Which partitions of the chats changed since an earlier look, found by hashing messages, not files or clocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from backstory.ids import digest
from backstory.messages import read_exports
from backstory.pipeline.conversations import exports_fingerprint
from backstory.pipeline.corpus import list_other_parts
from backstory.pipeline.lone_messages import require_no_lone_messages
from backstory.pipeline.posts_fingerprint import hash_posts
from backstory.tables.partitions import partition_keys, partition_range
from backstory.workspace import Workspace


def fingerprint_chats(workspace: Workspace) -> str:
    """Hash the chat exports, and the settings that decide how they are read."""
    return exports_fingerprint(workspace)


def fingerprint_documents(workspace: Workspace) -> str:
    """Hash the path and content of every document file."""
    return hash_posts(workspace.posts, list_other_parts(workspace))


def hash_partitions(workspace: Workspace) -> dict[str, str]:
    """Read the exports, and hash the messages of each partition.

    Args:
        workspace: An open workspace.

    Returns:
        A hash of 8 characters for each partition that has messages, in order.

    Raises:
        ExportError: An export as a whole cannot be read.
        InputError: A few messages are more than a year away from all other messages.
    """
    settings = workspace.settings
    messages = read_exports(workspace.exports, settings.conversations).messages
    if not settings.partitions.admit_lone_messages:
        require_no_lone_messages(messages)
    keys = partition_keys(messages["timestamp"], settings.partitions.grain)
    keyed = messages.with_columns(keys.alias("partition"))
    hashes = {
        str(key): digest([rows.write_json()], length=8)
        for (key,), rows in keyed.group_by("partition", maintain_order=True)
    }
    return dict(sorted(hashes.items()))


def find_changed(workspace: Workspace, before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """List the partitions in which messages were added, removed or edited.

    Args:
        workspace: An open workspace.
        before: Earlier result of :func:`hash_partitions`.
        now: Current result of :func:`hash_partitions`.

    Returns:
        Keys in order. Where windows overlap, a partition with messages also counts as changed after a changed one.
    """
    keys = sorted({*before, *now})
    changed = {key for key in keys if before.get(key) != now.get(key)}
    if workspace.settings.windows.overlap and keys:
        calendar = partition_range(keys[0], keys[-1], workspace.settings.partitions.grain)
        changed |= {later for earlier, later in pairwise(calendar) if earlier in changed} & now.keys()
    return sorted(changed)


def join_ranges(partitions: Sequence[str], calendar: Sequence[str], most: int) -> list[tuple[str, str]]:
    """Join partitions to ranges. Too many ranges are joined across gaps, since an unchanged day is cheap.

    Args:
        partitions: Keys to join, all of them in ``calendar``.
        calendar: All keys between the first and the last, in order.
        most: Maximum number of ranges.

    Returns:
        First and last key of each range, in order. The widest gaps remain between ranges.
    """
    places = {key: place for place, key in enumerate(calendar)}
    wanted = sorted(partitions, key=places.__getitem__)
    gaps = [(places[later] - places[earlier], later) for earlier, later in pairwise(wanted)]
    widest = sorted((gap for gap in gaps if gap[0] > 1), reverse=True)[: most - 1]
    starts = {wanted[0], *(later for _, later in widest)} if wanted else set()
    ranges: list[tuple[str, str]] = []
    for key in wanted:
        first = key if key in starts else ranges.pop()[0]
        ranges.append((first, key))
    return ranges
