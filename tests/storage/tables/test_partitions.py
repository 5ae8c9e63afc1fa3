"""Partition keys: the names that Dagster gives, without gaps, and malformed ones refused."""

from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from typing import get_args

import polars as pl
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from backstory.base.errors import InputError
from backstory.interfaces.dagster_specs.partitions import partitions_definition
from backstory.settings.models import PartitionSettings
from backstory.storage.tables.partitions import (
    Grain,
    partition_bounds,
    partition_key,
    partition_keys,
    partition_range,
    previous_partition,
)
from tests.errors import raises

GRAINS: tuple[Grain, ...] = get_args(Grain)
grains = st.sampled_from(GRAINS)
zones = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.datetimes(datetime(1950, 1, 1), datetime(2150, 1, 1), timezones=zones)


@pytest.mark.parametrize(
    ("grain", "key", "start", "end", "previous"),
    [
        ("hour", "2025-03-01T00", datetime(2025, 3, 1), datetime(2025, 3, 1, 1), "2025-02-28T23"),
        ("day", "2025-03-01", datetime(2025, 3, 1), datetime(2025, 3, 2), "2025-02-28"),
        ("week", "2025-03-03", datetime(2025, 3, 3), datetime(2025, 3, 10), "2025-02-24"),
        ("month", "2024-12-01", datetime(2024, 12, 1), datetime(2025, 1, 1), "2024-11-01"),
    ],
)
def test_a_key_names_a_calendar_unit(
    grain: Grain, key: str, start: datetime, end: datetime, previous: str
) -> None:
    assert partition_bounds(key, grain) == (start.replace(tzinfo=UTC), end.replace(tzinfo=UTC))
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
    with raises(InputError, "swapped_range", first=keys[-1], last=keys[0]):
        partition_range(keys[-1], keys[0], grain)


@pytest.mark.parametrize("grain", GRAINS)
def test_the_keys_are_those_of_dagster(grain: Grain) -> None:
    # 2024-01-01 is a Monday, so it begins a partition of every grain.
    dagster = partitions_definition(PartitionSettings(grain=grain, start="2024-01-01"))
    keys = list(dagster.get_partition_keys(current_time=datetime(2025, 3, 5, tzinfo=UTC)))
    assert partition_range(keys[0], keys[-1], grain) == keys
    for key in [*keys[:40], *keys[-40:]]:
        window = dagster.time_window_for_partition_key(key)
        assert partition_bounds(key, grain) == (window.start, window.end)


@given(moments, grains)
def test_a_moment_is_within_the_bounds_of_its_partition(moment: datetime, grain: Grain) -> None:
    key = partition_key(moment, grain)
    start, end = partition_bounds(key, grain)
    assert start <= moment < end
    assert partition_bounds(previous_partition(key, grain), grain)[1] == start
    assert partition_key(start, grain) == partition_key(end - timedelta(microseconds=1), grain) == key


@hypothesis_settings(deadline=None)
@given(st.lists(moments, max_size=20), grains)
def test_series_and_expressions_give_the_keys_of_each_moment(times: list[datetime], grain: Grain) -> None:
    expected = [partition_key(moment, grain) for moment in times]
    utc = pl.Series("sent", [moment.astimezone(UTC) for moment in times], dtype=pl.Datetime("us", "UTC"))
    for series in (utc, utc.dt.convert_time_zone("America/Sao_Paulo")):
        keys = partition_keys(series, grain)
        assert keys.equals(pl.Series("sent", expected, dtype=pl.String), check_dtypes=True, check_names=True)
        frame = series.to_frame().select(partition_keys(pl.col("sent"), grain))
        assert frame.to_series().equals(keys)


@given(st.lists(moments, min_size=1, max_size=10), grains)
def test_keys_sort_as_time_and_ranges_have_no_gaps(times: list[datetime], grain: Grain) -> None:
    ordered = [partition_key(moment, grain) for moment in sorted(times)]
    assert ordered == sorted(ordered)
    near = partition_key(min(times) + timedelta(days=40), grain)
    keys = partition_range(ordered[0], near, grain)
    assert (keys[0], keys[-1]) == (ordered[0], near)
    for before, key in pairwise(keys):
        assert previous_partition(key, grain) == before


def test_null_timestamps_have_no_key() -> None:
    nothing = pl.Series("sent", [None], dtype=pl.Datetime("us", "UTC"))
    assert partition_keys(nothing, "day").to_list() == [None]


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
        lambda: partition_bounds(key, grain),
        lambda: previous_partition(key, grain),
        lambda: partition_range(key, good, grain),
        lambda: partition_range(good, key, grain),
    )
    for call in calls:
        with pytest.raises(InputError) as caught:
            call()
        assert str(caught.value) == f"{key!r} does not name a partition of one {grain}; write {form}"


def test_times_without_a_zone_are_refused() -> None:
    with raises(InputError, "no_time_zone", value=datetime(2025, 3, 4)):
        partition_key(datetime(2025, 3, 4), "day")
    for series in (pl.Series("sent", [datetime(2025, 3, 4)]), pl.Series("sent", ["2025-03-04"])):
        with raises(InputError, "no_time_zone", column="sent"):
            partition_keys(series, "day")
