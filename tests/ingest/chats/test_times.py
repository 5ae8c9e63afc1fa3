"""What the numbers of dates mean, and local times around changes of the clock."""

import itertools
import re
from datetime import UTC, date, datetime, timedelta

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.base.errors import ReadError
from backstory.ingest.chats.times import (
    DateParts,
    count_microseconds,
    decide_date_order,
    latest_year_of,
    local_to_utc,
    read_date,
)
from tests.errors import raises
from tests.ingest.chats.conftest import ReadText


def chat(*dates: str) -> str:
    return "".join(f"{day}, 21:05 - Ann: hello\n" for day in dates)


@pytest.mark.parametrize(
    ("setting", "dates", "expected"),
    [
        ("auto", "13/02/24 14/02/24", "2024-02-13 2024-02-14"),
        ("auto", "02/13/24 03/04/24", "2024-02-13 2024-03-04"),
        ("auto", "03/04/24 05/04/24 13/04/24", "2024-04-03 2024-04-05 2024-04-13"),
        ("auto", "2024/03/04", "2024-03-04"),
        ("auto", "03/04/24 04/04/24 01/05/24", "2024-04-03 2024-04-04 2024-05-01"),
        ("auto", "04/03/24 04/04/24 05/01/24", "2024-04-03 2024-04-04 2024-05-01"),
        ("auto", "01/01/24 02/02/24", "2024-01-01 2024-02-02"),
        ("auto", "15.01.24", "2024-01-15"),
        ("auto", "13.05.24 14.05.31 15.05.24", "2024-05-13 2024-05-15"),
        ("auto", "13/02/24 14/02/24 02/15/24 16/02/24", "2024-02-13 2024-02-14 2024-02-16"),
        ("auto", "05/29/24 05/28/24 05/11/24 05/10/24", "2024-05-29 2024-05-28 2024-05-11 2024-05-10"),
        ("dmy", "05/06/24", "2024-06-05"),
        ("mdy", "05/06/24", "2024-05-06"),
        ("ymd", "24/05/06", "2024-05-06"),
        ("dmy", "2024-05-06", "2024-05-06"),
        ("ymd", "13/02/2024", "2024-02-13"),
    ],
)
def test_the_whole_file_or_the_setting_tells_the_order(
    read_text: ReadText, setting: str, dates: str, expected: str
) -> None:
    messages, _ = read_text(chat(*dates.split()), date_order=setting)

    assert messages["timestamp"].dt.date().cast(pl.String).to_list() == expected.split()


@pytest.mark.parametrize(
    ("setting", "dates", "code"),
    [
        *(
            ("auto", dates, "ambiguous_dates")
            for dates in ("05/06/24", "01/02/24 03/04/24", "03/04/24 01/02/24", "05/06/2024 05/06/2024", "21/05/20",
                "13/05/24 14/05/31 15/05/24")
        ),
        *(
            (setting, dates, "unlikely_dates")
            for setting in ("auto", "dmy")
            # Calendars of Thailand, of Iran and of Islam; years before the app and after the file.
            for dates in (
                "15/1/2567 16/1/2567", "15/1/68", "1403/10/25 1403/10/31", "25/10/1403", "15/07/1446",
                "15.01.1975", "15.01.2008", "15.01.2031",
            )
        ),
        ("dmy", "02/13/24 02/14/24 03/01/24", "unlikely_dates"),
    ],
)  # fmt: skip
def test_dates_of_several_readings_or_of_none_are_an_error_that_names_the_setting(
    read_text: ReadText, setting: str, dates: str, code: str
) -> None:
    with raises(ReadError, code, "conversations.date_order"):
        read_text(chat(*dates.split()), date_order=setting)


def days(*counts: int, start: date, order: str, short: bool = True) -> list[DateParts]:
    """Write the dates that lie so many days after a first one."""
    written = []
    for day in (start + timedelta(days=count) for count in counts):
        numbers = {"d": day.day, "m": day.month, "y": day.year % 100 if short else day.year}
        written.append((numbers[order[0]], numbers[order[1]], numbers[order[2]]))
    return written


@given(
    start=st.dates(date(2010, 1, 1), date(2025, 12, 1)),
    gaps=st.lists(st.integers(1, 9), min_size=25, max_size=60),
    order=st.sampled_from(["dmy", "mdy", "ymd"]),
    short=st.booleans(),
    separator=st.sampled_from(["-", "/"]),
)
def test_a_long_chat_is_read_rightly_or_asked_about(
    start: date, gaps: list[int], order: str, short: bool, separator: str
) -> None:
    dates = days(*itertools.accumulate(gaps), start=start, order=order, short=short)
    latest = start.year + 2

    try:
        decided = decide_date_order(dates, "auto", latest_year=latest, separator=separator)
    except ReadError:
        return
    assert [read_date(parts, decided, latest) for parts in dates] == [
        start + timedelta(days=count) for count in itertools.accumulate(gaps)
    ]


def test_one_message_of_a_wrong_clock_is_quarantined(read_text: ReadText) -> None:
    messages, quarantine = read_text(chat("15.01.2024", "01.01.1970", "16.01.2024"))

    assert messages["timestamp"].dt.day().to_list() == [15, 16]
    assert quarantine["line"].to_list() == [2]


def test_the_latest_year_is_that_of_the_file_and_never_before_this_version() -> None:
    assert latest_year_of(0) == 2026
    assert latest_year_of(datetime(2031, 6, 1, tzinfo=UTC).timestamp()) == 2031
    assert latest_year_of(datetime(2031, 12, 31, 12, tzinfo=UTC).timestamp()) == 2032


def test_a_later_copy_of_a_file_allows_later_years() -> None:
    dates = [(28, 11, 20)]

    assert decide_date_order(dates, "auto", latest_year=2026, separator="-") == "dmy"
    with raises(ReadError, "ambiguous_dates"):
        decide_date_order(dates, "auto", latest_year=2030, separator="-")


BERLIN = "Europe/Berlin"


@pytest.mark.parametrize(
    ("local", "expected"),
    [
        ("2024-01-01 12:00 2024-07-01 12:00", "2024-01-01 11:00 2024-07-01 10:00"),
        # The clock skips an hour: it is read with the offset before it.
        ("2024-03-31 02:30", "2024-03-31 01:30"),
        # An hour occurs twice: it is the second one from where the clock steps back.
        (
            "2024-10-27 02:10 2024-10-27 02:50 2024-10-27 02:05 2024-10-27 02:20 2024-10-27 03:00",
            "2024-10-27 00:10 2024-10-27 00:50 2024-10-27 01:05 2024-10-27 01:20 2024-10-27 02:00",
        ),
        ("", ""),
    ],
)  # fmt: skip
def test_local_times_around_changes_of_the_clock(local: str, expected: str) -> None:
    def parse(times: str) -> list[datetime]:
        return [datetime.fromisoformat(time) for time in re.findall(r"\S+ \S+", times)]

    times = pl.Series([None, *parse(local)], dtype=pl.Datetime("us"))

    found = local_to_utc(times, BERLIN).to_list()

    assert found == [None, *(time.replace(tzinfo=UTC) for time in parse(expected))]


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        ("2024-07-01 12:00:00.000001", "2024-07-01 10:00:00.000001"),
        ("1963-02-01 12:00", "1963-02-01 11:00"),
        ("2024-03-31 02:30", "2024-03-31 01:30"),  # an hour that the clock skips
        ("2024-10-27 02:30", "2024-10-27 00:30"),  # one that occurs twice
        ("2024-10-27 02:30+01:00", "2024-10-27 01:30"),
    ],
)
def test_microseconds_of_a_moment_are_those_of_its_time_in_utc(moment: str, expected: str) -> None:
    counted = count_microseconds(datetime.fromisoformat(moment), BERLIN)

    found = pl.Series([counted], dtype=pl.Datetime("us", "UTC")).item()
    assert found == datetime.fromisoformat(expected).replace(tzinfo=UTC)


@pytest.mark.parametrize("moment", ["0001-01-01 00:00", "0001-01-01 00:00+14:00"])
def test_a_moment_before_all_years_in_utc_is_an_error(moment: str) -> None:
    with pytest.raises(OverflowError):
        count_microseconds(datetime.fromisoformat(moment), BERLIN)
