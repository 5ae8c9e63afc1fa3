"""The engine behind a server: what the server filters, what it holds, and what is said if it is not as it should be."""

import shutil
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
from backstory.index.snapshot import publication
from backstory.index.snapshot.build import IndexBuild
from backstory.index.snapshot.manifest import read_manifest
from backstory.index.snapshot.opening import open_index
from backstory.index.snapshot.publication import drop_unpublished, prune, prune_documents, publishing
from backstory.settings.models import IndexSettings
from tests.errors import raises, refuses
from tests.index.conftest import EPOCH, Corpus
from tests.milvus import serve_milvus


@pytest.fixture(scope="module")
def small(new_corpus: Any) -> Corpus:
    corpus: Corpus = new_corpus(60)
    return corpus


def build_at(uri: str, corpus: Corpus, folder: Path, **settings: Any) -> IndexBuild:
    return corpus.build(folder, engine="milvus", uri=uri, **settings)


def collection_of(build: IndexBuild) -> str:
    return read_manifest(build.folder).served_collection


def list_collections(uri: str) -> set[str]:
    client = MilvusClient(uri=uri)
    try:
        return set(client.list_collections())
    finally:
        client.close()


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
    client = MilvusClient(uri=milvus_uri)
    described = client.describe_collection(collection_of(build))
    client.close()
    assert {field["name"] for field in described["fields"]} == {"row", "tenant", "vector"}
    assert not described["enable_dynamic_field"]


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


def test_the_server_holds_the_kept_snapshots_alone(small: Corpus, milvus_uri: str, tmp_path: Path) -> None:
    collections = []
    for day in range(4):
        moved = small.documents.with_columns(published_at=pl.col("published_at") + timedelta(days=day))
        corpus = Corpus(moved, small.chunks, small.vectors)
        collections.append(collection_of(build_at(milvus_uri, corpus, tmp_path, keep_snapshots=2)))
    held = list_collections(milvus_uri)
    assert [collection in held for collection in collections] == [False, False, True, True]
    shutil.copytree(tmp_path, tmp_path / "copy")
    prune(tmp_path / "copy", keep=1, on_server=False)
    assert list_collections(milvus_uri) == held
    prune_documents(tmp_path, pl.DataFrame({"document_id": ["none"], "revision": ["none"]}))
    assert collections[2] not in list_collections(milvus_uri)


def test_a_removal_leaves_what_another_folder_of_equal_documents_searches(
    small: Corpus, milvus_uri: str, tmp_path: Path
) -> None:
    builds = [build_at(milvus_uri, small, tmp_path / name) for name in ("one", "other")]
    assert builds[0].version == builds[1].version
    build_at(milvus_uri, small, tmp_path / "one", hnsw_m=20, keep_snapshots=1)
    held = list_collections(milvus_uri)
    assert collection_of(builds[1]) in held
    with open_index(tmp_path / "other") as index:
        assert index.search(small.queries(1), SearchRequest(top_k=5)).engine == "milvus"


def test_a_snapshot_that_is_built_again_under_another_name_leaves_no_vectors(
    small: Corpus, milvus_uri: str, tmp_path: Path
) -> None:
    build = build_at(milvus_uri, small, tmp_path)
    former = collection_of(build)
    (tmp_path / ".owner").unlink()
    (build.folder / "rows.arrow").unlink()
    again = build_at(milvus_uri, small, tmp_path)
    held = list_collections(milvus_uri)
    assert [again.built, former in held, collection_of(again) in held] == [True, False, True]


class Killed(BaseException):
    """Ends a build as a signal does."""


def leave_unpublished(uri: str, corpus: Corpus, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """End a build after its upload, and return the collection."""

    def end(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(publication, "publish", end)
        with pytest.raises(Killed):
            build_at(uri, corpus, folder)
    [note] = folder.glob(".uploading-*")
    return note.read_text(encoding="utf-8").splitlines()[1]


def test_what_a_killed_build_left_on_the_server_is_dropped(
    small: Corpus, milvus_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = build_at(milvus_uri, small, tmp_path / "other", hnsw_m=20)
    left = leave_unpublished(milvus_uri, small, tmp_path / "index", monkeypatch)
    assert left in list_collections(milvus_uri)
    build = build_at(milvus_uri, small, tmp_path / "index", hnsw_m=12)
    held = list_collections(milvus_uri)
    assert left not in held
    assert {collection_of(build), collection_of(other)} <= held
    assert not list((tmp_path / "index").glob(".*ing-*"))


def test_a_killed_build_is_done_again(
    small: Corpus, milvus_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = leave_unpublished(milvus_uri, small, tmp_path, monkeypatch)
    build = build_at(milvus_uri, small, tmp_path)
    assert left == collection_of(build)
    assert left in list_collections(milvus_uri)
    with publishing(tmp_path):
        drop_unpublished(tmp_path)
    assert left in list_collections(milvus_uri)


def test_a_server_that_is_gone_stops_no_other_build_and_is_asked_again(
    small: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve_milvus(tmp_path / "data") as uri:
        leave_unpublished(uri, small, tmp_path / "index", monkeypatch)
    monkeypatch.setattr("backstory.index.engines.milvus.CONNECT_SECONDS", 0.5)
    assert small.build(tmp_path / "index").built
    with publishing(tmp_path / "index"), raises(SearchIndexError, "unusable_server", address=uri):
        drop_unpublished(tmp_path / "index")
    assert len(list((tmp_path / "index").glob(".uploading-*"))) == 1


def test_rows_that_the_server_lost_are_written_again(small: Corpus, milvus_uri: str, tmp_path: Path) -> None:
    first = build_at(milvus_uri, small, tmp_path)
    assert not build_at(milvus_uri, small, tmp_path).built
    client = MilvusClient(uri=milvus_uri)
    client.drop_collection(collection_of(first))
    client.close()
    with (
        open_index(tmp_path) as index,
        raises(SearchIndexError, "unusable_server", address=milvus_uri),
    ):
        index.search(small.queries(1), SearchRequest(top_k=5))
    again = build_at(milvus_uri, small, tmp_path)
    assert (again.built, again.version) == (True, first.version)
    with open_index(tmp_path) as index:
        assert index.search(small.queries(1), SearchRequest(top_k=5)).engine == "milvus"


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
    monkeypatch.setattr("backstory.index.engines.milvus.ROWS_AT_ONCE", 7)
    monkeypatch.setattr("backstory.index.engines.milvus.QUERIES_AT_ONCE", 3)
    build_at(milvus_uri, small, tmp_path)
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
