"""Pages, lines, confidences and chunkers of stored chunks."""

from collections.abc import Sequence
from typing import get_args

import polars as pl
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from backstory.index.chunks import cut_document_chunks, embedding_texts
from backstory.settings.inputs import ChunkerName, ChunkSettings
from backstory.storage.tables.contracts import validate
from backstory.storage.tables.schemas import DocumentChunks
from backstory.text.chunking.code import CODE_LANGUAGES
from backstory.text.chunking.units import ESTIMATED_TOKENS, estimate_tokens
from tests.errors import refuses
from tests.index.test_chunks import document, documents
from tests.long_tests import some

OFFERED = [name for name in get_args(ChunkerName) if name not in CODE_LANGUAGES]
"""The chunkers that need no extra."""
PAGES = (
    "# Tomatoes\n\nThey want sun and water.\n",
    "Frost ends the season.\nPick the green ones before it.\n",
    "",
    "Green ones ripen in a drawer, beside an apple.",
)


def join_pages(pages: Sequence[str]) -> tuple[str, list[int]]:
    """Join pages to a text, and give the character at which each begins."""
    return "".join(pages), [sum(map(len, pages[:number])) for number in range(len(pages))]


def cut(
    pages: Sequence[str],
    chunker: ChunkerName,
    *,
    max_tokens: int = 512,
    confidences: Sequence[float | None] = (),
    title: str = "Garden",
    previous: pl.DataFrame | None = None,
    **sizes: int,
) -> pl.DataFrame:
    text, starts = join_pages(pages)
    row = document("a", text, title=title, page_starts=starts, confidences=confidences, chunker=chunker)
    sizes.setdefault("max_tokens", max_tokens)
    sizes.setdefault("overlap_tokens", 0)
    return validate(
        cut_document_chunks(
            documents(row),
            ChunkSettings.model_validate(sizes),
            max_tokens=max_tokens,
            counter=ESTIMATED_TOKENS,
            counter_id="estimate",
            previous=previous,
        ),
        DocumentChunks,
    )


def test_a_chunk_of_pages_holds_no_text_of_two() -> None:
    chunks = cut(PAGES, "page")
    assert chunks.select("page_start", "page_end", "text").rows() == [
        (1, 1, PAGES[0].strip()),
        (2, 2, PAGES[1].strip()),
        (4, 4, PAGES[3]),
    ]
    assert chunks["chunk_id"].str.extract("#p:([0-9]+)#").to_list() == ["1", "2", "4"]


def test_a_page_above_the_ceiling_is_cut_further() -> None:
    long = "\n\n".join(f"Sentence number {number} of a very long page." for number in range(60))
    chunks = cut(["Short.\n", long, "\nShort again."], "page", max_tokens=80)
    pages = chunks["page_start"].to_list()
    assert pages == chunks["page_end"].to_list()
    assert pages.count(1) == pages.count(3) == 1
    assert pages.count(2) > 5


def test_a_chunk_of_markdown_may_span_pages_and_names_both() -> None:
    (chunk,) = cut(PAGES, "markdown").iter_rows(named=True)
    assert (chunk["page_start"], chunk["page_end"]) == (1, 4)
    assert (chunk["line_start"], chunk["line_end"]) == (1, 6)


def test_lines_are_counted_from_one_through_all_pages() -> None:
    chunks = cut(PAGES, "page")
    lines = "".join(PAGES).split("\n")
    for row in chunks.iter_rows(named=True):
        assert "\n".join(lines[row["line_start"] - 1 : row["line_end"]]).strip() == row["text"]
    assert chunks.select("line_start", "line_end").rows() == [(1, 3), (4, 5), (6, 6)]


def test_a_recognised_page_gives_its_method_and_confidence() -> None:
    chunks = cut(PAGES, "page", confidences=[None, 0.71, None, 0.93])
    assert chunks["confidence"].to_list() == [None, 0.71, 0.93]
    assert chunks["chunk_id"].str.extract("#m:([a-z]+)-").to_list() == ["page", "ocr", "ocr"]
    (whole,) = cut(PAGES, "markdown", confidences=[None, 0.71, None, 0.93]).iter_rows(named=True)
    assert whole["confidence"] == 0.71
    assert "#m:ocr-" in whole["chunk_id"]


@pytest.mark.parametrize("chunker", OFFERED)
def test_equal_documents_give_equal_ids_and_are_not_cut_again(chunker: ChunkerName) -> None:
    first = cut(PAGES, chunker)
    assert_frame_equal(cut(PAGES, chunker, previous=first), first)
    assert_frame_equal(cut(PAGES, chunker), first)


def test_other_pages_of_an_equal_text_are_cut_again() -> None:
    first = cut(PAGES, "page")
    joined = ["".join(PAGES[:2]), *PAGES[2:]]
    again = cut(joined, "page", previous=first)
    assert_frame_equal(again, cut(joined, "page"))
    assert set(again["page_end"]) == {1, 3}


def test_the_header_is_above_every_chunk_of_rows_and_is_embedded_once() -> None:
    sheets = [
        "name,place\n" + "".join(f"plant {n},bed {n}\n" for n in range(40)),
        "tool,use\nspade,digging\n",
    ]
    text, starts = join_pages(sheets)
    chunks = cut(sheets, "rows", max_tokens=100)
    table = documents(document("a", text, title="Garden", page_starts=starts, chunker="rows"))
    assert set(chunks.filter(page_start=1)["heading"]) == {"name,place"}
    assert chunks.filter(page_start=2).select("heading", "text").rows() == [("tool,use", sheets[1].strip())]
    assert chunks.height > 3
    for embedded in embedding_texts(chunks, table):
        assert embedded.count("name,place") + embedded.count("tool,use") == 1


def test_a_header_of_half_the_ceiling_is_left_out() -> None:
    header = ",".join(f"column{number}" for number in range(30))
    chunks = cut([f"{header}\n" + "1,2\n" * 40], "rows", max_tokens=150)
    assert set(chunks["heading"]) == {""}


def test_a_definition_is_named_above_its_chunk() -> None:
    code = "import os\n\n\ndef sow(bed):\n    return bed\n\n\ndef reap(bed):\n    return None\n"
    chunks = cut([code], "python")
    assert [row for row in chunks.select("heading", "line_start").rows() if row[0]] == [
        ("sow", 4),
        ("reap", 8),
    ]


def test_a_shrunk_document_leaves_no_chunk_behind() -> None:
    long = cut([f"Page {number}.\n" for number in range(30)], "page")
    short = cut(["Page 0.\n"], "page", previous=long)
    assert short.height == 1
    assert_frame_equal(short, cut(["Page 0.\n"], "page"))


def test_a_setting_chooses_the_chunker_of_a_format() -> None:
    text, starts = join_pages(PAGES)
    table = documents(document("a", text, page_starts=starts, chunker="page"))
    settings = ChunkSettings(
        chunkers={"markdown": "sentence"}, sentence_max_tokens=28, sentence_overlap_tokens=0
    )
    chunks = cut_document_chunks(
        table, settings, max_tokens=512, counter=ESTIMATED_TOKENS, counter_id="estimate"
    )
    assert set(chunks["chunk_id"].str.extract("#m:([a-z]+)-")) == {"sentence"}
    assert chunks["text"].to_list()[-1] == "Green ones ripen in a drawer, beside an apple."


def test_sentences_are_whole_where_they_fit() -> None:
    wrapped = "One sentence goes on\nin the next line. Another follows.\n\nA paragraph of its own."
    chunks = cut([wrapped], "sentence", title="", sentence_max_tokens=18, sentence_overlap_tokens=0)
    assert chunks["text"].to_list() == [
        "One sentence goes on\nin the next line.",
        "Another follows.\n\nA paragraph of its own.",
    ]


def test_characters_limit_the_chunks_of_character_and_so_does_the_ceiling() -> None:
    text = " ".join(f"word{number}" for number in range(400))
    chunks = cut([text], "character", max_characters=200, overlap_characters=50)
    lengths = [len(chunk) for chunk in chunks["text"]]
    assert max(lengths) <= 200
    assert min(lengths[:-1]) > 150
    overlaps = (chunks["char_end"][:-1] - chunks["char_start"][1:]).to_list()
    assert 0 < min(overlaps) <= max(overlaps) <= 50
    dense = cut(["語" * 900], "character", max_tokens=100)
    assert max(dense["token_count"].to_list()) <= 100
    assert dense["char_end"].max() == 900


@pytest.mark.parametrize(
    ("sizes", "name"),
    [
        ({"overlap_tokens": 100, "max_tokens": 100}, "overlap_tokens"),
        ({"sentence_overlap_tokens": 600}, "sentence_overlap_tokens"),
        ({"overlap_characters": 1000}, "overlap_characters"),
    ],
)
def test_an_overlap_of_a_whole_chunk_is_refused(sizes: dict[str, int], name: str) -> None:
    with refuses("out_of_range", name):
        ChunkSettings.model_validate(sizes)


@hypothesis_settings(deadline=None, max_examples=some(60))
@given(
    pages=st.lists(st.text("aZ9 .\n#|語é😀\x1c\r\u2028", max_size=300), max_size=6),
    chunker=st.sampled_from(OFFERED),
    title=st.text(max_size=6),
    max_tokens=st.integers(90, 200),
    overlap=st.integers(0, 80),
)
def test_every_chunker_gives_exact_slices_below_the_ceiling_with_their_pages(
    pages: list[str], chunker: ChunkerName, title: str, max_tokens: int, overlap: int
) -> None:
    text, starts = join_pages(pages)
    chunks = cut(
        pages, chunker, title=title, max_tokens=max_tokens, overlap_tokens=overlap,
        max_characters=120, overlap_characters=overlap,
    )  # fmt: skip
    table = documents(document("a", text, title=title, page_starts=starts, chunker=chunker))
    if chunks.height:
        assert estimate_tokens(embedding_texts(chunks, table)).max() <= max_tokens
    covered: set[int] = set()
    page_of = [number for number, page in enumerate(pages, 1) for _ in page]
    for row in chunks.iter_rows(named=True):
        start, end = row["char_start"], row["char_end"]
        assert row["text"] == text[start:end]
        assert (row["page_start"], row["page_end"]) == (page_of[start], page_of[end - 1])
        assert row["line_start"] == text[:start].count("\n") + 1
        assert row["line_end"] == text[: end - 1].count("\n") + 1
        assert chunker not in ("page", "rows") or row["page_start"] == row["page_end"]
        covered |= set(range(start, end))
    assert all(text[place].isspace() for place in set(range(len(text))) - covered)
