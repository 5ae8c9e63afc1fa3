from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from backstory.base.errors import InputError
from backstory.interfaces.original.chunking import chunk_markdown
from backstory.models.embeddings.hashing import HashingEmbedder
from backstory.settings.inputs import ChunkerName
from backstory.text.chunking.cut import cut_chunks
from backstory.text.chunking.units import ESTIMATED_TOKENS, TokenCounter, estimate_tokens
from tests.errors import raises
from tests.long_tests import some
from tests.text.chunking.cutting import check_spans, cut, cut_by, list_overlaps, show
from tests.token_counters import WORDS, PatternCounter


def count_oddly(texts: Sequence[str]) -> NDArray[np.int64]:
    """Joining costs more than the parts, as if every line end were three tokens only in context."""
    return np.array(
        [len(t.split()) + 3 * t.strip().count("\n") + 2 * (t.count(" ") > 3) for t in texts], np.int64
    )


@pytest.fixture(params=["estimate", "tokenizer", "hashing", "odd"], scope="session")
def counter(request: pytest.FixtureRequest, granite_tokens: TokenCounter) -> TokenCounter:
    counters = {
        "estimate": ESTIMATED_TOKENS,
        "tokenizer": granite_tokens,
        "hashing": HashingEmbedder(),
        "odd": PatternCounter(count=count_oddly),
    }
    return counters[request.param]


WORD = st.text(st.sampled_from("abcdeXYZ019_-/é語。😀\u0301"), min_size=1, max_size=12)
LINE = st.lists(
    st.one_of(WORD, st.sampled_from(["the", "meeting.", "Why?", "你好。再见！", "**bold**"])), max_size=25
).map(" ".join)
SPECIAL_LINE = st.sampled_from(
    ["", "  ", "\t", "# Heading", "## Deeper", "```", "```python", "~~~~", "    indented = 1", "Title\n=====", "\u3000"]
)  # fmt: skip
LINE_END = st.sampled_from(["\n", "\n\n", "\r\n", "\r\n\r\n", "\r", "\n \n", "\u2028", "\n\n\n\n"])
MARKDOWN = st.lists(st.tuples(st.one_of(LINE, LINE, SPECIAL_LINE), LINE_END), max_size=30).map(
    lambda lines: "".join(line + end for line, end in lines)
)
TEXT = st.one_of(MARKDOWN, st.text(max_size=400))


@settings(deadline=None, max_examples=some(80))
@given(texts=st.lists(TEXT, max_size=4), max_tokens=st.integers(12, 120), overlap_share=st.floats(0, 0.9))
def test_nothing_is_lost_and_nothing_is_over_the_ceiling(
    counter: TokenCounter, texts: list[str], max_tokens: int, overlap_share: float
) -> None:
    overlap_tokens = int(max_tokens * overlap_share)
    results = cut_chunks(texts, max_tokens=max_tokens, overlap_tokens=overlap_tokens, counter=counter)
    assert len(results) == len(texts)
    for text, spans in zip(texts, results, strict=True):
        check_spans(text, spans, max_tokens, counter)
        assert cut(text, max_tokens, overlap_tokens, counter) == spans, (
            "a text is cut differently beside others"
        )
        if counter is ESTIMATED_TOKENS:
            counts = counter.count_tokens([*show(text, spans), ""])[:-1]
            assert (
                np.abs(np.array([span.token_count for span in spans], np.int64) - counts).max(initial=0) <= 1
            )
        around = counter.count_tokens([""])[0]
        overlaps = [*list_overlaps(text, spans)]
        if overlaps and not isinstance(counter, PatternCounter):
            assert (counter.count_tokens(overlaps) - around <= overlap_tokens).all()


@settings(deadline=None, max_examples=some(25))
@given(
    text=TEXT,
    title=st.one_of(st.text(max_size=20), st.text("xQ7語 ", min_size=40, max_size=200)),
    max_tokens=st.integers(130, 200),
    overlap_tokens=st.integers(0, 100),
)
@pytest.mark.parametrize("chunker", get_args(ChunkerName))
def test_the_laws_hold_for_every_chunker_with_a_title(
    chunker: ChunkerName, text: str, title: str, max_tokens: int, overlap_tokens: int
) -> None:
    spans = cut_by(
        chunker, text, ESTIMATED_TOKENS, title=title, max_tokens=max_tokens, overlap_tokens=overlap_tokens
    )
    check_spans(text, spans, max_tokens, ESTIMATED_TOKENS, title)
    if chunker not in ("markdown", "page", "sentence", "character"):
        assert not [*list_overlaps(text, spans)], "rows and code are repeated"


@settings(deadline=None, max_examples=some(60))
@given(text=MARKDOWN, max_tokens=st.integers(20, 80), overlap_tokens=st.integers(0, 30))
def test_overlap_is_made_of_whole_units(text: str, max_tokens: int, overlap_tokens: int) -> None:
    spans = cut(text, max_tokens, min(overlap_tokens, max_tokens - 1), ESTIMATED_TOKENS)
    for before, after in pairwise(spans):
        if after.start < before.end:
            left, right = text[: after.start].split(), text[after.start :].split()
            word = left[-1] + right[0]
            is_cut = estimate_tokens([word])[0] > max_tokens
            assert text[after.start - 1].isspace() or left[-1][-1] in "。！？" or is_cut, word


SENTENCES = "One two three four. Five six seven. Eight nine ten."


@pytest.mark.parametrize(
    ("text", "limits", "chunks"),
    [
        ("one two three\n\nfour five\n\nsix seven eight\n\nnine ten", (5, 0),
         ["one two three\n\nfour five", "six seven eight\n\nnine ten"]),
        ("a b\n\nc d\n\ne f\n\ng h", (6, 2), ["a b\n\nc d\n\ne f", "e f\n\ng h"]),
        ("One two three. Five six. Eight nine ten.\n\nlast one two three", (12, 4),
         ["One two three. Five six. Eight nine ten.\n\nlast one two three"]),
        (f"{SENTENCES}\n\nlast one two three four five", (12, 4),
         [SENTENCES, "Eight nine ten.\n\nlast one two three four five"]),
        (f"{SENTENCES}\n\nlast one two three four five", (12, 2),
         [SENTENCES, "nine ten.\n\nlast one two three four five"]),
        ("a b c d e\n\nf f f f f f f f f f\n\ng h", (10, 3), ["a b c d e", "f f f f f f f f f f", "f f f\n\ng h"]),
        ('He left at nine. "Why so early?" she asked! Nobody knew… The rest stayed.', (5, 0),
         ["He left at nine.", '"Why so early?" she asked!', "Nobody knew… The rest stayed."]),
        ("- a b c\n- d e f\n- g h i", (8, 0), ["- a b c\n- d e f", "- g h i"]),
        ("a b c d e f g h", (5, 0), ["a b c d e", "f g h"]),
        ("Intro:\n```python\na = 1\n\n\nb = 2\n# no heading\n```\nAfter it.\n\n# Heading", (11, 0),
         ["Intro:", "```python\na = 1\n\n\nb = 2\n# no heading\n```", "After it.\n\n# Heading"]),
        ("\r\n \t\r\n\u3000\u2028\x0b\x1c", (5, 0), []),
    ],
)  # fmt: skip
def test_where_texts_are_cut(text: str, limits: tuple[int, int], chunks: list[str]) -> None:
    assert chunk_markdown(text, *limits, counter=WORDS) == chunks


@settings(deadline=None, max_examples=some(60))
@given(sizes=st.lists(st.integers(1, 6), min_size=2, max_size=60), overlap_tokens=st.integers(6, 12))
def test_overlap_is_as_large_as_was_asked(sizes: list[int], overlap_tokens: int) -> None:
    text = "\n\n".join(" ".join("w" * size) for size in sizes)
    bare = cut(text, 30 - overlap_tokens)
    spans = cut(text, 30, overlap_tokens)
    assert len(spans) <= len(bare)
    for before, after in pairwise(spans):
        overlap = text[after.start : before.end]
        assert 0 < len(overlap.split()) <= overlap_tokens
        skipped = text[before.start : after.start].split("\n\n")[-2]
        assert len(skipped.split()) + len(overlap.split()) > overlap_tokens, "one more paragraph would fit"


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r", "\u2028", "\x0c"])
def test_every_kind_of_line_end_ends_paragraphs(line_end: str) -> None:
    text = f"one two{line_end}three{line_end}{line_end}four five{line_end}  {line_end}six{line_end}"
    assert [text[s.start : s.end] for s in cut(text, 3)] == [
        f"one two{line_end}three",
        f"four five{line_end}  {line_end}six",
    ]
    assert [text[s.start : s.end] for s in cut(text, 2)][-2:] == ["four five", "six"]


def test_chinese_is_cut_at_its_sentence_ends(granite_tokens: TokenCounter) -> None:
    sentences = [
        "昨天我们在河边散步，看到很多人在钓鱼。",
        "老师说：“明天要下雨！”",
        "大家都不相信。",
        "结果真的下了一整天！",
    ]
    chunks = chunk_markdown("".join(sentences), 48, 0, counter=granite_tokens)
    assert len(chunks) > 1
    assert "".join(chunks) == "".join(sentences)
    ends = {sum(map(len, sentences[: n + 1])) for n in range(len(sentences))}
    assert {sum(map(len, chunks[: n + 1])) for n in range(len(chunks))} <= ends


def test_a_long_word_is_cut_between_grapheme_clusters(granite_tokens: TokenCounter) -> None:
    clusters = ["👨‍👩‍👧", "e\u0301", "🇩🇪", "한", "x"] * 30
    spans = cut("".join(clusters), 40, 0, granite_tokens)
    assert len(spans) > 3
    boundaries = {sum(map(len, clusters[:n])) for n in range(len(clusters) + 1)}
    assert {s.start for s in spans} | {s.end for s in spans} <= boundaries
    assert "".join("".join(clusters)[s.start : s.end] for s in spans) == "".join(clusters)


def test_chunks_of_a_long_word_are_well_filled(granite_tokens: TokenCounter) -> None:
    text = "".join(f"{number * 2654435761 % 2**32:08x}" for number in range(1000))
    spans = cut(text, 512, 0, granite_tokens)
    assert min(s.token_count for s in spans[:-1]) > 400


def test_a_cluster_over_the_ceiling_is_cut_rather_than_lost() -> None:
    text = "a" + "\u0301" * 200
    spans = cut(text, 40, 0, ESTIMATED_TOKENS)
    assert "".join(text[s.start : s.end] for s in spans) == text


@pytest.mark.parametrize(
    ("text", "limits", "code"),
    [("😀", (4, 0), "no_room"), ("text", (0, 0), "out_of_range"), ("text", (5, -1), "out_of_range")],
)
def test_limits_that_no_chunk_can_keep_are_errors(text: str, limits: tuple[int, int], code: str) -> None:
    with raises(InputError, code, "max_tokens"):
        chunk_markdown(text, *limits)


RUNBOOK = """\
# Commands that we forget

## The queue does not drain

Restart the workers.

## Undo a release

Run `kubectl rollout undo deploy/api`.

## Storage

### The disk is full

Drop the oldest partition.

## Somebody left the team

Remove the key from the vault.
"""


def test_each_answer_of_a_list_is_a_chunk_that_knows_the_headings_above_it() -> None:
    spans = cut_by("markdown", RUNBOOK, ESTIMATED_TOKENS)
    assert [
        (chunk.splitlines()[0], span.heading) for chunk, span in zip(show(RUNBOOK, spans), spans, strict=True)
    ] == [
        ("# Commands that we forget", "Commands that we forget"),
        ("## Undo a release", "Commands that we forget > Undo a release"),
        ("## Storage", "Commands that we forget > Storage"),
        ("## Somebody left the team", "Commands that we forget > Somebody left the team"),
    ]


def test_the_sections_of_an_article_stay_together() -> None:
    step = "We sawed the boards and glued them. " * 12
    article = "\n\n".join(f"## Step {number}\n\n{step}" for number in range(5))
    assert len(cut_by("markdown", article, ESTIMATED_TOKENS)) < 5


def test_rows_are_packed_whole_and_the_header_stands_above_each_chunk() -> None:
    rows = [f"{number} " + "w " * (number % 5) for number in range(40)]
    text = "\n".join(["a b", *rows, "", "one " * 30])
    spans = cut_by("rows", text, max_tokens=16)
    assert {span.heading for span in spans} == {"a b"}
    chunks = show(text, spans)
    lines = [line for chunk in chunks[:-3] for line in chunk.split("\n")]
    assert lines == ["a b", *rows], "each row is whole, and in one chunk"
    assert all(len(chunk.split()) <= 14 for chunk in chunks)


def test_a_chunk_of_characters_has_no_more_of_them_than_tokens_allow() -> None:
    text = "Some words of prose. " * 40 + "X9" * 60
    spans = cut_by("character", text, ESTIMATED_TOKENS, max_tokens=60)
    assert max(span.end - span.start for span in spans) <= 100
    assert [*list_overlaps(text, spans)]
    check_spans(text, spans, 60, ESTIMATED_TOKENS)


@pytest.mark.parametrize("unit", ["word ", "a\n", "A few words. "])
def test_chunks_of_many_units_are_well_filled(unit: str) -> None:
    spans = cut(unit * 5000, 100, 0, HashingEmbedder())
    assert min(span.token_count for span in spans[:-1]) > 90
