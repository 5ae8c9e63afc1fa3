"""Partition keys: local dates of messages, named as Dagster names them, without gaps; malformed ones are refused."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise, product
from typing import get_args
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from backstory.base.errors import InputError
from backstory.interfaces.dagster_specs.partitions import partitions_definition
from backstory.settings.models import PartitionSettings
from backstory.storage.tables.partitions import (
    Grain,
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
    ("grain", "key", "previous"),
    [
        ("hour", "2025-03-01T00", "2025-02-28T23"),
        ("day", "2025-03-01", "2025-02-28"),
        ("week", "2025-03-03", "2025-02-24"),
        ("month", "2024-12-01", "2024-11-01"),
    ],
)
def test_a_key_follows_the_one_of_the_unit_before(grain: Grain, key: str, previous: str) -> None:
    assert previous_partition(key, grain) == previous


@pytest.mark.parametrize(
    ("grain", "keys"),
    [
        ("hour", ["2025-03-02T22", "2025-03-02T23", "2025-03-03T00"]),
        ("day", ["2025-02-28", "2025-03-01", "2025-03-02"]),
        ("week", ["2024-12-30", "2025-01-06"]),
        ("month", ["2024-12-01", "2025-01-01", "2025-02-01"]),
    ],
)
def test_a_range_holds_both_ends_and_all_between(grain: Grain, keys: list[str]) -> None:
    assert partition_range(keys[0], keys[-1], grain) == keys
    assert partition_range(keys[0], keys[0], grain) == keys[:1]
    with raises(InputError, "swapped_range", keys[-1], keys[0]):
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
        ("UTC", "2025-03-30", 24),
        ("Europe/Berlin", "2025-03-30", 23),
        ("Europe/Berlin", "2025-10-26", 25),
        ("America/Los_Angeles", "2025-03-09", 23),
        ("America/Los_Angeles", "2025-11-02", 25),
        ("Asia/Kathmandu", "2025-03-30", 24),
        ("Pacific/Apia", "2011-12-29", 24),
        ("Pacific/Apia", "2011-12-30", 0),
        ("Pacific/Apia", "2011-12-31", 24),
    ],
)
def test_a_day_has_the_hours_that_the_clock_shows(timezone: str, day: str, hours: int) -> None:
    around = datetime.fromisoformat(day).replace(tzinfo=UTC) - timedelta(days=1)
    quarters = [around + timedelta(minutes=15 * number) for number in range(4 * 72)]
    messages = make_messages([{"timestamp": moment} for moment in quarters], timezone=timezone)
    keys = partition_keys(messages, "day").to_list()
    assert keys.count(day) == 4 * hours
    assert len(set(partition_keys(messages, "hour"))) == 72, "an hour that the clock shows twice is two"


@hypothesis_settings(deadline=None)
@given(st.lists(moments, max_size=20), grains, zones)
def test_every_message_is_in_the_partition_of_its_local_date(
    times: list[datetime], grain: Grain, timezone: str
) -> None:
    messages = make_messages([{"timestamp": moment} for moment in times], timezone=timezone)
    keys = partition_keys(messages, grain).to_list()
    assert keys == [partition_key(moment, grain, timezone) for moment in times]
    local = [moment if grain == "hour" else moment.astimezone(ZoneInfo(timezone)) for moment in times]
    if grain in ("hour", "day"):
        assert [key[:10] for key in keys] == [f"{moment:%Y-%m-%d}" for moment in local]
    if grain == "month":
        assert keys == [f"{moment:%Y-%m-01}" for moment in local]
    if grain == "week":
        days = [
            moment.date() - datetime.fromisoformat(key).date()
            for moment, key in zip(local, keys, strict=True)
        ]
        assert all(timedelta(0) <= day < timedelta(7) for day in days)


@given(st.lists(moments, min_size=1, max_size=10), grains)
def test_keys_sort_as_time_and_ranges_have_no_gaps(times: list[datetime], grain: Grain) -> None:
    ordered = [partition_key(moment, grain) for moment in sorted(times)]
    assert ordered == sorted(ordered)
    near = partition_key(min(times) + timedelta(days=40), grain)
    keys = partition_range(ordered[0], near, grain)
    assert (keys[0], keys[-1]) == (ordered[0], near)
    for before, key in pairwise(keys):
        assert previous_partition(key, grain) == before


@pytest.mark.parametrize(
    ("grain", "key", "form"),
    [
        ("hour", "2025-03-04", "an hour such as 2025-03-04T10"),
        ("hour", "2025-03-04T10:00", "an hour such as 2025-03-04T10"),
        ("hour", "2025-03-04T24", "an hour such as 2025-03-04T10"),
        ("day", "2025-03-04T10", "a day such as 2025-03-04"),
        ("day", "2025-02-30", "a day such as 2025-03-04"),
        ("day", "2025-3-4", "a day such as 2025-03-04"),
        ("day", "2025-03-04\n", "a day such as 2025-03-04"),
        ("day", "٢٠٢٥-03-04", "a day such as 2025-03-04"),
        ("day", "", "a day such as 2025-03-04"),
        ("week", "2025-03-04", "the Monday that the week begins with, such as 2025-03-03"),
        ("month", "2025-03-03", "the first day of the month, such as 2025-03-01"),
        ("month", "2025-03", "the first day of the month, such as 2025-03-01"),
    ],
)
def test_a_malformed_key_is_refused_with_the_form(grain: Grain, key: str, form: str) -> None:
    good = partition_key(datetime(2025, 3, 4, tzinfo=UTC), grain)
    calls = (
        lambda: previous_partition(key, grain),
        lambda: partition_range(key, good, grain),
        lambda: partition_range(good, key, grain),
    )
    for call in calls:
        with pytest.raises(InputError) as caught:
            call()
        assert str(caught.value) == f"{key!r} does not name a partition of one {grain}; write {form}"


def test_times_without_a_zone_are_refused() -> None:
    with raises(InputError, "no_time_zone", datetime(2025, 3, 4).isoformat()):
        partition_key(datetime(2025, 3, 4), "day")
