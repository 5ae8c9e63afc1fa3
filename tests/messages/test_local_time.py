"""Local times around changes of the clock."""

from datetime import UTC, datetime

import polars as pl
import pytest

from backstory.messages.local_time import local_to_utc


def utc(*times: datetime | None, zone: str = "Europe/Berlin", in_order: bool = True) -> list[datetime | None]:
    return local_to_utc(pl.Series(times, dtype=pl.Datetime("us")), zone, in_order=in_order).to_list()


def test_summer_and_winter_have_their_own_offset() -> None:
    assert utc(datetime(2024, 1, 1, 12), datetime(2024, 7, 1, 12)) == [
        datetime(2024, 1, 1, 11, tzinfo=UTC),
        datetime(2024, 7, 1, 10, tzinfo=UTC),
    ]


def test_skipped_hour_is_read_with_the_offset_before_it() -> None:
    assert utc(datetime(2024, 3, 31, 2, 30)) == [datetime(2024, 3, 31, 1, 30, tzinfo=UTC)]


def test_repeated_hour_is_the_second_one_from_where_the_clock_steps_back() -> None:
    times = [datetime(2024, 10, 27, 2, minute) for minute in (10, 50, 5, 20)]

    assert utc(*times, datetime(2024, 10, 27, 3, 0)) == [
        datetime(2024, 10, 27, 0, 10, tzinfo=UTC),
        datetime(2024, 10, 27, 0, 50, tzinfo=UTC),
        datetime(2024, 10, 27, 1, 5, tzinfo=UTC),
        datetime(2024, 10, 27, 1, 20, tzinfo=UTC),
        datetime(2024, 10, 27, 2, 0, tzinfo=UTC),
    ]


def test_repeated_hour_without_order_is_the_first_one() -> None:
    times = [datetime(2024, 10, 27, 2, minute) for minute in (50, 5)]

    assert utc(*times, in_order=False) == [
        datetime(2024, 10, 27, 0, 50, tzinfo=UTC),
        datetime(2024, 10, 27, 0, 5, tzinfo=UTC),
    ]


@pytest.mark.parametrize("in_order", [True, False])
def test_absent_times_stay_absent(in_order: bool) -> None:
    assert utc(None, datetime(2024, 1, 1), in_order=in_order) == [
        None,
        datetime(2023, 12, 31, 23, tzinfo=UTC),
    ]
    assert utc(in_order=in_order) == []
