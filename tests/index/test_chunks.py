from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from polars.testing import assert_frame_equal

from backstory.base.errors import InputError
from backstory.index.chunks import cut_document_chunks, embedding_texts
from backstory.settings.inputs import ChunkSettings
from backstory.storage.tables.contracts import validate
from backstory.storage.tables.schemas import DocumentChunks
from backstory.text.chunking.units import ESTIMATED_TOKENS, TokenCounter, estimate_tokens
from tests.builders.documents import make_documents
from tests.errors import raises
from tests.long_tests import some

BREAD = """# Bread

Flour, water, salt.

## Dough

A dough with too little salt rises quickly and tastes of nothing.

It rests for a night in the cellar, where nobody disturbs it.

## Oven

A hot oven forgives nearly everything else."""


def document(name: str, text: str, **fields: object) -> dict[str, object]:
    stated = {
        "uri": f"{name}.md",
        "slug": name,
        "size": len(text),
        "content_hash": fields.get("revision", "r1"),
    }
    return {"document_id": name, "text": text, **stated, **fields}


def documents(*rows: dict[str, object]) -> pl.DataFrame:
    return make_documents(rows)


def cut(
    table: pl.DataFrame,
    max_tokens: int = 40,
    *,
    overlap_tokens: int = 0,
    counter: TokenCounter = ESTIMATED_TOKENS,
    counter_id: str = "estimate",
    previous: pl.DataFrame | None = None,
) -> pl.DataFrame:
    return cut_document_chunks(
        table,
        ChunkSettings(max_tokens=max_tokens, overlap_tokens=overlap_tokens),
        max_tokens=512,
        counter=counter,
        counter_id=counter_id,
        previous=previous,
    )


def test_chunks_are_slices_of_the_documents_that_are_searched() -> None:
    table = documents(
        document("bread", BREAD, title="Baking"),
        document("bread", "older text", title="Baking", revision="r0", status="superseded"),
        document("gone", "deleted text", status="deleted"),
        document("broken", "", status="error"),
        document("blank", " \n\n"),
        document("note", "One line only."),
    )
    chunks = validate(cut(table), DocumentChunks)
    assert chunks["document_id"].unique(maintain_order=True).to_list() == ["bread", "note"]
    bread = chunks.filter(document_id="bread")
    assert bread.height > 1
    assert bread["chunk_index"].to_list() == list(range(bread.height))
    assert set(bread["revision"]) == {"r1"}
    for row in bread.iter_rows(named=True):
        assert row["text"] == BREAD[row["char_start"] : row["char_end"]]
        assert row["page_start"] is None
        assert row["page_end"] is None
        assert abs(row["token_count"] - estimate_tokens([row["text"]])[0]) <= 1
    assert bread["chunk_id"].str.contains(r"^bread#rev:r1#p:0#m:markdown-[0-9a-f]{8}#c:\d+$").all()
    assert (
        bread["chunk_id"].str.extract(r"#c:(\d+)").cast(pl.Int64).to_list() == bread["chunk_index"].to_list()
    )
    covered = "".join(bread["text"])
    assert "".join(covered.split()) == "".join(BREAD.split())
    assert {"Bread", "Bread > Dough", "Bread > Oven"} >= set(bread["heading"])


@hypothesis_settings(deadline=None, max_examples=some(60))
@given(
    title=st.one_of(st.text(max_size=30), st.text("xQ7😀語 ", min_size=200, max_size=3000)),
    heading=st.one_of(st.just("Part"), st.text("wZ9é語 ", max_size=900)),
    body=st.lists(st.text(max_size=150), max_size=8),
    max_tokens=st.integers(130, 600),
)
def test_embedded_text_is_never_over_the_ceiling(
    granite_tokens: TokenCounter, title: str, heading: str, body: list[str], max_tokens: int
) -> None:
    text = f"# {heading}\n\n" + "\n\n".join(body) + "\n\n## " + heading + "\n\nand the end"
    table = documents(document("a", text, title=title))
    chunks = cut(table, max_tokens, overlap_tokens=20, counter=granite_tokens)
    assert granite_tokens.count_tokens(embedding_texts(chunks, table)).max() <= min(max_tokens, 512)
    assert chunks["char_end"].max() == len(text)


def test_the_embedder_limit_holds_where_it_is_below_the_setting() -> None:
    table = documents(document("a", "\n\n".join(["some words of a paragraph"] * 200), title="T"))
    chunks = cut(table, 1800)
    assert chunks.height > 1
    assert estimate_tokens(embedding_texts(chunks, table)).max() <= 512
    assert estimate_tokens(embedding_texts(chunks, table))[:-1].min() > 400


def test_no_room_beside_the_title_is_an_error() -> None:
    table = documents(document("a", "some text", title="X9" * 100))
    with raises(InputError, "no_room"):
        cut(table, 40)


def test_unchanged_revisions_are_not_cut_again() -> None:
    first = documents(
        document("a", BREAD, title="A"), document("b", BREAD + "\n\nold"), document("c", "c c c")
    )
    previous = cut(first)
    second = documents(
        document("a", BREAD, title="A"),
        document("b", BREAD + "\n\nold", status="superseded"),
        document("b", BREAD + "\n\nnew", revision="r2"),
        document("c", "c c c", status="deleted"),
        document("d", "added later"),
    )
    counted: list[str] = []

    class Recording:
        find_token_ends = staticmethod(ESTIMATED_TOKENS.find_token_ends)

        def count_tokens(self, texts: Sequence[str]) -> NDArray[np.int64]:
            counted.extend(texts)
            return estimate_tokens(texts)

    again = cut(second, counter=Recording(), previous=previous)
    assert_frame_equal(again.filter(document_id="a"), previous.filter(document_id="a"))
    assert set(again.filter(document_id="b")["revision"]) == {"r2"}
    assert again["document_id"].unique(maintain_order=True).to_list() == ["a", "b", "d"]
    assert not any(text.startswith("A\n") for text in counted)
    assert "added later" in counted
    assert_frame_equal(again, cut(second))


@pytest.mark.parametrize(
    "changed", [{"max_tokens": 41}, {"overlap_tokens": 5}, {"counter_id": "another tokenizer"}]
)
def test_other_settings_cut_again(changed: dict[str, object]) -> None:
    table = documents(document("a", BREAD))
    previous = cut(table)
    again = cut(table, previous=previous, **changed)  # type: ignore[arg-type]
    assert not set(again["chunk_id"]) & set(previous["chunk_id"])
    assert_frame_equal(again, cut(table, **changed))  # type: ignore[arg-type]


def test_embedded_text_is_title_headings_empty_line_text_and_no_heading_comes_twice() -> None:
    table = documents(document("bread", BREAD, title="Baking at home"))
    (night,) = (text for text in embedding_texts(cut(table, 60), table) if "It rests" in text)
    assert night.startswith("Baking at home\nBread > Dough\n\nIt rests")
    text = "# Bread\n\n## Dough\n\nRises."
    for title, expected in (("Bread", f"Bread\n\n{text}"), ("", text)):
        table = documents(document("bread", text, title=title))
        assert embedding_texts(cut(table), table) == [expected]


def test_no_documents_give_an_empty_table_and_a_chunk_without_its_document_is_an_error() -> None:
    nothing = validate(cut(documents()), DocumentChunks)
    assert (nothing.height, embedding_texts(nothing, documents())) == (0, [])
    with raises(InputError, "unknown_document", "a"):
        embedding_texts(cut(documents(document("a", "text"))), documents(document("b", "text")))
