"""Partition keys: local dates of messages, named as Dagster names them, without gaps; malformed ones are refused."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise, product
from typing import get_args
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.base.errors import InputError
from backstory.interfaces.dagster_specs.asset_specs import partitions_definition
from backstory.settings.models import PartitionSettings
from backstory.storage.tables.partitions import (
    Grain,
    next_partition,
    partition_key,
    partition_keys,
    partition_range,
    previous_partition,
)
from tests.builders.messages import make_messages
from tests.errors import raises

GRAINS: tuple[Grain, ...] = get_args(Grain)
ZONES = (
    "UTC", "Europe/Berlin", "America/Los_Angeles", "Asia/Kathmandu", "Pacific/Apia", "America/St_Johns",
    "America/Sao_Paulo",
)  # fmt: skip
"""Zones with days of 23, 24, 25 and 47 hours, offsets of quarter hours, and a day that the calendar leaves out."""

grains = st.sampled_from(GRAINS)
zones = st.sampled_from(ZONES)
moments = st.datetimes(datetime(1970, 1, 2), datetime(2037, 12, 30), timezones=st.just(UTC))


@pytest.mark.parametrize(
    ("grain", "keys"),
    [
        ("hour", ["2025-02-28T23", "2025-03-01T00", "2025-03-01T01"]),
        ("day", ["2025-02-28", "2025-03-01", "2025-03-02"]),
        ("week", ["2024-12-30", "2025-01-06"]),
        ("month", ["2024-11-01", "2024-12-01", "2025-01-01", "2025-02-01", "2025-03-01"]),
    ],
)
def test_a_range_holds_both_ends_and_all_between(grain: Grain, keys: list[str]) -> None:
    assert partition_range(keys[0], keys[-1], grain) == keys
    assert partition_range(keys[0], keys[0], grain) == keys[:1]
    for before, key in pairwise(keys):
        assert (previous_partition(key, grain), next_partition(before, grain)) == (before, key)
    with raises(InputError, "swapped_range"):
        partition_range(keys[-1], keys[0], grain)


@pytest.mark.parametrize(
    ("grain", "timezone"), [("hour", ZONES[1]), *product(("day", "week", "month"), ZONES)]
)
def test_the_keys_are_those_of_dagster(grain: Grain, timezone: str) -> None:
    # The first of August 2011 is a Monday, so it begins a partition of every grain; 30 December 2011 is none in Apia.
    dagster = partitions_definition(PartitionSettings(grain=grain, start="2011-08-01"), None, timezone)
    keys = list(dagster.get_partition_keys(current_time=datetime(2012, 4, 5, tzinfo=UTC)))
    assert partition_range(keys[0], keys[-1], grain) == keys
    for key in [*keys[140:160], *keys[-12:]]:
        window = dagster.time_window_for_partition_key(key)
        if (key, timezone) != ("2011-12-30", "Pacific/Apia"):
            assert partition_key(window.start, grain, timezone) == key
            assert partition_key(window.end - timedelta(microseconds=1), grain, timezone) == key


@pytest.mark.parametrize(
    ("timezone", "day", "hours"),
    [
        ("Europe/Berlin", "2025-03-30", 23),
        ("Europe/Berlin", "2025-10-26", 25),
        ("Asia/Kathmandu", "2025-03-30", 24),
        ("Pacific/Apia", "2011-12-30", 0),
    ],
)
def test_a_day_has_the_hours_that_the_clock_shows(timezone: str, day: str, hours: int) -> None:
    around = datetime.fromisoformat(day).replace(tzinfo=UTC) - timedelta(days=1)
    quarters = [around + timedelta(minutes=15 * number) for number in range(4 * 72)]
    messages = make_messages([{"timestamp": moment} for moment in quarters], timezone=timezone)
    assert partition_keys(messages, "day").to_list().count(day) == 4 * hours
    assert len(set(partition_keys(messages, "hour"))) == 72, "an hour that the clock shows twice is two"


@given(st.lists(moments, min_size=1, max_size=20), grains, zones)
def test_every_message_is_in_the_partition_of_its_local_date(
    times: list[datetime], grain: Grain, timezone: str
) -> None:
    times = sorted(times)
    messages = make_messages([{"timestamp": moment} for moment in times], timezone=timezone)
    keys = partition_keys(messages, grain).to_list()
    assert keys == [partition_key(moment, grain, timezone) for moment in times]
    if grain == "hour":
        assert keys == [f"{moment:%Y-%m-%dT%H}" for moment in times] == sorted(keys)
    days = {"hour": 0, "day": 1, "week": 7, "month": 31}[grain]
    for moment, key in zip(times, keys, strict=True):
        day = moment.astimezone(ZoneInfo(timezone)).date() - datetime.fromisoformat(key[:10]).date()
        assert grain == "hour" or timedelta(0) <= day < timedelta(days)
    near = partition_key(times[0] + timedelta(days=40), grain)
    assert all(a < b for a, b in pairwise(partition_range(partition_key(times[0], grain), near, grain)))


@pytest.mark.parametrize(
    ("grain", "key"),
    [
        *product(["hour"], ["2025-03-04", "2025-03-04T10:00", "2025-03-04T24"]),
        *product(["day"], ["2025-03-04T10", "2025-02-30", "2025-3-4", "2025-03-04\n", "٢٠٢٥-03-04", ""]),
        *product(["week"], ["2025-03-04"]),
        *product(["month"], ["2025-03-03", "2025-03"]),
    ],
)
def test_a_malformed_key_or_time_is_refused(grain: Grain, key: str) -> None:
    good = partition_key(datetime(2025, 3, 4, tzinfo=UTC), grain)
    with raises(InputError, "invalid_partition"):
        previous_partition(key, grain)
    for ends in ((key, good), (good, key)):
        with raises(InputError, "invalid_partition"):
            partition_range(*ends, grain)
    with raises(InputError, "no_time_zone"):
        partition_key(datetime(2025, 3, 4), grain)
