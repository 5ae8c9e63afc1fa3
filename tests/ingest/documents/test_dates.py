"""Dates of documents and of their paths: the forms that are read, in UTC, and those that are refused."""

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.ingest.documents.files import split_dated_name
from backstory.ingest.documents.metadata import parse_date


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        (" 2025-3-4 ", (2025, 3, 4)),
        ("2025-03-04 10:30", (2025, 3, 4, 10, 30)),
        ("2025-03-04T10:30:15Z", (2025, 3, 4, 10, 30, 15)),
        ("2025-03-04t10:30:15.25+02:00", (2025, 3, 4, 8, 30, 15, 250_000)),
        ("2025-03-04 10:30:00 +0200", (2025, 3, 4, 8, 30)),
        ("2025-03-04 1:30:00 -5", (2025, 3, 4, 6, 30)),
        ("2025-03-04 23:30:00 -05:30", (2025, 3, 5, 5)),
        ("2025.3.4 10:30", (2025, 3, 4, 10, 30)),
        ("20250304", (2025, 3, 4)),
        ("202503041030", (2025, 3, 4, 10, 30)),
        ("20250304T103015Z", (2025, 3, 4, 10, 30, 15)),
        ("[[2025-03-04]]", (2025, 3, 4)),
        ("4th of March, 2025", (2025, 3, 4)),
        ("04-Mar-2025", (2025, 3, 4)),
        ("march 4th 2025 at 10:30 PM", (2025, 3, 4, 22, 30)),
        ("Sept. 4, 2025, 12:05 a.m.", (2025, 9, 4, 0, 5)),
        ("Tuesday, 4 Mar 2025", (2025, 3, 4)),
        ("Tue, 04 Mar 2025 10:30:00 +0200", (2025, 3, 4, 8, 30)),
        ("Tue Mar 04 2025 10:30:00 GMT+0200 (Central European Time)", (2025, 3, 4, 8, 30)),
        ("2025-03-04 10:30:15.1234567 UTC", (2025, 3, 4, 10, 30, 15, 123_456)),
    ],
)
def test_a_date_is_read_in_utc_if_it_states_a_zone(text: str, moment: tuple[int, ...]) -> None:
    states_zone = text.endswith(("Z", "z", "UTC", "GMT")) or re.search(
        r"[+-]\d\d?(:?\d\d)?( \(|$)", text[10:]
    )
    assert parse_date(text) == datetime(*moment, tzinfo=UTC if states_zone else None)  # type: ignore[misc,arg-type]


@pytest.mark.parametrize(
    "text",
    ["", "soon", "2025", "2025-02-30", "2025-13-01", "2025-03-04T25:00", "2025-03-04 10:00 +99:00",
     "04/03/2025", "2025-03-04 10:00 CET", "0001-01-01T00:00+05:00", "٢٠٢٥-03-04", "2025-03-04x",
     "2025-03/04", "4 Marz 2025", "4 Ma 2025", "31 June 2025", "March 2025", "around 4 March 2025", "20251304",
     "4 March 25", "2025-03-04 13:00 PM", "2025-03-04 0:30 am", "1714521600"],
)  # fmt: skip
def test_what_is_not_a_date_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_date(text)


offsets = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=offsets), st.sampled_from("T "))
def test_every_iso_moment_is_read(moment: datetime, separator: str) -> None:
    parsed = parse_date(moment.isoformat(separator))
    assert parsed == moment
    assert parsed.utcoffset() == timedelta()


MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
ENGLISH = (
    "{day} {month} {year}", "{day} {month:.3} {year}", "{month} {day}, {year}", "{month:.3}. {day} {year}",
    "{weekday}, {day:02} {month:.3} {year} {time}", "{weekday} {month:.3} {day:02} {year} {time}",
)  # fmt: skip


@given(st.datetimes(datetime(1970, 1, 1), datetime(9998, 1, 1)), st.sampled_from(ENGLISH), st.booleans())
def test_every_english_date_is_read(moment: datetime, form: str, halves: bool) -> None:
    moment = (
        moment.replace(microsecond=0)
        if "time" in form
        else datetime.combine(moment.date(), datetime.min.time())
    )
    hour = f"{moment.hour % 12 or 12}:{moment:%M:%S} {'PM' if moment.hour >= 12 else 'AM'}"
    text = form.format(
        day=moment.day,
        month=MONTHS[moment.month - 1],
        year=f"{moment.year:04}",
        weekday=("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[moment.weekday()],
        time=hour if halves else f"{moment:%H:%M:%S}",
    )
    assert parse_date(text) == moment


@given(
    st.text(max_size=30)
    | st.from_regex(r"[0-9]{1,4}[-/. ][A-Za-z0-9]{1,9}[-/. ][0-9]{1,4}( [0-9:]{0,8})?", fullmatch=True)
)
def test_any_text_is_a_date_or_refused(text: str) -> None:
    with suppress(ValueError):
        assert parse_date(text).tzinfo in (UTC, None)


@pytest.mark.parametrize(
    ("uri", "dated", "slug"),
    [
        ("2025-03-04-my-post.md", "2025-03-04", "my-post"),
        ("a/b/2025-03-04_My post.v2.md", "2025-03-04", "My post.v2"),
        ("2025-03-04.md", "2025-03-04", "2025-03-04"),
        ("2025-03-04-.md", "2025-03-04", "2025-03-04-"),
        ("my-post.md", None, "my-post"),
        ("2025-03-045.md", None, "2025-03-045"),
        ("2025-03-04-my-post/index.md", "2025-03-04", "my-post"),
        ("index.md", None, "index"),
        ("2025-02-30-my-post.md", None, "2025-02-30-my-post"),
        ("1851-03-04-my-post.md", "1851-03-04", "my-post"),
        ("20250304 My post.md", "2025-03-04", "20250304 My post"),
        ("202503041030 My post.md", "2025-03-04", "202503041030 My post"),
        ("2025_03_04_my-post.md", "2025-03-04", "2025_03_04_my-post"),
        ("My post 2025-03-04.md", "2025-03-04", "My post 2025-03-04"),
        ("My post (2025-03-04).md", "2025-03-04", "My post (2025-03-04)"),
        ("20251304-a.md", None, "20251304-a"),
        ("87650101-a.md", None, "87650101-a"),
        ("my-post-2025-02-30.md", None, "my-post-2025-02-30"),
        ("2025/03/04/my-post.md", "2025-03-04", "my-post"),
        ("blog/2025/03/04/deep/er/my-post.md", "2025-03-04", "my-post"),
        ("2025/03/04/my-post/index.md", "2025-03-04", "my-post"),
        ("2025-03-04/my-post.md", "2025-03-04", "my-post"),
        ("2024-01-01/2025/03/04/my-post.md", "2025-03-04", "my-post"),
        ("2025/03/04/2024-01-01-my-post.md", "2024-01-01", "my-post"),
        ("2025/13/04/my-post.md", None, "my-post"),
        ("2025/03/my-post.md", None, "my-post"),
    ],
)
def test_the_date_and_slug_of_a_file_name(uri: str, dated: str | None, slug: str) -> None:
    assert split_dated_name(uri) == (dated and datetime.fromisoformat(dated), slug)
