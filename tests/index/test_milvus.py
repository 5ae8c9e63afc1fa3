"""The engine behind a server: what it is sent and filters, how wide it searches, and when it cannot answer."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from pymilvus import MilvusClient

from backstory.base.errors import SearchIndexError
from backstory.index.milvus import (
    COLLECTION_FILE,
    Collection,
    MilvusGraph,
    is_served,
    read_collection,
    release_collection,
)
from backstory.index.request import Filters, SearchRequest
from backstory.index.search import open_index
from backstory.index.snapshot import read_manifest
from backstory.settings.models import IndexSettings
from tests.errors import raises, refuses
from tests.index.conftest import EPOCH, Built, Corpus, unit
from tests.long_tests import some
from tests.milvus import serve_milvus

pytestmark = pytest.mark.usefixtures("few_sampled_queries")


def build_at(uri: str, corpus: Corpus, folder: Path, **settings: Any) -> Built:
    return corpus.build(folder, engine="milvus", uri=uri, **settings)


def collection_of(build: Built) -> str:
    collection = read_manifest(build.folder).collection
    assert collection is not None
    return collection


@contextmanager
def asking(uri: str) -> Iterator[MilvusClient]:
    client = MilvusClient(uri=uri)
    try:
        yield client
    finally:
        client.close()


def list_rows(uri: str, collection: str) -> set[tuple[int, int]]:
    """List the key and the state of every row on the server."""
    with asking(uri) as client:
        rows = client.query(collection, filter="", output_fields=["key", "state"], limit=16_384)
        return {(row["key"], row["state"]) for row in rows}


def list_aliases(uri: str, collection: str) -> set[str]:
    with asking(uri) as client:
        return set(client.list_aliases(collection)["aliases"])


def list_collections(uri: str) -> set[str]:
    with asking(uri) as client:
        return set(client.list_collections())


def take(corpus: Corpus, wanted: pl.Expr | pl.Series) -> Corpus:
    """Keep some documents."""
    documents = corpus.documents.filter(wanted)
    is_kept = corpus.chunks["document_id"].is_in(documents["document_id"].implode())
    return Corpus(documents, corpus.chunks.filter(is_kept), corpus.vectors[is_kept.to_numpy()])


def search_in(folder: Path, corpus: Corpus, **request: Any) -> Any:
    with open_index(folder) as index:
        return index.search(corpus.queries(4), SearchRequest(**{"top_k": 5} | request))


FILTERS = {
    "kind": Filters(kinds=["post"]),
    "documents": Filters(document_ids=["doc00001", "doc00002"]),
    "tenant": Filters(tenant="north"),
    "no such tenant": Filters(tenant='no"such\\tenant'),
    "dated": Filters(undated=False, tags=["mining", "privacy"]),
    "before all": Filters(as_of=[EPOCH - timedelta(days=1)] * 4, undated=False),
    "times": Filters(as_of=[EPOCH + timedelta(days=day) for day in (0, 9, 9, 40)], tenant="south"),
    "people": Filters(by_people=True),
    "posts": Filters(by_people=False),
    "pages": Filters(pages=(2, 3)),
}


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("ranking", ["dense", "hybrid"])
def test_the_server_applies_every_filter(
    small: Corpus, milvus_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, ranking: Any
) -> None:
    paged = small.chunks.with_columns(
        page_start=pl.int_range(pl.len()) % 5 + 1, page_end=pl.int_range(pl.len()) % 5 + 2
    ).cast({"page_start": small.chunks.schema["page_start"], "page_end": small.chunks.schema["page_end"]})
    corpus = replace(small, chunks=paged)
    build_at(milvus_uri, corpus, tmp_path)
    fetched: list[bool] = []
    fetch = MilvusGraph._fetch

    def note(self: MilvusGraph, *arguments: Any) -> Any:
        query, row = fetch(self, *arguments)
        fetched.append(bool(arguments[-1].admits(query, row).all()))
        return query, row

    monkeypatch.setattr(MilvusGraph, "_fetch", note)
    texts = ["topic3", "item5", "topic1", "part0"]
    with open_index(tmp_path) as index:
        request = SearchRequest(top_k=5, ranking=ranking, filters=FILTERS[name])
        found, exact = (
            index.search(corpus.queries(4), replace(request, mode=mode), texts=texts)
            for mode in ("ann", "exact")
        )
    assert (found.engine, fetched) == ("milvus", [True])
    assert found.hits.equals(exact.hits)


def test_the_server_gets_numbers_alone(small: Corpus, milvus_uri: str, tmp_path: Path) -> None:
    build = build_at(milvus_uri, small, tmp_path)
    with asking(milvus_uri) as client:
        described = client.describe_collection(collection_of(build))
    kinds = {field["name"]: field["type"].name for field in described["fields"]}
    assert set(kinds.values()) == {"INT64", "BOOL", "ARRAY", "FLOAT_VECTOR"}
    assert not described["enable_dynamic_field"]


def test_a_build_sends_the_rows_that_changed(small: Corpus, milvus_uri: str, tmp_path: Path) -> None:
    last = pl.col("document_id") == "doc00059"
    moved = pl.when(pl.col("document_id") == "doc00003").then(EPOCH).otherwise("published_at")
    vectors = small.vectors.copy()
    vectors[7] = -vectors[7]
    steps = [
        (take(small, ~last), 118),
        (small, 2),
        (replace(small, documents=small.documents.with_columns(published_at=moved)), 2),
        (replace(small, vectors=vectors), 2),
        (replace(small, vectors=vectors, chunks=small.chunks.with_columns(text=pl.lit("other"))), 0),
        (take(small, ~last), 1),
    ]
    builds = [build_at(milvus_uri, corpus, tmp_path) for corpus, _ in steps]
    assert [build.uploaded for build in builds] == [expected for _, expected in steps]
    assert len({collection_of(build) for build in builds[-1:]}) == 1


def change(corpus: Corpus, random: np.random.Generator) -> Corpus:
    """Remove, add, date, hand over and rewrite some documents."""
    ids = corpus.documents["document_id"]
    numbers = pl.Series(random.integers(0, 8, len(ids)))
    documents = corpus.documents.with_columns(
        published_at=pl.when(numbers == 1).then(pl.lit(EPOCH)).otherwise("published_at"),
        tenant=pl.when(numbers == 2).then(pl.lit("east")).otherwise("tenant"),
    )
    vectors = corpus.vectors.copy()
    rewritten = random.integers(0, len(vectors), 3)
    vectors[rewritten] = unit(random.normal(size=(3, vectors.shape[1])))
    return take(Corpus(documents, corpus.chunks, vectors), pl.Series(random.random(len(ids)) < 0.9))


def test_random_edits_leave_what_a_fresh_collection_holds(
    small: Corpus, milvus_uri: str, tmp_path: Path, listed: Any
) -> None:
    random = np.random.default_rng(5)
    for _ in range(some(12)):
        corpus = change(small, random)
        build = build_at(milvus_uri, corpus, tmp_path / "edited")
        assert list_aliases(milvus_uri, collection_of(build)) == {f"{collection_of(build)}_{build.version}"}
        result = search_in(tmp_path / "edited", corpus, top_k=7)
        assert result.engine == "milvus"
        assert listed(result.hits, 4) == corpus.nearest(corpus.queries(4), 7)
    fresh = build_at(milvus_uri, corpus, tmp_path / "fresh")
    assert collection_of(fresh) != collection_of(build)
    assert list_rows(milvus_uri, collection_of(fresh)) == list_rows(milvus_uri, collection_of(build))


def test_a_copy_and_its_original_never_search_the_rows_of_each_other(
    small: Corpus, milvus_uri: str, tmp_path: Path, listed: Any
) -> None:
    first = build_at(milvus_uri, small, tmp_path / "original")
    shutil.copytree(tmp_path / "original", tmp_path / "copy")
    fewer = take(small, pl.col("document_id") < "doc00030")
    taken = build_at(milvus_uri, fewer, tmp_path / "copy")
    assert collection_of(taken) == collection_of(first)
    assert not is_served(first.folder)
    result = search_in(tmp_path / "original", small)
    assert result.engine == "exact"
    assert listed(result.hits, 4) == small.nearest(small.queries(4), 5)
    again = build_at(milvus_uri, small, tmp_path / "original")
    assert (again.built, again.uploaded) == (True, 120)
    assert collection_of(again) != collection_of(taken)
    for name, corpus in (("original", small), ("copy", fewer)):
        result = search_in(tmp_path / name, corpus)
        assert result.engine == "milvus"
        assert listed(result.hits, 4) == corpus.nearest(corpus.queries(4), 5)


def test_a_build_that_was_killed_is_made_good_by_the_next(
    small: Corpus, milvus_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = build_at(milvus_uri, take(small, pl.col("document_id") < "doc00050"), tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Collection, "_wait_for_index", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            build_at(milvus_uri, small, tmp_path)
    assert search_in(tmp_path, small).engine == "exact"
    build = build_at(milvus_uri, small, tmp_path)
    assert (collection_of(build), build.uploaded) == (
        collection_of(before) if before.folder.exists() else collection_of(build),
        0,
    )
    assert search_in(tmp_path, small).engine == "milvus"


def test_another_engine_server_or_graph_deletes_the_collection(
    small: Corpus, milvus_uri: str, tmp_path: Path
) -> None:
    first = collection_of(build_at(milvus_uri, small, tmp_path))
    second = collection_of(build_at(milvus_uri, small, tmp_path, hnsw_m=20))
    assert {first, second} & list_collections(milvus_uri) == {second}
    small.build(tmp_path)
    assert second not in list_collections(milvus_uri)
    assert read_collection(tmp_path) == ("", "")


def test_a_collection_is_released_once_or_left_to_a_server_that_is_gone(
    small: Corpus, tmp_path: Path
) -> None:
    with serve_milvus(tmp_path / "data") as uri:
        name = collection_of(build_at(uri, small, tmp_path / "index"))
        release_collection(tmp_path / "index", must_succeed=True)
        assert name not in list_collections(uri)
        build_at(uri, small, tmp_path / "index")
    with raises(SearchIndexError, "unusable_server", uri):
        release_collection(tmp_path / "index", must_succeed=True)
    assert (tmp_path / "index" / COLLECTION_FILE).is_file()
    release_collection(tmp_path / "index")
    assert not (tmp_path / "index" / COLLECTION_FILE).exists()


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
            monkeypatch.setattr("backstory.index.milvus.WIDENING", (rows, 0.5, 8, widest))
            assert index.search(small.queries(2), request).engine == "milvus"
    assert widths == [*expected.values()]


def test_a_server_that_is_gone_is_an_error_and_no_other_search(small: Corpus, tmp_path: Path) -> None:
    with serve_milvus(tmp_path / "data") as uri:
        build_at(uri, small, tmp_path / "index")
    query, request = small.queries(1), SearchRequest(top_k=5, ranking="hybrid")
    with open_index(tmp_path / "index") as index:
        with raises(SearchIndexError, "unusable_server", uri):
            index.search(query, request, texts=["topic1"])
        exact = index.search(query, SearchRequest(top_k=5, mode="exact"))
    assert exact.engine == "exact"
    with raises(SearchIndexError, "unusable_server", uri):
        build_at(uri, small, tmp_path / "other")
    assert not (tmp_path / "other" / "CURRENT").exists()


def test_vectors_of_several_calls_are_all_there(
    small: Corpus, milvus_uri: str, tmp_path: Path, listed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backstory.index.milvus.AT_ONCE", 7)
    first = build_at(milvus_uri, take(small, pl.col("document_id") > "doc00030"), tmp_path)
    second = build_at(milvus_uri, small, tmp_path)
    assert not first.folder.exists()
    assert len(list_rows(milvus_uri, collection_of(second))) == 120
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
