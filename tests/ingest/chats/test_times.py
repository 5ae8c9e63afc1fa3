"""What the numbers of dates mean, and local times around changes of the clock."""

import itertools
import re
from datetime import UTC, date, datetime, timedelta

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.base.errors import ReadError
from backstory.ingest.chats.times import DateParts, decide_date_order, latest_year_of, local_to_utc, read_date
from tests.errors import raises
from tests.ingest.chats.conftest import ReadText


def chat(*dates: str) -> str:
    return "".join(f"{day}, 21:05 - Ann: hello\n" for day in dates)


@pytest.mark.parametrize(
    ("dates", "expected"),
    [
        (["13/02/24", "14/02/24"], [date(2024, 2, 13), date(2024, 2, 14)]),
        (["02/13/24", "03/04/24"], [date(2024, 2, 13), date(2024, 3, 4)]),
        (["03/04/24", "05/04/24", "13/04/24"], [date(2024, 4, 3), date(2024, 4, 5), date(2024, 4, 13)]),
        (["2024/03/04"], [date(2024, 3, 4)]),
        (["03/04/24", "04/04/24", "01/05/24"], [date(2024, 4, 3), date(2024, 4, 4), date(2024, 5, 1)]),
        (["04/03/24", "04/04/24", "05/01/24"], [date(2024, 4, 3), date(2024, 4, 4), date(2024, 5, 1)]),
        (["01/01/24", "02/02/24"], [date(2024, 1, 1), date(2024, 2, 2)]),
    ],
)
def test_the_whole_file_tells_the_order(read_text: ReadText, dates: list[str], expected: list[date]) -> None:
    messages, quarantine = read_text(chat(*dates))

    assert messages["timestamp"].dt.date().to_list() == expected
    assert quarantine.is_empty()


@pytest.mark.parametrize(
    "dates", [["05/06/24"], ["01/02/24", "03/04/24"], ["03/04/24", "01/02/24"], ["05/06/2024", "05/06/2024"]]
)
def test_ambiguous_file_names_the_setting(read_text: ReadText, dates: list[str]) -> None:
    with raises(ReadError, "ambiguous_dates", "conversations.date_order") as caught:
        read_text(chat(*dates))

    assert isinstance(caught.value, ReadError)


@pytest.mark.parametrize(("order", "expected"), [("dmy", date(2024, 6, 5)), ("mdy", date(2024, 5, 6))])
def test_setting_decides_an_ambiguous_file(read_text: ReadText, order: str, expected: date) -> None:
    messages, _ = read_text(chat("05/06/24"), date_order=order)

    assert messages["timestamp"].dt.date().to_list() == [expected]


def test_setting_reads_short_years_written_first(read_text: ReadText) -> None:
    messages, _ = read_text(chat("24/05/06"), date_order="ymd")

    assert messages["timestamp"].dt.date().to_list() == [date(2024, 5, 6)]


@pytest.mark.parametrize("order", ["dmy", "mdy"])
def test_setting_leaves_years_written_first_where_they_are(read_text: ReadText, order: str) -> None:
    messages, _ = read_text(chat("2024-05-06"), date_order=order)

    assert messages["timestamp"].dt.date().to_list() == [date(2024, 5, 6)]


def test_setting_for_years_written_first_leaves_other_files_to_themselves(read_text: ReadText) -> None:
    messages, _ = read_text(chat("13/02/2024"), date_order="ymd")

    assert messages["timestamp"].dt.date().to_list() == [date(2024, 2, 13)]


def days(
    *counts: int, start: date, order: str, short: bool = True, lines: int = 1
) -> list[tuple[DateParts, int]]:
    """Write the dates that lie so many days after a first one."""
    written = []
    for day in (start + timedelta(days=count) for count in counts):
        numbers = {"d": day.day, "m": day.month, "y": day.year % 100 if short else day.year}
        written.append(((numbers[order[0]], numbers[order[1]], numbers[order[2]]), lines))
    return written


@pytest.mark.parametrize("separator", [".", "/", "-", ". "])
@pytest.mark.parametrize("order", ["dmy", "mdy", "ymd"])
@pytest.mark.parametrize("start", [date(2012, 2, 3), date(2021, 5, 10), date(2025, 10, 20)])
def test_months_of_a_chat_tell_every_order(start: date, order: str, separator: str) -> None:
    dates = days(*range(0, 60, 2), start=start, order=order)

    assert decide_date_order(dates, "auto", separator=separator) == order


def test_short_years_first_are_not_read_as_13_years(read_text: ReadText) -> None:
    spring = [date(2021, 5, 10) + timedelta(days=day) for day in range(30)]

    messages, _ = read_text("".join(f"{day:%y-%m-%d}, 00:00 - Ann: hello\n" for day in spring))

    assert messages["timestamp"].dt.date().to_list() == spring


@pytest.mark.parametrize("separator", ["-", "/"])
def test_two_short_readings_are_a_question_with_both_dates(separator: str) -> None:
    with pytest.raises(ReadError) as caught:
        decide_date_order([((21, 5, 20), 9)], "auto", separator=separator)

    assert {"2021-05-20", "2020-05-21"} <= set(re.findall(r"\d{4}-\d\d-\d\d", str(caught.value)))
    assert "`conversations.overrides`" in str(caught.value)


def test_a_short_year_is_read_last_where_no_place_writes_it_first() -> None:
    assert decide_date_order([((15, 1, 24), 1)], "auto", separator=".") == "dmy"


@given(
    start=st.dates(date(2010, 1, 1), date(2025, 12, 1)),
    gaps=st.lists(st.integers(1, 9), min_size=25, max_size=60),
    order=st.sampled_from(["dmy", "mdy", "ymd"]),
    short=st.booleans(),
    separator=st.sampled_from(["-", "/"]),
    lines=st.integers(1, 30),
)
def test_a_long_chat_is_read_rightly_or_asked_about(
    start: date, gaps: list[int], order: str, short: bool, separator: str, lines: int
) -> None:
    dates = days(*itertools.accumulate(gaps), start=start, order=order, short=short, lines=lines)
    latest = start.year + 2

    try:
        decided = decide_date_order(dates, "auto", latest_year=latest, separator=separator)
    except ReadError:
        return
    assert [read_date(parts, decided) for parts, _ in dates] == [
        start + timedelta(days=count) for count in itertools.accumulate(gaps)
    ]


@pytest.mark.parametrize(
    "dates",
    [["15/1/2567", "16/1/2567"], ["15/1/68"], ["1403/10/25", "1403/10/31"], ["25/10/1403"], ["15/07/1446"]],
)
@pytest.mark.parametrize("setting", ["auto", "dmy"])
def test_dates_of_another_calendar_are_no_dates_of_a_chat(
    read_text: ReadText, dates: list[str], setting: str
) -> None:
    with raises(ReadError, "unlikely_dates"):
        read_text(chat(*dates), date_order=setting)


def test_years_before_the_app_and_after_the_file_are_no_dates_of_a_chat(read_text: ReadText) -> None:
    for year in (1975, 2008, 2031):
        with raises(ReadError, "unlikely_dates"):
            read_text(chat(f"15.01.{year}"))


def test_one_message_of_a_wrong_clock_is_quarantined(read_text: ReadText) -> None:
    messages, quarantine = read_text(chat("15.01.2024", "01.01.1970", "16.01.2024"))

    assert messages["timestamp"].dt.day().to_list() == [15, 16]
    assert quarantine["reason"].to_list() == [
        "the year 1970 is not between 2009, when WhatsApp appeared, and 2026, the year of the file"
    ]


def test_the_latest_year_is_that_of_the_file_and_never_before_this_version() -> None:
    assert latest_year_of(0) == 2026
    assert latest_year_of(datetime(2031, 6, 1, tzinfo=UTC).timestamp()) == 2031
    assert latest_year_of(datetime(2031, 12, 31, 12, tzinfo=UTC).timestamp()) == 2032


def test_a_later_copy_of_a_file_allows_later_years() -> None:
    dates = [((28, 11, 20), 1)]

    assert decide_date_order(dates, "auto", latest_year=2026, separator="-") == "dmy"
    with raises(ReadError, "ambiguous_dates"):
        decide_date_order(dates, "auto", latest_year=2030, separator="-")


def test_one_line_in_another_order_is_quarantined(read_text: ReadText) -> None:
    messages, quarantine = read_text(chat("13/02/24", "14/02/24", "02/15/24", "16/02/24"))

    assert messages["timestamp"].dt.day().to_list() == [13, 14, 16]
    assert quarantine["line"].to_list() == [3]


def test_setting_that_contradicts_the_file_is_an_error(read_text: ReadText) -> None:
    with raises(ReadError, "unlikely_dates", "conversations.date_order"):
        read_text(chat("02/13/24", "02/14/24", "03/01/24"), date_order="dmy")


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
