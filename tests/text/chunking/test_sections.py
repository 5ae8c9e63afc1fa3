"""Pages that list short answers: each section is a chunk of its own."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from backstory.text.chunking.cut import Span, cut_chunks
from backstory.text.chunking.sections import cut_sections
from backstory.text.chunking.tokens import estimate_tokens

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

ARTICLE = "\n\n".join(
    f"## Step {number}\n\n" + "We sawed the boards and glued them. " * 12 for number in range(5)
)


def cut(text: str) -> list[Span]:
    [spans] = cut_sections([text], max_tokens=[200], overlap_tokens=20, count_tokens=estimate_tokens)
    return spans


def test_each_answer_of_a_list_is_a_chunk() -> None:
    assert [RUNBOOK[span.start : span.end].splitlines()[0] for span in cut(RUNBOOK)] == [
        "# Commands that we forget", "## Undo a release", "## Storage", "## Somebody left the team",
    ]  # fmt: skip


def test_a_chunk_of_a_list_knows_the_headings_above_it() -> None:
    assert [span.heading for span in cut(RUNBOOK)] == [
        "Commands that we forget",
        "Commands that we forget > Undo a release",
        "Commands that we forget > Storage",
        "Commands that we forget > Somebody left the team",
    ]


def test_the_sections_of_an_article_stay_together() -> None:
    [expected] = cut_chunks([ARTICLE], max_tokens=200, overlap_tokens=20, count_tokens=estimate_tokens)
    assert cut(ARTICLE) == expected


def test_texts_of_both_kinds_are_cut_in_one_call() -> None:
    texts = [ARTICLE, RUNBOOK, "", RUNBOOK]
    together = cut_sections(texts, max_tokens=[200] * 4, overlap_tokens=20, count_tokens=estimate_tokens)
    assert together == [cut(text) for text in texts]


lines = st.sampled_from(
    ["# A", "## B b", "### C", "", "short", "a longer line of words", "Head\n===", "```\n# x\n```"]
)


@given(st.lists(lines, max_size=30).map("\n".join))
def test_the_chunks_hold_everything_but_whitespace_between_them(text: str) -> None:
    spans = cut(text)
    ends = [0, *(span.end for span in spans)]
    starts = [*(span.start for span in spans), len(text)]
    assert all(not text[end:start].strip() for end, start in zip(ends, starts, strict=True))
    assert all(before.start < after.start for before, after in pairwise(spans))
