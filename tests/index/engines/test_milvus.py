"""The engine behind a server: what the server filters, how wide it searches, and what is said if it cannot answer."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from pymilvus import MilvusClient

from backstory.base.errors import SearchIndexError
from backstory.index.engines.milvus import MilvusEngine
from backstory.index.request import Filters, SearchRequest
from backstory.index.snapshot.manifest import read_manifest
from backstory.index.snapshot.opening import open_index
from backstory.settings.models import IndexSettings
from tests.errors import raises, refuses
from tests.index.conftest import EPOCH, Corpus
from tests.index.milvus_builds import asking, build_at, collection_of, keys_of, list_keys, take
from tests.milvus import serve_milvus

pytestmark = pytest.mark.usefixtures("few_sampled_queries")


@pytest.mark.parametrize("ranking", ["dense", "hybrid"])
def test_the_server_applies_the_time_and_the_tenant(
    small: Corpus, milvus_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listed: Any, ranking: Any
) -> None:
    build_at(milvus_uri, small, tmp_path)
    fetched: list[Any] = []
    fetch = MilvusEngine._fetch

    def note(self: MilvusEngine, *arguments: Any) -> Any:
        fetched.append((fetch(self, *arguments), arguments[-1]))
        return fetched[-1][0]

    monkeypatch.setattr(MilvusEngine, "_fetch", note)
    queries = small.queries(6)
    times = [EPOCH + timedelta(days=day) for day in (0, 0, 9, 20, 40, 90)]
    filters = Filters(as_of=times, tenant="north")
    with open_index(tmp_path) as index:
        result = index.search(
            queries, SearchRequest(top_k=4, ranking=ranking, filters=filters), texts=["topic3"] * 6
        )
    assert result.engine == "milvus"
    [(found, scope)] = fetched
    assert len(found)
    assert scope.admits(found.query, found.row).all()
    if ranking == "dense":
        assert listed(result.hits, 6) == small.nearest(queries, 4, filters=filters)


@pytest.mark.parametrize(
    "filters",
    [
        Filters(kinds=["post"]),
        Filters(document_ids=["doc00001", "doc00002"]),
        Filters(tenant='no"such\\tenant'),
        Filters(undated=False, tags=["mining"]),
        Filters(as_of=[EPOCH - timedelta(days=1)] * 4, undated=False),
    ],
)
def test_what_the_server_does_not_filter_is_filtered_here(
    small: Corpus, milvus_uri: str, tmp_path: Path, listed: Any, filters: Filters
) -> None:
    build_at(milvus_uri, small, tmp_path)
    queries = small.queries(4)
    with open_index(tmp_path) as index:
        result = index.search(queries, SearchRequest(top_k=5, filters=filters))
    assert listed(result.hits, 4) == small.nearest(queries, 5, filters=filters)


def test_the_recall_is_measured_and_told(small: Corpus, milvus_uri: str, tmp_path: Path) -> None:
    build = build_at(milvus_uri, small, tmp_path)
    hnsw = read_manifest(build.folder).hnsw
    assert hnsw is not None
    assert build.recall == hnsw.recall_at_5 >= 0.95
    assert not read_manifest(build.folder).hnsw_in_database


def test_the_server_gets_no_text_and_no_id(small: Corpus, milvus_uri: str, tmp_path: Path) -> None:
    build = build_at(milvus_uri, small, tmp_path)
    with asking(milvus_uri) as client:
        described = client.describe_collection(collection_of(build))
    assert {field["name"] for field in described["fields"]} == {"key", "published", "tenant", "vector"}
    assert not described["enable_dynamic_field"]
    renamed = replace(
        small, chunks=small.chunks.with_columns(chunk_id="x" + pl.col("chunk_id"), text=pl.lit("other"))
    )
    assert keys_of(build_at(milvus_uri, renamed, tmp_path)) == keys_of(build)


@pytest.mark.filterwarnings("ignore:nprobe")
def test_the_search_is_wider_among_more_rows_and_for_more_hits(
    small: Corpus, milvus_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_at(milvus_uri, small, tmp_path, ef_search=100)  # of 120 rows
    search, widths = MilvusClient.search, []

    def note(self: MilvusClient, *arguments: Any, **options: Any) -> Any:
        widths.append(options["search_params"]["params"]["ef"])
        return search(self, *arguments, **options)

    monkeypatch.setattr(MilvusClient, "search", note)
    expected = {
        (1000, 700, SearchRequest(top_k=5)): 100 + 40,
        (30, 700, SearchRequest(top_k=5)): 2 * 100 + 40,
        (30, 700, SearchRequest(top_k=50)): 2 * 100 + 400,
        (30, 500, SearchRequest(top_k=50)): 500,
        (30, 90, SearchRequest(top_k=50)): 100,
        (30, 700, SearchRequest(top_k=5, nprobe=9)): 9,
    }
    with open_index(tmp_path) as index:
        for rows, widest, request in expected:
            monkeypatch.setattr("backstory.index.engines.milvus.WIDENING", (rows, 0.5, 8, widest))
            assert index.search(small.queries(2), request).engine == "milvus"
    assert widths == [*expected.values()]


def test_a_low_recall_is_not_used(small: Corpus, milvus_uri: str, tmp_path: Path, monkeypatch: Any) -> None:
    fetch = MilvusEngine._fetch

    def lose(self: MilvusEngine, *arguments: Any) -> Any:
        found = fetch(self, *arguments)
        return found.where(found.row % 2 == 0)

    monkeypatch.setattr(MilvusEngine, "_fetch", lose)
    build = build_at(milvus_uri, small, tmp_path)
    assert build.recall is not None
    assert build.recall < 0.9
    with open_index(tmp_path) as index:
        result = index.search(small.queries(1), SearchRequest(top_k=5))
    assert result.engine == "exact"
    assert "of the best five when it was built" in result.reason


def test_equal_rows_are_all_found(small: Corpus, milvus_uri: str, tmp_path: Path, listed: Any) -> None:
    vectors = small.vectors.copy()
    vectors[:20] = vectors[0]
    equal = Corpus(
        small.documents.with_columns(published_at=EPOCH, tenant=pl.lit("south")), small.chunks, vectors
    )
    assert build_at(milvus_uri, equal, tmp_path).uploaded == 120
    with open_index(tmp_path) as index:
        result = index.search(vectors[:1], SearchRequest(top_k=20))
    assert result.engine == "milvus"
    assert listed(result.hits, 1) == equal.nearest(vectors[:1], 20)


def test_a_server_that_is_gone_is_an_error_and_no_other_search(small: Corpus, tmp_path: Path) -> None:
    with serve_milvus(tmp_path / "data") as uri:
        build_at(uri, small, tmp_path / "index")
    query, request = small.queries(1), SearchRequest(top_k=5, ranking="hybrid")
    with open_index(tmp_path / "index") as index:
        with raises(SearchIndexError, "unusable_server", address=uri):
            index.search(query, request, texts=["topic1"])
        exact = index.search(query, SearchRequest(top_k=5, mode="exact"))
    assert exact.engine == "exact"
    with raises(SearchIndexError, "unusable_server", address=uri):
        build_at(uri, small, tmp_path / "other")
    assert not (tmp_path / "other" / "CURRENT").exists()


def test_the_address_makes_another_snapshot_and_what_is_unread_does_not(
    small: Corpus, milvus_uri: str, tmp_path: Path
) -> None:
    embedded = small.build(tmp_path / "embedded")
    assert small.build(tmp_path / "embedded", uri=milvus_uri).version == embedded.version
    first = build_at(milvus_uri, small, tmp_path / "first")
    assert first.version != embedded.version
    assert build_at(milvus_uri, small, tmp_path / "first", ann_min_rows=5).version == first.version


def test_vectors_of_several_calls_are_all_there(
    small: Corpus, milvus_uri: str, tmp_path: Path, listed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backstory.index.engines.milvus_rows.ROWS_AT_ONCE", 7)
    monkeypatch.setattr("backstory.index.engines.milvus_rows.KEYS_AT_ONCE", 7)
    monkeypatch.setattr("backstory.index.engines.milvus.QUERIES_AT_ONCE", 3)
    first = build_at(milvus_uri, take(small, pl.col("document_id") > "doc00030"), tmp_path, keep_snapshots=1)
    second = build_at(milvus_uri, small, tmp_path, keep_snapshots=1)
    assert not first.folder.exists()
    assert list_keys(milvus_uri, collection_of(second)) == keys_of(second)
    queries = np.concatenate([small.queries(10), small.vectors[:1]])
    with open_index(tmp_path) as index:
        result = index.search(queries, SearchRequest(top_k=120))
    assert result.engine == "milvus"
    assert listed(result.hits, 11) == small.nearest(queries, 120)


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"engine": "milvus"}, "absent_setting"),
        ({"engine": "milvus", "uri": "http://milvus.example:19530"}, "unencrypted"),
        ({"engine": "milvus", "uri": "https://user:word@milvus.example"}, "secret_in_address"),
        ({"engine": "milvus", "uri": "milvus.db"}, "invalid_address"),
    ],
)
def test_an_address_that_cannot_serve_is_refused(settings: dict[str, Any], code: str) -> None:
    with refuses(code):
        IndexSettings.model_validate(settings)
