"""The time zone of each conversation, and the times of its messages by that clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Final

import polars as pl

from backstory.base.errors import InputError
from backstory.base.local_times import read_clocks
from backstory.ingest.chats.opened import conversation_of
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.contracts import conform
from backstory.storage.tables.schemas import Messages


def find_zones(workspace: Workspace, chats: Iterable[tuple[str, str, str]]) -> dict[str, str]:
    """Find the time zones of conversations: the clock that their days follow, and that their times are shown by.

    ``conversations.overrides`` may give a conversation a zone of its own, under its id, its name, or the name of its
    export or subfolder. The zone of a single file of a subfolder is only that of a phone. If the exports of a
    conversation have several zones, or if posts are documents for later windows of all conversations, which a run makes
    day by day, it is the zone of all conversations. It returns the zones that differ from that of all conversations, by
    id. ``chats`` are the id of each conversation, its name in its export, and the path of an export that holds it.
    """
    settings = workspace.settings.conversations
    named = {name: one.timezone for name, one in settings.overrides.items() if one.timezone is not None}
    if not named or workspace.shares_posts:
        return {}
    found: dict[str, set[str]] = {}
    for conversation, name, file in chats:
        keys = (conversation, name, conversation_of(file))
        zone = next((named[key] for key in keys if key in named), settings.timezone)
        found.setdefault(conversation, set()).add(zone)
    # Of these, no export may be left.
    zones = {name: {zone} for name, zone in named.items()} | found
    return {
        name: next(iter(one)) for name, one in zones.items() if len(one) == 1 and one != {settings.timezone}
    }


def put_local_times(messages: pl.DataFrame, zones: Mapping[str, str], zone: str) -> pl.DataFrame:
    """Make the table ``messages`` by :func:`place_in_zones`."""
    return conform(place_in_zones(messages, zones, zone), Messages)


def place_in_zones(messages: pl.DataFrame, zones: Mapping[str, str], zone: str) -> pl.DataFrame:
    """Add the times of messages by the clock of their conversation."""
    name = pl.col("conversation_id")
    placed = messages.with_columns(
        timezone=name.replace_strict(dict(zones), default=zone, return_dtype=pl.String)
        if zones
        else pl.lit(zone)
    )
    return placed.with_columns(local_time=read_clocks(placed, "timestamp"))


LONGEST_GAP: Final = timedelta(days=366)
"""Gap beyond which a few messages are assumed to come from a wrong clock."""

MOST_LONE: Final = 3
"""Maximum number of messages that are assumed to come from a wrong clock; also at most a tenth of all."""


def require_no_timestamp_outliers(messages: pl.DataFrame) -> None:
    """Raise if the first or last few messages are more than a year away from all other messages.

    The error names the file and date of each, and what to do.
    """
    lone = find_lone_messages(messages)
    if lone.is_empty():
        return
    named = "; ".join(
        f"{source}, {moment:%Y-%m-%d %H:%M} UTC"
        for source, moment in lone.select("source", "timestamp").rows()
    )
    raise InputError(
        f"{len(lone)} of {len(messages)} messages are more than {LONGEST_GAP.days} days from all others, as if a "
        f"phone's clock had been wrong: {named}. Correct or remove them in the export, choose days with --from "
        "and --to, or set `partitions: {allow_timestamp_outliers: true}` if the dates are right",
        code="timestamp_outliers",
    )


def find_lone_messages(messages: pl.DataFrame) -> pl.DataFrame:
    """Find the first or last few messages that are more than :data:`LONGEST_GAP` from all others."""
    ordered = messages.sort("timestamp", maintain_order=True)
    most = min(MOST_LONE, len(ordered) // 10)
    after_silence = (ordered["timestamp"].diff() > LONGEST_GAP).arg_true().to_list()
    starts = [place for place in after_silence if place <= most]
    ends = [place for place in after_silence if len(ordered) - place <= most]
    head = max(starts, default=0)
    tail = min(ends, default=len(ordered))
    return pl.concat([ordered.head(head), ordered.slice(tail)])
