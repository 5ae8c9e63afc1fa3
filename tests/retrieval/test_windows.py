"""Windows: nothing is lost, none contains another, none is over the size, and ids are stable."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from backstory.base.errors import InputError
from backstory.retrieval.windows import cut_windows
from backstory.settings.models import WindowSettings
from backstory.storage.tables.contracts import validate
from backstory.storage.tables.partitions import Grain, partition_keys, previous_partition
from backstory.storage.tables.schemas import Windows
from tests.builders.messages import make_messages
from tests.errors import raises

START = datetime(2025, 3, 4, 8, tzinfo=UTC)
DAY = 24 * 60
Message = tuple[int, int | None]
"""Minutes after the start, and the number of one-letter words, or None for media without a caption."""


def count_words(texts: Sequence[str]) -> NDArray[np.int64]:
    return np.array([len(text.split()) for text in texts], np.int64)


def converse(
    messages: Sequence[Message], name: str = "c", kinds: Sequence[str] = (), grain: Grain = "day"
) -> pl.DataFrame:
    """Make the messages of a conversation; their ids are its name and their place."""
    ordered = sorted(messages, key=lambda message: message[0])
    rows = [
        {
            "message_id": f"{name}{place}",
            "timestamp": START + timedelta(minutes=minute),
            "seq": place,
            "text": None if count is None else " ".join("w" * count),
            "kind": kinds[place] if kinds else "media" if count is None else "message",
        }
        for place, (minute, count) in enumerate(ordered)
    ]
    table = make_messages(rows, conversation_id=name, author="member-1")
    return table.with_columns(partition_keys(table, grain))


def cut(
    messages: pl.DataFrame,
    settings: WindowSettings,
    partitions: Sequence[str] | None = None,
    grain: Grain = "day",
) -> pl.DataFrame:
    keys = messages["partition"].unique().sort().to_list() if partitions is None else partitions
    windows = cut_windows(messages, settings, partitions=keys, grain=grain, count_tokens=count_words)
    return validate(windows, Windows)


def spans(windows: pl.DataFrame) -> list[tuple[int, int]]:
    """Give the places of the first and last message of each window, checking that it is a run."""
    found = []
    for ids in windows["message_ids"].to_list():
        places = [int(message_id[1:]) for message_id in ids]
        assert places == list(range(places[0], places[-1] + 1))
        found.append((places[0], places[-1]))
    return found


def settings_of(unit: str, size: int = 500, overlap: int = 0) -> WindowSettings:
    return WindowSettings.model_validate({"unit": unit, "size": size, "overlap": overlap})


@pytest.mark.parametrize(
    ("count", "size", "overlap", "expected"),
    [
        (10, 4, 0, [(0, 3), (4, 7), (8, 9)]),
        (10, 4, 1, [(0, 3), (3, 6), (6, 9)]),
        (11, 4, 1, [(0, 3), (3, 6), (6, 9), (9, 10)]),
        (6, 4, 3, [(0, 3), (1, 4), (2, 5)]),
        (10, 10, 9, [(0, 9)]),
        (10, 500, 50, [(0, 9)]),
        (3, 1, 0, [(0, 0), (1, 1), (2, 2)]),
    ],
)
def test_windows_of_messages(count: int, size: int, overlap: int, expected: list[tuple[int, int]]) -> None:
    messages = converse([(minute, 1) for minute in range(count)])
    assert spans(cut(messages, settings_of("messages", size, overlap))) == expected


@pytest.mark.parametrize(
    ("words", "size", "overlap", "expected"),
    [
        ([3, 3, 3, 1, 1], 6, 0, [(0, 1), (2, 4)]),
        ([3, 3, 9, 1, 1], 6, 0, [(0, 1), (2, 2), (3, 4)]),
        ([2, 2, 2, 2, 2], 6, 2, [(0, 2), (2, 4)]),
        ([2, 2, 2, 2, 2], 6, 3, [(0, 2), (2, 4)]),
        ([1, 1, 4, 5, 1], 6, 4, [(0, 2), (3, 4)]),
        ([1, 4, 1, 5, 1], 6, 5, [(0, 2), (2, 3), (3, 4)]),
        ([2, None, None, 9, None, 2], 3, 1, [(0, 2), (3, 3), (4, 5)]),
    ],
)
def test_windows_of_tokens(
    words: list[int | None], size: int, overlap: int, expected: list[tuple[int, int]]
) -> None:
    windows = cut(converse(list(enumerate(words))), settings_of("tokens", size, overlap))
    assert spans(windows) == expected
    counts = [sum(words[place] or 0 for place in range(a, b + 1)) for a, b in expected]
    assert windows["token_count"].to_list() == counts


def test_windows_of_bytes_count_utf8() -> None:
    messages = converse([(0, 1), (1, 1), (2, 1), (3, 1)]).with_columns(
        text=pl.Series(["日本", "abc", "abc", "é"])
    )
    assert spans(cut(messages, settings_of("bytes", 9))) == [(0, 1), (2, 3)]
    assert spans(cut(messages, settings_of("bytes", 5))) == [(0, 0), (1, 1), (2, 3)]


@pytest.mark.parametrize(
    ("moments", "size", "overlap", "expected"),
    [
        ([0, 29, 29, 30, 58, 59, 200], 30, 0, [(0, 2), (3, 5), (6, 6)]),
        ([0, 29, 29, 30, 58, 59, 200], 40, 10, [(0, 3), (1, 5), (6, 6)]),
        ([0, 29, 29, 30, 58, 59, 200], 30, 2, [(0, 2), (1, 4), (4, 5), (6, 6)]),
        ([5, 5, 5, 6], 1, 0, [(0, 2), (3, 3)]),
    ],
)
def test_windows_of_minutes_are_shorter_than_the_size(
    moments: list[int], size: int, overlap: int, expected: list[tuple[int, int]]
) -> None:
    messages = converse([(moment, 1) for moment in moments])
    assert spans(cut(messages, settings_of("minutes", size, overlap))) == expected


def test_windows_of_hours_begin_with_a_message() -> None:
    messages = converse([(30, 1), (89, 1), (90, 1), (149, 1), (150, 1)])
    assert spans(cut(messages, settings_of("hours", 1))) == [(0, 1), (2, 3), (4, 4)]
    assert spans(cut(messages, settings_of("hours", 2, 1))) == [(0, 3), (2, 4)]


@pytest.mark.parametrize("grain", ["day", "week", "month"])
def test_the_unit_day_makes_one_window_per_day_whatever_the_partition(grain: Grain) -> None:
    messages = converse([(0, 1), (60, 1), (DAY, 1), (2 * DAY, 1), (2 * DAY + 1, 1)], grain=grain)
    assert spans(cut(messages, settings_of("day"), grain=grain)) == [(0, 1), (2, 2), (3, 4)]


def test_overlap_is_read_from_the_partition_before_and_only_from_there() -> None:
    messages = converse([(0, 1), (1, 1), (2, 1), (DAY, 1), (4 * DAY, 1)])
    windows = cut(messages, settings_of("messages", 5, 2))
    assert spans(windows) == [(0, 2), (1, 3), (4, 4)]
    assert windows["partition"].to_list() == ["2025-03-04", "2025-03-05", "2025-03-08"]
    first = windows.row(1, named=True)
    assert (first["started_at"], first["ended_at"]) == (
        START + timedelta(minutes=1),
        START + timedelta(days=1),
    )
    assert (first["message_count"], first["token_count"]) == (3, 3)


def test_overlap_is_read_from_the_week_before() -> None:
    messages = converse([(0, 1), (1, 1), (7 * DAY, 1)], grain="week")
    assert spans(cut(messages, settings_of("messages", 5, 1), grain="week")) == [(0, 1), (1, 2)]


def test_overlap_of_hours_reaches_over_midnight() -> None:
    midnight = 16 * 60
    messages = converse([(midnight - 50, 1), (midnight - 10, 1), (midnight + 5, 1), (midnight + 70, 1)])
    assert spans(cut(messages, settings_of("minutes", 60, 30))) == [(0, 1), (1, 2), (3, 3)]


def test_overlap_never_repeats_a_whole_partition() -> None:
    messages = converse([(0, 1), (1, 1), (DAY, 1), (2 * DAY, 1)])
    assert spans(cut(messages, settings_of("messages", 9, 8))) == [(0, 1), (1, 2), (3, 3)]


def test_a_last_window_within_the_overlap_begins_earlier() -> None:
    messages = converse([(0, 2), (1, 2), (2, 2), (3, 4), (4, 1), (DAY, 1)])
    assert spans(cut(messages, settings_of("tokens", 10, 5))) == [(0, 3), (2, 4), (3, 5)]


def test_system_lines_are_in_no_window_and_media_are() -> None:
    messages = converse([(0, 1), (1, 1), (2, None)], kinds=["system", "message", "media"])
    assert spans(cut(messages, settings_of("messages"))) == [(1, 2)]


def test_conversations_are_cut_apart() -> None:
    messages = pl.concat([converse([(0, 1), (DAY, 1)], name="d"), converse([(0, 1), (1, 1), (DAY, 1)])])
    for unit in ("messages", "tokens", "bytes", "minutes", "hours", "day"):
        windows = cut(messages, settings_of(unit))
        assert windows.select("partition", "conversation_id").rows() == [
            ("2025-03-04", "c"),
            ("2025-03-04", "d"),
            ("2025-03-05", "c"),
            ("2025-03-05", "d"),
        ]


def test_no_messages_give_no_windows() -> None:
    messages = converse([(0, 1)])
    assert cut(messages.clear(), settings_of("tokens", 5, 2)).is_empty()
    assert cut(messages, settings_of("day"), []).is_empty()
    assert cut(messages, settings_of("minutes"), ["2030-01-01"]).is_empty()
    assert cut(converse([(0, 1)], kinds=["system"]), settings_of("messages")).is_empty()


def test_every_text_is_counted_once_in_one_batch() -> None:
    batches = []

    def count(texts: Sequence[str]) -> NDArray[np.int64]:
        batches.append(list(texts))
        return count_words(texts)

    messages = converse([(0, 1), (1, None), (2, 2), (DAY, 3), (DAY + 1, 4)])
    partitions = messages["partition"].unique().to_list()
    settings = settings_of("messages", 3, 2)
    cut_windows(messages, settings, partitions=partitions, grain="day", count_tokens=count)
    assert [sorted(batch, key=len) for batch in batches] == [["w", "w w", "w w w", "w w w w"]]


def test_partitions_of_another_grain_are_refused() -> None:
    messages = converse([(0, 1), (60, 1)], grain="week")
    with raises(InputError, "other_partition"):
        cut(messages, settings_of("messages"))
    with raises(InputError, "invalid_partition"):
        cut(messages, settings_of("messages"), ["soon"])


def test_the_id_names_messages_partition_and_form() -> None:
    messages = converse([(minute, 1) for minute in range(4)])
    settings = [
        settings_of("messages"),
        settings_of("messages", 9),
        settings_of("messages", 9, 1),
        settings_of("day"),
    ]
    others = [messages, messages[:3], converse([(minute, 1) for minute in range(4)], name="d")]
    ids = [cut(messages, choice)["window_id"][0] for choice in settings]
    ids += [cut(other, settings[0])["window_id"][0] for other in others[1:]]
    assert len(set(ids)) == len(ids)
    assert cut(messages, settings_of("day", 7))["window_id"][0] == ids[3]


units = st.sampled_from(["messages", "tokens", "bytes", "minutes", "hours", "day"])
# Minutes in clusters, so that partitions hold few or many messages and moments repeat.
moments = st.builds(
    lambda day, minute: day * DAY + minute, st.integers(0, 3), st.integers(0, 90) | st.integers(0, DAY)
)
conversations = st.lists(st.tuples(moments, st.none() | st.integers(0, 14)), min_size=1, max_size=40)


@st.composite
def any_settings(draw: st.DrawFn) -> WindowSettings:
    unit, size = draw(units), draw(st.integers(1, 24))
    return settings_of(unit, size, 0 if unit == "day" else draw(st.integers(0, size - 1)))


def amount(rows: pl.DataFrame, unit: str) -> int:
    """Measure a run of messages independently of how it was cut."""
    if unit == "messages":
        return len(rows)
    if unit in ("tokens", "bytes"):
        texts = rows["text"].drop_nulls().to_list()
        return sum(len(text.split()) if unit == "tokens" else len(text.encode()) for text in texts)
    moments = rows["timestamp"].to_list()
    span: timedelta = max(moments) - min(moments)
    return span // timedelta(**{unit: 1})


@hypothesis_settings(deadline=None)
@given(conversations, any_settings())
def test_every_message_is_in_a_window_of_its_partition_and_no_window_contains_another(
    messages: list[Message], settings: WindowSettings
) -> None:
    rows = converse(messages)
    windows = cut(rows, settings)
    sets = [set(ids) for ids in windows["message_ids"].to_list()]
    for one, other in pairwise(sets):
        assert other - one
        assert one - other
    bounds = spans(windows)
    assert all(a < c and b < d for (a, b), (c, d) in pairwise(bounds))  # hence none contains any other
    partition_of = dict(rows.select("message_id", "partition").rows())
    own: dict[str, set[str]] = {key: set() for key in partition_of.values()}
    for key, ids in zip(windows["partition"], sets, strict=True):
        assert {partition_of[message_id] for message_id in ids} <= {key, previous_partition(key, "day")}
        own[key] |= {message_id for message_id in ids if partition_of[message_id] == key}
    assert set.union(*own.values()) == set(partition_of)


@hypothesis_settings(deadline=None)
@given(conversations, any_settings())
def test_no_window_is_over_the_size_and_every_row_describes_its_messages(
    messages: list[Message], settings: WindowSettings
) -> None:
    rows = converse(messages)
    for window in cut(rows, settings).iter_rows(named=True):
        held = rows.filter(pl.col("message_id").is_in(window["message_ids"]))
        assert window["message_count"] == len(held) == len(window["message_ids"])
        assert window["token_count"] == amount(held, "tokens")
        assert (window["started_at"], window["ended_at"]) == (
            held["timestamp"].min(),
            held["timestamp"].max(),
        )
        if settings.unit in ("minutes", "hours"):
            assert amount(held, settings.unit) < settings.size
        elif settings.unit != "day" and len(held) > 1:
            assert amount(held, settings.unit) <= settings.size


@hypothesis_settings(deadline=None)
@given(conversations, any_settings())
def test_a_window_begins_with_as_much_overlap_as_fits(
    messages: list[Message], settings: WindowSettings
) -> None:
    rows = converse(messages)
    windows = cut(rows, settings)
    fits = dict(zip(rows["message_id"], range(len(rows)), strict=True))
    for (key,), part in windows.group_by("partition", maintain_order=True):
        bounds = spans(part)
        for number, ((_, end), (start, _)) in enumerate(pairwise(bounds), 1):
            overlap = rows[start : end + 1]
            if not settings.overlap:
                assert overlap.is_empty()
            elif settings.unit == "messages":
                assert len(overlap) == settings.overlap
            elif number < len(bounds) - 1 and len(overlap):
                assert amount(overlap, settings.unit) <= settings.overlap
            if settings.overlap and start > 0 and settings.unit in ("tokens", "bytes"):
                longer = rows[start - 1 : end + 1]
                beside = rows[start - 1 : end + 2]
                assert (
                    amount(longer, settings.unit) > settings.overlap
                    or amount(beside, settings.unit) > settings.size
                )
        assert fits[rows.filter(pl.col("partition") == key)["message_id"][-1]] == bounds[-1][1]


@hypothesis_settings(deadline=None)
@given(conversations, any_settings(), st.randoms(use_true_random=False))
def test_windows_depend_on_nothing_but_the_partition_and_the_one_before(
    messages: list[Message], settings: WindowSettings, random: np.random.Generator
) -> None:
    rows = converse(messages)
    whole = cut(rows, settings)
    shuffled = rows[sorted(range(len(rows)), key=lambda _: random.random())]
    assert cut(shuffled, settings).equals(whole)
    for key in rows["partition"].unique():
        near = rows.filter(pl.col("partition").is_in([key, previous_partition(key, "day")]))
        alone = cut(near, settings, [key])
        assert alone.equals(whole.filter(pl.col("partition") == key))


def test_windows_of_two_conversations_do_not_depend_on_each_other() -> None:
    here = converse([(minute * 7, minute % 5) for minute in range(300)])
    there = converse([(minute * 11, minute % 3) for minute in range(200)], name="d")
    for unit in ("messages", "tokens", "bytes", "minutes", "hours"):
        settings = settings_of(unit, 9, 4)
        both = cut(pl.concat([there, here]), settings)
        apart = pl.concat([cut(here, settings), cut(there, settings)])
        assert both.equals(apart.sort("partition", "conversation_id", maintain_order=True))
