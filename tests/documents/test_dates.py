"""Dates of documents: the forms that are read, in UTC, and those that are refused."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.documents.dates import parse_date, split_dated_name


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2025-03-04", (2025, 3, 4)),
        (" 2025-3-4 ", (2025, 3, 4)),
        ("2025-03-04 10:30", (2025, 3, 4, 10, 30)),
        ("2025-03-04T10:30:15Z", (2025, 3, 4, 10, 30, 15)),
        ("2025-03-04t10:30:15.25+02:00", (2025, 3, 4, 8, 30, 15, 250_000)),
        ("2025-03-04 10:30:00 +0200", (2025, 3, 4, 8, 30)),
        ("2025-03-04 1:30:00 -5", (2025, 3, 4, 6, 30)),
        ("2025-03-04 23:30:00 -05:30", (2025, 3, 5, 5)),
        ("2025-03-04 10:30:15.1234567 UTC", (2025, 3, 4, 10, 30, 15, 123_456)),
    ],
)
def test_a_date_is_read_as_utc(text: str, moment: tuple[int, ...]) -> None:
    assert parse_date(text) == datetime(*moment, tzinfo=UTC)  # type: ignore[misc,arg-type]


@pytest.mark.parametrize(
    "text",
    ["", "soon", "2025", "2025-02-30", "2025-13-01", "2025-03-04T25:00", "2025-03-04 10:00 +99:00",
     "04/03/2025", "2025-03-04 10:00 CET", "0001-01-01T00:00+05:00", "٢٠٢٥-03-04", "2025-03-04x"],
)  # fmt: skip
def test_what_is_not_a_date_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_date(text)


offsets = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=offsets), st.sampled_from("T "))
def test_every_iso_moment_is_read(moment: datetime, separator: str) -> None:
    parsed = parse_date(moment.isoformat(separator))
    assert parsed == moment
    assert parsed.utcoffset() == timedelta()


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
    ],
)
def test_the_date_and_slug_of_a_file_name(uri: str, dated: str | None, slug: str) -> None:
    assert split_dated_name(uri) == (dated, slug)
