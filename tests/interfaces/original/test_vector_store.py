"""The original design's store: a ``chunks.parquet`` opens as it is, and a snapshot answers alike."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from backstory import VectorStore
from backstory.base.errors import SearchIndexError, WorkspaceError
from tests.errors import raises

ANGLES = [0.0, 0.2, 0.9, 3.0]


def original_chunks() -> pl.DataFrame:
    """Make a table with the columns and types that the original wrote; vectors are not of unit length."""
    count = len(ANGLES)
    return pl.DataFrame(
        {
            "chunk_id": [f"post-{i}_0" for i in range(count)],
            "document_type": ["post"] * count,
            "document_id": [f"post-{i}" for i in range(count)],
            "post_slug": [f"slug-{i}" for i in range(count)],
            "post_title": [f"Title {i}" for i in range(count)],
            "post_date": ["2024-05-01"] * count,
            "media_uuid": [None] * count,
            "chunk_index": [0] * count,
            "content": [f"content {i}" for i in range(count)],
            "embedding": [[3 * np.cos(angle), 3 * np.sin(angle)] for angle in ANGLES],
            "tags": [["a"], [], ["b", "c"], None],
            "authors": [["x"]] * count,
            "category": [None] * count,
        },
        schema_overrides={
            "media_uuid": pl.String,
            "category": pl.String,
            "embedding": pl.List(pl.Float64),
            "tags": pl.List(pl.String),
        },
    )


@pytest.fixture
def store(tmp_path: Path) -> VectorStore:
    original_chunks().write_parquet(tmp_path / "chunks.parquet")
    return VectorStore(tmp_path / "chunks.parquet")


def test_an_existing_store_opens_without_migration(store: VectorStore) -> None:
    found = store.search([1.0, 0.0], top_k=5, min_similarity_threshold=0.5)
    assert found["document_id"].to_list() == ["post-0", "post-1", "post-2"]
    assert found["similarity"].to_list() == pytest.approx(np.cos(ANGLES[:3]).tolist(), abs=1e-6)
    row = found.row(1, named=True)
    assert (row["content"], row["post_slug"], row["post_title"], row["post_date"], row["tags"], row["chunk_index"]) == (
        "content 1", "slug-1", "Title 1", "2024-05-01", [], 0,
    )  # fmt: skip
    assert row["metadata"] == {"document_type": "post", "category": None, "authors": ["x"]}


def test_top_k_and_threshold_act(store: VectorStore) -> None:
    assert len(store.search([1.0, 0.0], top_k=2, min_similarity_threshold=-1)) == 2
    assert len(store.search([1.0, 0.0], min_similarity_threshold=0.99)) == 1
    assert len(store.search([1.0, 0.0])) == 2


def test_a_batch_answers_each_query(store: VectorStore) -> None:
    vectors = np.array([[1, 0], [np.cos(0.9), np.sin(0.9)]], dtype=np.float32)
    found = store.search_batch(vectors, top_k=1, min_similarity_threshold=0.0)
    assert found.select("query_chunk", "document_id").rows() == [(0, "post-0"), (1, "post-2")]


def test_nprobe_is_accepted_with_a_warning(store: VectorStore) -> None:
    with pytest.warns(UserWarning, match="nprobe"):
        assert len(store.search([1.0, 0.0], nprobe=8, overfetch=4, mode="ann")) == 2


def test_a_query_of_another_width_is_refused(store: VectorStore) -> None:
    with raises(SearchIndexError, "embedder_mismatch", store.path):
        store.search([1.0, 0.0, 0.0])


def test_a_store_that_is_not_there_or_not_a_store_is_an_error(tmp_path: Path) -> None:
    with raises(WorkspaceError, "absent_file", tmp_path / "chunks.parquet"):
        VectorStore(tmp_path / "chunks.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 but not really PAR1")
    with raises(SearchIndexError, "damaged_file", tmp_path / "broken.parquet"):
        VectorStore(tmp_path / "broken.parquet")
    original_chunks().drop("embedding").write_parquet(tmp_path / "other.parquet")
    with raises(SearchIndexError, "absent_column"):
        VectorStore(tmp_path / "other.parquet")


def test_an_empty_store_finds_nothing(tmp_path: Path) -> None:
    original_chunks().clear().write_parquet(tmp_path / "chunks.parquet")
    assert VectorStore(tmp_path / "chunks.parquet").dimension == 0
