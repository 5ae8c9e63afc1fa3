from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from backstory.base.errors import InputError
from backstory.interfaces.original.chunking import chunk_markdown
from backstory.text.chunking.cut import Span, cut_chunks
from backstory.text.chunking.tokens import CountTokens, estimate_tokens
from tests.errors import raises
from tests.long_tests import some


@pytest.fixture(params=["estimate", "tokenizer"], scope="session")
def count_tokens(request: pytest.FixtureRequest, count_granite_tokens: CountTokens) -> CountTokens:
    return estimate_tokens if request.param == "estimate" else count_granite_tokens


def count_words(texts: Sequence[str]) -> NDArray[np.int64]:
    """One token a word, so that tests can be worked out by hand."""
    return np.array([len(text.split()) for text in texts], np.int64)


def cut(
    text: str, max_tokens: int, overlap_tokens: int = 0, count_tokens: CountTokens = count_words
) -> list[Span]:
    (spans,) = cut_chunks(
        [text], max_tokens=max_tokens, overlap_tokens=overlap_tokens, count_tokens=count_tokens
    )
    return spans


WORD = st.text(st.sampled_from("abcdeXYZ019_-/é語。😀\u0301"), min_size=1, max_size=12)
LINE = st.lists(
    st.one_of(WORD, st.sampled_from(["the", "meeting.", "Why?", "你好。再见！", "**bold**"])), max_size=25
).map(" ".join)
SPECIAL_LINE = st.sampled_from(
    [
        "",
        "  ",
        "\t",
        "# Heading",
        "## Deeper",
        "```",
        "```python",
        "~~~~",
        "    indented = 1",
        "Title\n=====",
        "\u3000",
    ]
)
LINE_END = st.sampled_from(["\n", "\n\n", "\r\n", "\r\n\r\n", "\r", "\n \n", "\u2028", "\n\n\n\n"])
MARKDOWN = st.lists(st.tuples(st.one_of(LINE, LINE, SPECIAL_LINE), LINE_END), max_size=30).map(
    lambda lines: "".join(line + end for line, end in lines)
)
TEXT = st.one_of(MARKDOWN, st.text(max_size=400))


def check_spans(
    text: str, spans: list[Span], max_tokens: int, overlap_tokens: int, count: CountTokens
) -> None:
    chunks = [text[span.start : span.end] for span in spans]
    assert [span.token_count for span in spans] == count(chunks).tolist()
    assert all(span.token_count <= max_tokens for span in spans)
    assert all(chunk.strip() for chunk in chunks)
    covered = 0
    for span in spans:
        assert not text[covered : max(covered, span.start)].strip(), "text is lost"
        assert span.end > covered, "a chunk adds nothing"
        covered = span.end
    assert not text[covered:].strip(), "the end is lost"
    for before, after in pairwise(spans):
        assert after.start > before.start, "a chunk holds the whole of the one before"
        if after.start < before.end:
            assert count([text[after.start : before.end]])[0] <= overlap_tokens


@settings(deadline=None, max_examples=some(80))
@given(texts=st.lists(TEXT, max_size=4), max_tokens=st.integers(12, 120), overlap_share=st.floats(0, 0.9))
def test_nothing_is_lost_and_nothing_is_over_the_ceiling(
    count_tokens: CountTokens, texts: list[str], max_tokens: int, overlap_share: float
) -> None:
    overlap_tokens = int(max_tokens * overlap_share)
    ceilings = [max_tokens + number for number in range(len(texts))]
    results = cut_chunks(texts, max_tokens=ceilings, overlap_tokens=overlap_tokens, count_tokens=count_tokens)
    assert len(results) == len(texts)
    for text, spans, ceiling in zip(texts, results, ceilings, strict=True):
        check_spans(text, spans, ceiling, overlap_tokens, count_tokens)
        alone = cut(text, ceiling, overlap_tokens, count_tokens)
        assert alone == spans, "a text is cut differently beside others"


@settings(deadline=None, max_examples=some(80))
@given(text=TEXT, max_tokens=st.integers(12, 60))
def test_slices_without_overlap_rejoin_to_the_source(text: str, max_tokens: int) -> None:
    rebuilt, position = "", 0
    for span in cut(text, max_tokens, 0, estimate_tokens):
        gap = text[position : span.start]
        assert not gap or gap.isspace()
        rebuilt += gap + text[span.start : span.end]
        position = span.end
    assert rebuilt + text[position:] == text
    assert not text[position:].strip()


@settings(deadline=None, max_examples=some(60))
@given(text=MARKDOWN, max_tokens=st.integers(20, 80), overlap_tokens=st.integers(0, 30))
def test_overlap_is_made_of_whole_units(text: str, max_tokens: int, overlap_tokens: int) -> None:
    spans = cut(text, max_tokens, min(overlap_tokens, max_tokens - 1), estimate_tokens)
    for before, after in pairwise(spans):
        if after.start < before.end:
            left, right = text[: after.start].split(), text[after.start :].split()
            word = left[-1] + right[0]
            is_cut = estimate_tokens([word])[0] > max_tokens
            assert text[after.start - 1].isspace() or left[-1][-1] in "。！？" or is_cut, word


def test_paragraphs_are_packed_up_to_the_ceiling() -> None:
    text = "one two three\n\nfour five\n\nsix seven eight\n\nnine ten"
    assert [text[s.start : s.end] for s in cut(text, 5)] == [
        "one two three\n\nfour five",
        "six seven eight\n\nnine ten",
    ]
    assert [s.token_count for s in cut(text, 5)] == [5, 5]
    assert len(cut(text, 10)) == 1


def test_separators_and_overlap_count_towards_the_ceiling() -> None:
    def count_characters(texts: Sequence[str]) -> NDArray[np.int64]:
        return np.array([len(text) for text in texts], np.int64)

    text = "aaaa\n\nbbbb\n\ncccc\n\ndddd"
    without = cut(text, 10, 0, count_characters)
    assert [(s.start, s.end) for s in without] == [(0, 10), (12, 22)]
    assert len(cut(text, 9, 0, count_characters)) == 4, "two paragraphs of 4 and a separator of 2 are 10"
    overlapping = cut(text, 16, 5, count_characters)
    assert [text[s.start : s.end] for s in overlapping] == ["aaaa\n\nbbbb\n\ncccc", "cccc\n\ndddd"]


def test_overlap_takes_whole_paragraphs_up_to_what_was_asked() -> None:
    paragraphs = [f"p{number} a b c" for number in range(12)]
    text = "\n\n".join(paragraphs)
    chunks = chunk_markdown(text, 20, 9, count_tokens=count_words)
    assert chunks[0] == "\n\n".join(paragraphs[:5])
    assert chunks[1].startswith("\n\n".join(paragraphs[3:5])), "8 of 9 words: two paragraphs of 4"
    assert not chunks[1].startswith(paragraphs[2])


@settings(deadline=None, max_examples=some(60))
@given(sizes=st.lists(st.integers(1, 6), min_size=2, max_size=60), overlap_tokens=st.integers(6, 12))
def test_overlap_is_as_large_as_was_asked(sizes: list[int], overlap_tokens: int) -> None:
    text = "\n\n".join(" ".join("w" * size) for size in sizes)
    bare = cut(text, 30 - overlap_tokens)
    spans = cut(text, 30, overlap_tokens)
    assert len(spans) <= len(bare)
    for before, after in pairwise(spans):
        overlap = text[after.start : before.end]
        assert 0 < count_words([overlap])[0] <= overlap_tokens
        skipped = text[before.start : after.start].split("\n\n")[-2]
        assert len(skipped.split()) + len(overlap.split()) > overlap_tokens, "one more paragraph would fit"


def test_overlap_falls_back_to_sentences_and_then_to_words() -> None:
    long_paragraph = "One two three four. Five six seven. Eight nine ten."
    text = f"{long_paragraph}\n\nlast one two three four five six"
    _, second = chunk_markdown(text, 12, 4, count_tokens=count_words)
    assert second.startswith("Eight nine ten.\n\nlast"), "one sentence of three words fits into four"
    _, second = chunk_markdown(text, 12, 2, count_tokens=count_words)
    assert second.startswith("nine ten.\n\nlast"), "no sentence fits, two words do"


def test_overlap_gives_way_to_a_paragraph_that_needs_the_room() -> None:
    text = "a b c d e\n\n" + " ".join("f" * 10) + "\n\ng h"
    spans = cut(text, 10, 3)
    assert [text[s.start : s.end] for s in spans[:2]] == ["a b c d e", " ".join("f" * 10)]
    assert text[spans[2].start : spans[2].end] == "f f f\n\ng h"


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r", "\u2028", "\x0c"])
def test_every_kind_of_line_end_ends_paragraphs(line_end: str) -> None:
    text = f"one two{line_end}three{line_end}{line_end}four five{line_end}  {line_end}six{line_end}"
    assert [text[s.start : s.end] for s in cut(text, 3)] == [
        f"one two{line_end}three",
        f"four five{line_end}  {line_end}six",
    ]
    assert [text[s.start : s.end] for s in cut(text, 2)][-2:] == ["four five", "six"]


@pytest.mark.parametrize("text", ["", " ", "\n\n", "\r\n \t\r\n", "\u3000\u2028", "\x0b\x1c"])
def test_whitespace_has_no_chunks(text: str) -> None:
    assert chunk_markdown(text) == []


def test_no_texts_have_no_chunks() -> None:
    assert cut_chunks([], max_tokens=10, overlap_tokens=0, count_tokens=estimate_tokens) == []


def test_a_long_paragraph_is_cut_at_sentences() -> None:
    text = 'He left at nine. "Why so early?" she asked! Nobody knew… The rest stayed.'
    assert chunk_markdown(text, 5, 0, count_tokens=count_words) == [
        "He left at nine.",
        '"Why so early?" she asked!',
        "Nobody knew… The rest stayed.",
    ]


def test_a_long_list_is_cut_at_lines() -> None:
    text = "- a b c\n- d e f\n- g h i"
    assert chunk_markdown(text, 8, 0, count_tokens=count_words) == ["- a b c\n- d e f", "- g h i"]


def test_chinese_is_cut_at_its_sentence_ends(count_granite_tokens: CountTokens) -> None:
    sentences = [
        "昨天我们在河边散步，看到很多人在钓鱼。",
        "老师说：“明天要下雨！”",
        "大家都不相信。",
        "结果真的下了一整天！",
    ]
    chunks = chunk_markdown("".join(sentences), 48, 0, count_tokens=count_granite_tokens)
    assert len(chunks) > 1
    assert "".join(chunks) == "".join(sentences)
    ends = {sum(map(len, sentences[: n + 1])) for n in range(len(sentences))}
    assert {sum(map(len, chunks[: n + 1])) for n in range(len(chunks))} <= ends


def test_a_long_sentence_is_cut_at_words() -> None:
    text = " ".join(f"w{number}" for number in range(23))
    chunks = chunk_markdown(text, 5, 0, count_tokens=count_words)
    assert [len(chunk.split()) for chunk in chunks] == [5, 5, 5, 5, 3]
    assert " ".join(chunks) == text


def test_a_long_word_is_cut_between_grapheme_clusters(count_tokens: CountTokens) -> None:
    clusters = ["👨‍👩‍👧", "e\u0301", "🇩🇪", "한", "x"] * 30
    spans = cut("".join(clusters), 40, 0, count_tokens)
    assert len(spans) > 3
    boundaries = {sum(map(len, clusters[:n])) for n in range(len(clusters) + 1)}
    assert {s.start for s in spans} | {s.end for s in spans} <= boundaries
    assert "".join("".join(clusters)[s.start : s.end] for s in spans) == "".join(clusters)


def test_chunks_of_a_long_word_are_well_filled(count_granite_tokens: CountTokens) -> None:
    text = "".join(f"{number * 2654435761 % 2**32:08x}" for number in range(1000))
    spans = cut(text, 512, 0, count_granite_tokens)
    assert min(s.token_count for s in spans[:-1]) > 400


def test_a_cluster_over_the_ceiling_is_cut_rather_than_lost() -> None:
    text = "a" + "\u0301" * 200
    spans = cut(text, 40, 0, estimate_tokens)
    assert "".join(text[s.start : s.end] for s in spans) == text


def test_a_ceiling_below_one_character_is_an_error() -> None:
    with raises(InputError, "no_room", "max_tokens"):
        chunk_markdown("😀", 4, 0)


@pytest.mark.parametrize(("limits", "name"), [((0, 0), "max_tokens"), ((5, -1), "overlap_tokens")])
def test_contradicting_limits_are_errors(limits: tuple[int, int], name: str) -> None:
    with raises(InputError, "out_of_range", name):
        chunk_markdown("text", *limits)
    with raises(InputError, "wrong_count", "max_tokens"):
        cut_chunks(["a", "b"], max_tokens=[5], overlap_tokens=0, count_tokens=count_words)


def test_fenced_code_stays_one_piece_where_it_fits() -> None:
    code = "```python\na = 1\n\n\nb = 2\n# not a heading\n```"
    text = f"Intro words here:\n{code}\nAfter it.\n\n# Heading"
    chunks = chunk_markdown(text, 12, 0, count_tokens=count_words)
    assert code in chunks
    cut_code = chunk_markdown(text, 6, 0, count_tokens=count_words)
    assert all(len(chunk.split()) <= 6 for chunk in cut_code)
    assert "".join("".join(cut_code).split()) == "".join(text.split())


@pytest.mark.parametrize(
    ("opening", "inner", "closing"),
    [("```", "~~~", "````"), ("~~~~", "~~~", "~~~~"), ("```", "``` x", "```")],
)
def test_only_a_matching_fence_closes_code(opening: str, inner: str, closing: str) -> None:
    text = f"{opening}\none\n{inner}\n\n# no heading\n{closing}\n\n# real\n\nend"
    spans = cut(text, int(count_words([text.split("\n\n# real")[0]])[0]))
    assert text[spans[0].start : spans[0].end] == text.split("\n\n# real")[0]
    assert [s.heading for s in spans] == ["", "real"]


def test_headings_lead_to_the_start_of_a_chunk() -> None:
    text = """Before.

# Guide ##

Intro one two.

### Deep   one

Text one two.

## Part B
Text one two.

    # indented code

Other title
===========

Last one two."""
    spans = cut(text, 10, 0, lambda texts: np.array([50 if "\n\n" in part else 10 for part in texts]))
    headings = {text[s.start : s.end].split("\n")[0]: s.heading for s in spans}
    assert headings["Before."] == ""
    assert headings["# Guide ##"] == "Guide"
    assert headings["Intro one two."] == "Guide"
    assert headings["Text one two."] == "Guide > Deep one"
    assert headings["## Part B"] == "Guide > Part B"
    assert headings["    # indented code"] == "Guide > Part B"
    assert headings["Last one two."] == "Other title"


def test_each_paragraph_is_counted_once_and_all_together() -> None:
    calls: list[list[str]] = []

    def count(texts: Sequence[str]) -> NDArray[np.int64]:
        calls.append(list(texts))
        return count_words(texts)

    texts = ["\n\n".join(f"t{n} p{m} a b c" for m in range(9)) for n in range(5)]
    cut_chunks(texts, max_tokens=23, overlap_tokens=6, count_tokens=count)
    counted = Counter(text for call in calls for text in call)
    paragraphs = [paragraph for text in texts for paragraph in text.split("\n\n")]
    assert set(paragraphs) <= set(calls[0])
    assert len(calls) == 2, "one call for the paragraphs, one for the finished chunks"
    overlaps = {paragraph for paragraph in paragraphs if counted[paragraph] > 1}
    assert overlaps <= {text.split("\n\n")[k] for text in texts for k in (3, 6, 7)}, (
        "counted again as overlap"
    )


@given(texts=st.lists(TEXT, max_size=4), max_tokens=st.integers(12, 60))
def test_a_counter_is_given_lists_of_texts(texts: list[str], max_tokens: int) -> None:
    def count(parts: Sequence[str]) -> NDArray[np.int64]:
        assert type(parts) is list, "tokenizers refuse other sequences"
        return estimate_tokens(parts)

    cut_chunks(texts, max_tokens=max_tokens, overlap_tokens=9, count_tokens=count)


def test_a_counter_that_is_not_additive_never_leads_over_the_ceiling() -> None:
    """Joining costs more than the parts, as if every line end were three tokens only in context."""

    def count(texts: Sequence[str]) -> NDArray[np.int64]:
        return np.array(
            [len(t.split()) + 3 * t.strip().count("\n") + 2 * (t.count(" ") > 3) for t in texts], np.int64
        )

    text = "\n\n".join("word " * (1 + n % 7) for n in range(60))
    check_spans(text, cut(text, 17, 5, count), 17, 5, count)


def test_long_runs_of_one_character_do_not_take_quadratic_time() -> None:
    for character in "a.\n #`=。":
        text = "x " + character * 60_000 + " y"
        spans = cut(text, 200, 20, estimate_tokens)
        check_spans(text, spans, 200, 20, estimate_tokens)
