"""The original entry point: coverage of every topic, no hits, and errors that are never "no hits"."""

import logging
from pathlib import Path

import ibis
import polars as pl
import pytest
from returns.result import Failure, Success

from backstory import (
    RagContext,
    RagErrorReason,
    VectorStore,
    chunk_markdown,
    query_rag_for_context,
    query_rag_per_chunk,
)
from backstory.base.errors import SearchIndexError, WorkspaceError
from backstory.interfaces.original.embedders import resolve_embedder

TOPICS = {
    "travel": "Paris trip hotel museum train luggage",
    "coding": "debugging a stack trace exception breakpoint",
    "recipes": "recipe for soup with garlic onion and salt",
}


def messages_of(words: dict[str, str], each: int = 10) -> list[dict[str, str]]:
    return [
        {"message": f"{text} number {i}", "author": "uuid-1", "timestamp": f"2025-01-15 1{hour}:{i:02d}"}
        for hour, text in enumerate(words.values())
        for i in range(each)
    ]


@pytest.fixture
def rag_dir(tmp_path: Path) -> Path:
    documents = {**TOPICS, "moths": "lamp moths night"}
    vectors = resolve_embedder("hashing").embed(list(documents.values()), task="document")
    pl.DataFrame(
        {
            "chunk_id": [f"{name}_0" for name in documents],
            "document_id": list(documents),
            "post_title": [name.title() for name in documents],
            "post_date": ["2024-05-01"] * len(documents),
            "content": list(documents.values()),
            "tags": [[name] for name in documents],
            "embedding": vectors.tolist(),
        }
    ).write_parquet(tmp_path / "chunks.parquet")
    return tmp_path


def test_every_topic_of_a_conversation_is_found(rag_dir: Path) -> None:
    table = ibis.memtable(pl.DataFrame(messages_of(TOPICS)))
    result = query_rag_for_context(table, None, rag_dir, embedding_model="hashing")
    assert isinstance(result, Success)
    context = result.unwrap()
    assert isinstance(context, RagContext)
    assert {row["document_id"] for row in context.records} == set(TOPICS)
    assert context.text.startswith("\n\n## Related Previous Posts (for continuity and linking):\n")
    assert all(f"### [{name.title()}] (2024-05-01)" in context.text for name in TOPICS)


def test_records_can_be_asked_for(rag_dir: Path) -> None:
    text, records = query_rag_for_context(
        messages_of(TOPICS), None, rag_dir, embedding_model="hashing", return_records=True
    )
    assert text
    assert [row["similarity"] for row in records] == sorted(
        (row["similarity"] for row in records), reverse=True
    )


def test_no_messages_and_nothing_similar_are_no_hits(rag_dir: Path) -> None:
    nothing = query_rag_for_context([], None, rag_dir, embedding_model="hashing")
    assert nothing == Failure(RagErrorReason.NO_HITS)
    unlike = query_rag_for_context(
        messages_of({"x": "zzz qqq xxx"}), None, rag_dir, embedding_model="hashing"
    )
    assert unlike == Failure(RagErrorReason.NO_HITS)
    assert query_rag_for_context([], None, rag_dir, embedding_model="hashing", return_records=True) == (
        "",
        [],
    )


def test_what_breaks_is_a_system_error_with_its_cause(tmp_path: Path) -> None:
    (tmp_path / "chunks.parquet").write_bytes(b"PAR1 broken PAR1")
    result = query_rag_for_context(messages_of(TOPICS), None, tmp_path, embedding_model="hashing")
    assert result == Failure(RagErrorReason.SYSTEM_ERROR)
    assert result != Failure(RagErrorReason.NO_HITS)
    assert isinstance(result.failure().cause, SearchIndexError)
    with pytest.raises(SearchIndexError):
        query_rag_for_context(
            messages_of(TOPICS), None, tmp_path, embedding_model="hashing", return_records=True
        )


def test_a_missing_store_is_a_system_error_not_no_hits(tmp_path: Path) -> None:
    result = query_rag_for_context(messages_of(TOPICS), None, tmp_path / "none", embedding_model="hashing")
    assert isinstance(result.failure().cause, WorkspaceError)


def test_another_embedding_space_is_a_system_error(rag_dir: Path) -> None:
    frame = pl.read_parquet(rag_dir / "chunks.parquet").with_columns(
        embedding=pl.col("embedding").list.head(8)
    )
    frame.write_parquet(rag_dir / "chunks.parquet")
    result = query_rag_for_context(messages_of(TOPICS), None, rag_dir, embedding_model="hashing")
    assert isinstance(result.failure().cause, SearchIndexError)


def test_the_counts_of_every_step_are_logged(rag_dir: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="backstory")
    query_rag_for_context(messages_of(TOPICS, each=3), None, rag_dir, embedding_model="hashing")
    logged = "\n".join(record.getMessage() for record in caplog.records)
    for words in ("collected results=", "deduplicated results=", "rag query done chunks=", "final="):
        assert words in logged


def test_every_chunk_asks_and_results_keep_their_keys(rag_dir: Path) -> None:
    store = VectorStore(rag_dir / "chunks.parquet")
    chunks = chunk_markdown("\n\n".join(TOPICS.values()), max_tokens=16, overlap_tokens=0)
    assert len(chunks) >= 3
    results = query_rag_per_chunk(chunks, store, "hashing", top_k=2, min_similarity_threshold=0.2)
    assert {row["document_id"] for row in results} >= set(TOPICS)
    keys = {"content", "similarity", "document_id", "post_slug", "post_title", "chunk_index", "metadata"}
    assert all(keys <= row.keys() for row in results)
    assert query_rag_per_chunk([], store, "hashing") == []
