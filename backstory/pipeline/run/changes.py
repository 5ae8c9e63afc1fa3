"""Fingerprints of the input files by their content, and the ranges into which partitions are joined."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Collection, Sequence
from itertools import pairwise

from backstory.base.ids import digest
from backstory.pipeline.incremental.document_fingerprint import hash_document_files
from backstory.pipeline.stages.post_folder import list_files_of_people
from backstory.pipeline.workspace import Workspace


def fingerprint_documents(workspace: Workspace) -> str:
    """Hash the path and content of every document file.

    Of the written posts only what people did counts, if they are documents: edited, added and removed files.
    """
    posts = hash_document_files(workspace, workspace.list_other_parts())
    return digest([posts, *list_files_of_people(workspace)]) if workspace.feeds_back else posts


def join_ranges(
    partitions: Sequence[str], calendar: Sequence[str], most: int, apart: Collection[str] = ()
) -> list[tuple[str, str]]:
    """Join partitions to ranges. Too many ranges are joined across gaps, since an unchanged day is cheap.

    Args:
        partitions: Keys to join, all of them in ``calendar``.
        calendar: All keys between the first and the last, in order.
        most: Maximum number of ranges; exceeded only for the sake of ``apart``.
        apart: Keys that no gap inside a range may hold.

    Returns:
        First and last key of each range, in order. The widest gaps remain between ranges.
    """
    places = {key: place for place, key in enumerate(calendar)}
    barriers = sorted(places[key] for key in apart if key in places)
    wanted = sorted(partitions, key=places.__getitem__)
    gaps = [(places[later] - places[earlier], later) for earlier, later in pairwise(wanted)]
    split = {
        later
        for earlier, later in pairwise(wanted)
        if bisect(barriers, places[earlier]) != bisect(barriers, places[later])
    }
    joinable = sorted((gap for gap in gaps if gap[0] > 1 and gap[1] not in split), reverse=True)
    widest = joinable[: max(most - 1 - len(split), 0)]
    starts = {wanted[0], *split, *(later for _, later in widest)} if wanted else set()
    ranges: list[tuple[str, str]] = []
    for key in wanted:
        first = key if key in starts else ranges.pop()[0]
        ranges.append((first, key))
    return ranges
