"""Windows: nothing lost, none inside another, never over the size, stable ids."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from backstory.partitions import partition_keys
from backstory.schemas import Messages, Windows, conform, validate
from backstory.settings import WindowSettings
from backstory.windows import cut_windows

START = datetime(2025, 3, 4, 8, tzinfo=UTC)


def count_words(texts: Sequence[str]) -> NDArray[np.int64]:
    return np.array([len(text.split()) for text in texts], dtype=np.int64)


def conversation(messages: Sequence[tuple[int, int]], name: str = "c", kinds: Sequence[str] = ()) -> pl.DataFrame:
    """Make messages out of pairs: minutes after the start, and number of words."""
    minutes = sorted(minute for minute, _ in messages)
    frame = pl.DataFrame(
        {
            "message_id": [f"{name}{i}" for i in range(len(messages))],
            "conversation_id": [name] * len(messages),
            "timestamp": [START + timedelta(minutes=minute) for minute in minutes],
            "seq": list(range(len(messages))),
            "author": ["a"] * len(messages),
            "text": [" ".join(["word"] * words) for _, words in messages],
            "kind": list(kinds) or ["message"] * len(messages),
            "source": ["s"] * len(messages),
        },
        schema_overrides={"timestamp": pl.Datetime("us", "UTC")},
    )
    table = conform(frame, Messages)
    return table.with_columns(partition_keys(table["timestamp"], "day").alias("partition"))


def cut(messages: pl.DataFrame, settings: WindowSettings, partitions: Sequence[str] | None = None) -> pl.DataFrame:
    keys = partitions if partitions is not None else messages["partition"].unique().sort().to_list()
    windows = cut_windows(messages, settings, partitions=keys, grain="day", count_tokens=count_words)
    return validate(windows, Windows)


def ids(windows: pl.DataFrame) -> list[list[str]]:
    return windows["message_ids"].to_list()


TEN = conversation([(i, 1) for i in range(10)])


@pytest.mark.parametrize(
    ("size", "overlap", "expected"),
    [
        (4, 0, [(0, 4), (4, 8), (8, 10)]),
        (4, 1, [(0, 4), (3, 7), (6, 10)]),
        (4, 3, [(0, 4), (1, 5), (2, 6), (3, 7), (4, 8), (5, 9), (6, 10)]),
        (10, 9, [(0, 10)]),
        (100, 5, [(0, 10)]),
    ],
)
def test_windows_of_messages(size: int, overlap: int, expected: list[tuple[int, int]]) -> None:
    windows = cut(TEN, WindowSettings(unit="messages", size=size, overlap=overlap))
    assert ids(windows) == [[f"c{i}" for i in range(a, b)] for a, b in expected]


def test_windows_of_time_begin_with_a_message() -> None:
    windows = cut(conversation([(0, 1), (29, 1), (30, 1), (200, 1)]), WindowSettings(unit="minutes", size=30))
    assert ids(windows) == [["c0", "c1"], ["c2"], ["c3"]]
    hours = cut(conversation([(0, 1), (29, 1), (30, 1), (200, 1)]), WindowSettings(unit="hours", size=1))
    assert ids(hours) == [["c0", "c1", "c2"], ["c3"]]


def test_windows_of_tokens_and_bytes_stay_within_the_size() -> None:
    messages = conversation([(0, 3), (1, 3), (2, 9), (3, 1), (4, 1)])
    assert ids(cut(messages, WindowSettings(unit="tokens", size=6))) == [["c0", "c1"], ["c2"], ["c3", "c4"]]
    assert ids(cut(messages, WindowSettings(unit="bytes", size=28))) == [["c0", "c1"], ["c2"], ["c3", "c4"]]


def test_one_window_per_day() -> None:
    messages = conversation([(0, 1), (60, 1), (24 * 60, 1)])
    assert ids(cut(messages, WindowSettings(unit="day"))) == [["c0", "c1"], ["c2"]]


def test_overlap_is_read_from_the_day_before_and_only_from_there() -> None:
    messages = conversation([(0, 1), (1, 1), (2, 1), (24 * 60, 1), (4 * 24 * 60, 1)])
    windows = cut(messages, WindowSettings(unit="messages", size=5, overlap=2))
    assert ids(windows) == [["c0", "c1", "c2"], ["c1", "c2", "c3"], ["c4"]]
    assert windows["partition"].to_list() == ["2025-03-04", "2025-03-05", "2025-03-08"]


def test_a_day_alone_gives_the_same_windows_as_in_a_range() -> None:
    messages = conversation([(i * 180, 1 + i % 3) for i in range(40)])
    settings = WindowSettings(unit="tokens", size=7, overlap=3)
    whole = cut(messages, settings)
    days = messages["partition"].unique().sort().to_list()
    for before, day in pairwise(days):
        rows = messages.filter(pl.col("partition").is_in([before, day]))
        assert cut(rows, settings, [day]).equals(whole.filter(pl.col("partition") == day))


def test_system_lines_are_not_part_of_a_window() -> None:
    messages = conversation([(0, 1), (1, 1), (2, 1)], kinds=["system", "message", "media"])
    assert ids(cut(messages, WindowSettings())) == [["c1", "c2"]]


def test_conversations_are_cut_apart() -> None:
    both = pl.concat([TEN, conversation([(0, 1)], name="d")])
    windows = cut(both, WindowSettings(size=100))
    assert windows["conversation_id"].to_list() == ["c", "d"]


def test_no_messages_give_no_windows() -> None:
    assert cut(TEN.clear(), WindowSettings()).is_empty()
    assert cut(TEN, WindowSettings(), ["2030-01-01"]).is_empty()


units = st.sampled_from(["messages", "tokens", "bytes", "minutes", "hours", "day"])
random_messages = st.lists(st.tuples(st.integers(0, 3 * 24 * 60), st.integers(0, 12)), min_size=1, max_size=40)


@given(random_messages, units, st.integers(1, 20), st.integers(0, 19))
def test_windows_lose_nothing_and_none_holds_another(
    messages: list[tuple[int, int]], unit: str, size: int, overlap: int
) -> None:
    overlap = 0 if unit == "day" else min(overlap, size - 1)
    settings = WindowSettings.model_validate({"unit": unit, "size": size, "overlap": overlap})
    rows = conversation(messages)
    windows = cut(rows, settings)
    own = {key: set(part["message_id"]) for (key,), part in rows.partition_by("partition", as_dict=True).items()}
    words = dict(zip(rows["message_id"], count_words(rows["text"].to_list()), strict=True))
    for (partition,), part in windows.partition_by("partition", as_dict=True).items():
        assert set().union(*ids(part)) >= own[partition]
        for first, second in pairwise(ids(part)):
            assert not set(first) <= set(second)
            assert not set(second) <= set(first)
            assert set(second) - set(first)
    for row in windows.to_dicts():
        assert row["message_count"] == len(row["message_ids"])
        assert row["token_count"] == sum(words[message_id] for message_id in row["message_ids"])
        if unit == "messages":
            assert row["message_count"] <= size
        if unit == "tokens":
            assert row["token_count"] <= size or row["message_count"] == 1
    assert windows.equals(cut(rows.sample(fraction=1, shuffle=True, seed=1), settings))


@given(st.lists(st.integers(0, 3 * 24 * 60), min_size=1, max_size=40), st.integers(1, 6), st.integers(0, 5))
def test_no_window_holds_one_of_the_day_before(minutes: list[int], size: int, overlap: int) -> None:
    rows = conversation([(minute, 1) for minute in minutes])
    windows = ids(cut(rows, WindowSettings(size=size, overlap=min(overlap, size - 1))))
    for first, second in pairwise(windows):
        assert not set(first) <= set(second)
