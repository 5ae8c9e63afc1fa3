from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from backstory.base.errors import ContractError
from backstory.retrieval.query_chunks import cut_window_chunks
from backstory.settings.models import QuerySettings
from backstory.storage.tables import schemas
from backstory.storage.tables.contracts import empty, validate
from backstory.text.chunking.units import ESTIMATED_TOKENS, TokenCounter
from tests.builders.messages import make_messages
from tests.builders.windows import make_windows
from tests.errors import raises
from tests.long_tests import some
from tests.token_counters import CHARACTERS, WORDS, PatternCounter

Message = tuple[str | None, str]
Window = list[Message]


def count_jealously(texts: Sequence[str]) -> NDArray[np.int64]:
    """Count words, and three for each blank line of a kind that a probe with another letter does not see."""
    return np.asarray([len(text.split()) + 3 * text.count("w\n\nw") for text in texts], np.int64)


JEALOUS: TokenCounter = PatternCounter(count=count_jealously)
COUNTERS: list[TokenCounter] = [WORDS, CHARACTERS, JEALOUS, ESTIMATED_TOKENS]


def make_tables(windows: Sequence[Window]) -> tuple[pl.DataFrame, pl.DataFrame]:
    messages = [
        {"message_id": f"{number}/{position}", "seq": position, "text": text, "kind": kind}
        for number, window in enumerate(windows)
        for position, (text, kind) in enumerate(window)
    ]
    rows = [
        {
            "window_id": f"window-{number}",
            "message_count": len(window),
            "message_ids": [f"{number}/{position}" for position in range(len(window))],
        }
        for number, window in enumerate(windows)
    ]
    return make_windows(rows), make_messages(messages)


def cut(
    windows: Sequence[Window],
    *granularities: int,
    max_tokens: int = 100,
    counter: TokenCounter = WORDS,
) -> pl.DataFrame:
    settings = QuerySettings(min_tokens=0, granularities=granularities)
    chunks = cut_window_chunks(*make_tables(windows), settings, max_tokens=max_tokens, counter=counter)
    assert chunks.schema == schemas.WindowChunks.schema
    return chunks


def spans(chunks: pl.DataFrame, granularity: str) -> list[tuple[int, int]]:
    return chunks.filter(granularity=granularity).select("first_message", "last_message").rows()


def say(*texts: str | None) -> Window:
    return [(text, "message") for text in texts]


def test_runs_of_messages_at_each_granularity() -> None:
    chunks = cut([say("a b", "c", "d", "e", "f")], 1, 2, 0)
    assert chunks.select("granularity", "chunk_index", "text", "token_count").rows() == [
        ("messages:1", 0, "a b", 2),
        ("messages:1", 1, "c", 1),
        ("messages:1", 2, "d", 1),
        ("messages:1", 3, "e", 1),
        ("messages:1", 4, "f", 1),
        ("messages:2", 0, "a b\n\nc", 3),
        ("messages:2", 1, "d\n\ne", 2),
        ("messages:2", 2, "f", 1),
        ("packed", 0, "a b\n\nc\n\nd\n\ne\n\nf", 6),
    ]
    assert spans(chunks, "messages:2") == [(0, 1), (2, 3), (4, 4)]
    validate(chunks, schemas.WindowChunks)


def test_only_messages_with_text_are_asked_with_and_positions_stay() -> None:
    window: Window = [
        ("Ana joined", "system"),
        ("first", "message"),
        (None, "message"),
        (" \n\u200e", "message"),
        ("a caption", "media"),
        (None, "media"),
        ("last", "message"),
    ]
    chunks = cut([window], 1, 2)
    assert chunks["text"].to_list() == ["first", "a caption", "last", "first\n\na caption", "last"]
    assert spans(chunks, "messages:2") == [(1, 4), (6, 6)]


def test_a_run_is_closed_before_it_would_pass_the_ceiling() -> None:
    chunks = cut([say("a b c", "d e", "f", "g h i j", "k")], 3, max_tokens=5)
    assert chunks["text"].to_list() == ["a b c\n\nd e", "f\n\ng h i j", "k"]


def test_only_a_message_over_the_ceiling_is_cut_and_stands_alone() -> None:
    long = "one two three four. five six seven eight. nine"
    chunks = cut([say("before", long, "after", "end")], 4, 0, max_tokens=4)
    assert chunks["granularity"].unique().to_list() == ["messages:4"]
    assert chunks["text"].to_list() == [
        "before",
        "one two three four.",
        "five six seven eight.",
        "nine",
        "after\n\nend",
    ]
    assert spans(chunks, "messages:4") == [(0, 0), (1, 1), (1, 1), (1, 1), (2, 3)]


def test_a_joined_text_that_counts_more_than_its_parts_is_halved() -> None:
    chunks = cut([say("w", "w", "w", "w")], 4, max_tokens=7, counter=JEALOUS)
    assert chunks.select("text", "token_count").rows() == [("w\n\nw", 5), ("w\n\nw", 5)]


def test_a_granularity_that_cuts_as_an_earlier_one_is_left_out() -> None:
    chunks = cut([say("alone"), say("a", "b"), say("a", "b", "c")], 1, 2, 6, 0)
    found = chunks.group_by("window_id", maintain_order=True).agg(
        pl.col("granularity").unique(maintain_order=True)
    )
    assert found.rows() == [
        ("window-0", ["messages:1"]),
        ("window-1", ["messages:1", "messages:2"]),
        ("window-2", ["messages:1", "messages:2", "messages:6"]),
    ]


def test_each_distinct_text_is_counted_once_in_one_batch() -> None:
    batches: list[list[str]] = []

    def record(texts: Sequence[str]) -> NDArray[np.int64]:
        batches.append(list(texts))
        return WORDS.count_tokens(texts)

    cut([say("hello", "hello", "bye"), say("hello", "again")], 1, 2, 0, counter=PatternCounter(count=record))
    (batch,) = batches
    assert sorted(text for text in batch if text.strip() and len(text) > 4) == ["again", "hello"]
    assert len(batch) == len(set(batch))


def test_windows_without_text_have_no_chunks() -> None:
    assert cut([[("Ana left", "system")], say(None)], 1, 0).is_empty()
    assert cut([], 1, 6, 0).is_empty()


def test_a_message_that_is_not_there_is_named() -> None:
    windows, messages = make_tables([say("a", "b")])
    with raises(ContractError, "unknown_message"):
        cut_window_chunks(windows, messages.head(1), QuerySettings(), max_tokens=10, counter=WORDS)
    with raises(ContractError, "duplicate"):
        cut_window_chunks(
            windows,
            pl.concat([messages, messages]),
            QuerySettings(),
            max_tokens=10,
            counter=WORDS,
        )


words = st.lists(st.sampled_from(["w", "word", "Straße", "日本", "🎉"]), max_size=9).map(" ".join)
generated_windows = st.lists(
    st.lists(
        st.tuples(st.none() | words, st.sampled_from(["message", "message", "media", "system"])), min_size=1
    ),
    max_size=4,
)


@settings(deadline=None, max_examples=some(60))
@given(
    generated_windows,
    st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True),
    st.integers(24, 60),
    st.sampled_from(COUNTERS),
)
def test_chunks_hold_every_message_whole_and_stay_below_the_ceiling(
    windows: list[Window], granularities: list[int], max_tokens: int, counter: TokenCounter
) -> None:
    chunks = cut(windows, *granularities, max_tokens=max_tokens, counter=counter)
    counts = counter.count_tokens(chunks["text"].to_list())
    assert (counts <= max_tokens).all()
    assert (chunks["token_count"] <= max_tokens).all()
    for number, window in enumerate(windows):
        texts = {
            i: text for i, (text, kind) in enumerate(window) if kind != "system" and text and text.strip()
        }
        whole = {i for i, text in texts.items() if counter.count_tokens([text])[0] <= max_tokens}
        cuts = chunks.filter(window_id=f"window-{number}").partition_by("granularity", maintain_order=True)
        assert bool(cuts) == bool(texts)
        for one in cuts:
            assert one["chunk_index"].to_list() == list(range(len(one)))
            size = int(one["granularity"][0].removeprefix("messages:").replace("packed", "0"))
            seen = []
            for first, last, text in one.select("first_message", "last_message", "text").iter_rows():
                members = [i for i in texts if first <= i <= last]
                seen += members
                assert not size or len(members) <= size
                if len(members) > 1 or members[0] in whole:
                    assert text == "\n\n".join(texts[i] for i in members)
                else:
                    assert text in texts[members[0]]
            assert list(dict.fromkeys(seen)) == list(texts)


@settings(deadline=None, max_examples=some(30))
@given(generated_windows, st.sampled_from(COUNTERS))
def test_a_window_is_cut_alike_alone_and_among_others(windows: list[Window], counter: TokenCounter) -> None:
    together = cut(windows, 1, 3, 0, max_tokens=30, counter=counter)
    tables = make_tables(windows)
    alone = [
        cut_window_chunks(
            tables[0][number],
            tables[1],
            QuerySettings(min_tokens=0, granularities=(1, 3, 0)),
            max_tokens=30,
            counter=counter,
        )
        for number in range(len(windows))
    ]
    assert together.equals(pl.concat([empty(schemas.WindowChunks), *alone]))


def test_a_real_tokenizer_stays_below_the_ceiling(shared_data: Path, granite_tokens: TokenCounter) -> None:
    spoken = pl.read_parquet(shared_data / "eval" / "optech" / "windows.parquet")
    windows = [say(*texts["message"]) for texts in spoken.partition_by("window_id", maintain_order=True)[:3]]
    chunks = cut(windows, 6, 0, max_tokens=128, counter=granite_tokens)
    counts = granite_tokens.count_tokens(chunks["text"].to_list())
    assert counts.max() <= 128
    packed = chunks["granularity"] == "packed"
    assert np.median(counts[packed.to_numpy()]) > 96


def cut_by_default(windows: Sequence[Window], min_tokens: int | None = None) -> pl.DataFrame:
    """Cut windows by an embedder whose runs have twelve words."""
    settings = QuerySettings(min_tokens=min_tokens)
    return cut_window_chunks(
        *make_tables(windows), settings, max_tokens=100, counter=WORDS, default_min_tokens=12
    )


def list_cuts(chunks: pl.DataFrame) -> list[list[tuple[str, int, int]]]:
    return [
        group.select("granularity", "first_message", "last_message").rows()
        for _, group in chunks.group_by("window_id", maintain_order=True)
    ]


def test_each_message_of_a_window_of_short_ones_is_a_part() -> None:
    short = say("the far bed is dry", "ok", "my sourdough is flat again", "who brings the games")
    long = say("one two three four five six seven eight nine ten eleven twelve", "ok", "a longer one " * 5)
    assert list_cuts(cut_by_default([short, long])) == [
        [("message", place, place) for place in range(4)],
        [("messages:1", 0, 0), ("messages:1", 1, 2)],
    ]


def test_a_stated_least_length_holds_for_short_messages_too() -> None:
    short = say("the far bed is dry", "ok", "my sourdough is flat again", "who brings the games")
    assert list_cuts(cut_by_default([short], min_tokens=12)) == [[("messages:1", 0, 3)]]


def test_one_message_is_one_part_and_long_windows_keep_their_runs() -> None:
    alone, many = say("the far bed is dry"), say(*["four words a message"] * 120)
    [one], runs = list_cuts(cut_by_default([alone, many]))
    assert one == ("messages:1", 0, 0)
    assert len(runs) == 40
    assert {granularity for granularity, _, _ in runs} == {"messages:1"}


def test_a_window_of_short_messages_is_cut_alike_beside_others() -> None:
    windows = [
        say("the far bed is dry", None, "ok"),
        say("twelve words " * 6, "ok", "thirteen words " * 6),
        say("oh " * 150, "yes", "no"),
    ]
    together = cut_by_default(windows)
    for number, window in enumerate(windows):
        mine = together.filter(window_id=f"window-{number}")
        alone = cut_by_default([window])
        assert mine["text"].to_list() == alone["text"].to_list()
        assert mine["granularity"].to_list() == alone["granularity"].to_list()
