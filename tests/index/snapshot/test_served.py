"""What a server holds of the snapshots of a folder, after builds, removals, kills and losses."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from pymilvus import MilvusClient

from backstory.base.errors import SearchIndexError
from backstory.index.calibration import DEFAULT_CALIBRATION
from backstory.index.request import SearchRequest
from backstory.index.snapshot import publication
from backstory.index.snapshot.build import IndexBuild, publish_content
from backstory.index.snapshot.content import arrange
from backstory.index.snapshot.manifest import MANIFEST_FILE, REBUILD_COMMAND, read_manifest
from backstory.index.snapshot.opening import open_index
from backstory.index.snapshot.publication import prune, prune_documents, publishing
from backstory.index.snapshot.row_keys import KEYS_FILE
from backstory.index.snapshot.served import let_go
from backstory.settings.models import IndexSettings
from tests.errors import raises
from tests.index.conftest import EMBEDDER, EPOCH, Corpus, unit
from tests.index.milvus_builds import (
    alias_of,
    asking,
    build_at,
    collection_of,
    keys_of,
    list_aliases,
    list_collections,
    list_keys,
    search_in,
    take,
)
from tests.long_tests import some
from tests.milvus import serve_milvus

pytestmark = pytest.mark.usefixtures("few_sampled_queries")


def test_a_build_sends_the_rows_that_the_server_lacks(small: Corpus, milvus_uri: str, tmp_path: Path) -> None:
    last = pl.col("document_id") == "doc00059"
    moved = pl.when(pl.col("document_id") == "doc00003").then(EPOCH).otherwise("published_at")
    vectors = small.vectors.copy()
    vectors[7] = -vectors[7]
    steps = [
        (take(small, ~last), 118),
        (small, 2),
        (replace(small, documents=small.documents.with_columns(published_at=moved)), 2),
        (replace(small, vectors=vectors), 1),
        (take(small, ~last), 0),
        (small, 0),
    ]
    sent = [build_at(milvus_uri, corpus, tmp_path).uploaded for corpus, _ in steps]
    assert sent == [expected for _, expected in steps]
    assert len(list_collections(milvus_uri) & {collection_of(build_at(milvus_uri, small, tmp_path))}) == 1


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
    vectors[random.integers(0, len(vectors), 4)] = vectors[random.integers(0, len(vectors))]
    return take(Corpus(documents, corpus.chunks, vectors), pl.Series(random.random(len(ids)) < 0.9))


def test_random_edits_leave_what_a_fresh_collection_holds(
    small: Corpus, milvus_uri: str, tmp_path: Path, listed: Any
) -> None:
    random = np.random.default_rng(5)
    for _ in range(some(12)):
        corpus = change(small, random)
        build = build_at(milvus_uri, corpus, tmp_path / "edited", keep_snapshots=1)
        assert list_keys(milvus_uri, collection_of(build)) == keys_of(build)
        assert list_aliases(milvus_uri, collection_of(build)) == {alias_of(build)}
        result = search_in(tmp_path / "edited", corpus, top_k=7)
        assert result.engine == "milvus"
        assert listed(result.hits, 4) == corpus.nearest(corpus.queries(4), 7)
    fresh = build_at(milvus_uri, corpus, tmp_path / "fresh")
    assert collection_of(fresh) != collection_of(build)
    assert list_keys(milvus_uri, collection_of(fresh)) == keys_of(build)


def test_the_server_holds_the_kept_snapshots_alone(small: Corpus, milvus_uri: str, tmp_path: Path) -> None:
    builds = []
    for day in range(4):
        moved = small.documents.with_columns(published_at=pl.col("published_at") + timedelta(days=day))
        builds.append(build_at(milvus_uri, replace(small, documents=moved), tmp_path, keep_snapshots=2))
    assert not builds[1].folder.exists()
    collection = collection_of(builds[3])
    assert list_aliases(milvus_uri, collection) == {alias_of(build) for build in builds[2:]}
    assert list_keys(milvus_uri, collection) == keys_of(builds[2]) | keys_of(builds[3])
    prune_documents(tmp_path, pl.DataFrame({"document_id": ["none"], "revision": ["none"]}))
    assert list_keys(milvus_uri, collection) == keys_of(builds[3])
    small.build(tmp_path, keep_snapshots=1)
    assert collection not in list_collections(milvus_uri)


def test_the_server_keeps_its_rows_while_a_run_publishes_in_between(
    small: Corpus, milvus_uri: str, tmp_path: Path
) -> None:
    build_at(milvus_uri, take(small, pl.col("document_id") < "doc00050"), tmp_path, keep_snapshots=1)
    settings = IndexSettings(keep_snapshots=1)
    content = arrange(small.documents, small.chunks, small.vectors, EMBEDDER, settings, None)
    publish_content(tmp_path, content, DEFAULT_CALIBRATION, interim=True)
    assert build_at(milvus_uri, small, tmp_path, keep_snapshots=1).uploaded == 20


def test_an_open_snapshot_is_searched_while_others_are_built_and_dropped(
    small: Corpus, milvus_uri: str, tmp_path: Path, listed: Any
) -> None:
    before = take(small, pl.col("document_id") < "doc00050")
    after = take(small, pl.col("document_id") >= "doc00010")
    first = build_at(milvus_uri, before, tmp_path)
    with open_index(tmp_path) as index:
        second = build_at(milvus_uri, after, tmp_path, keep_snapshots=1)
        result = index.search(small.queries(5), SearchRequest(top_k=9))
        assert result.engine == "milvus"
        assert listed(result.hits, 5) == before.nearest(small.queries(5), 9)
        assert list_keys(milvus_uri, collection_of(second)) == keys_of(first) | keys_of(second)
    with publishing(tmp_path):
        prune(tmp_path, keep=1)
    assert list_keys(milvus_uri, collection_of(second)) == keys_of(second)


class Killed(BaseException):
    """Ends a build as a signal does."""


def leave_unpublished(uri: str, corpus: Corpus, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """End a build after its upload."""

    def end(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(publication, "publish", end)
        with pytest.raises(Killed):
            build_at(uri, corpus, folder)


@pytest.mark.parametrize("setting", [{}, {"hnsw_m": 12}])
def test_what_a_killed_build_left_on_the_server_is_dropped(
    small: Corpus, milvus_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: dict[str, Any]
) -> None:
    other = build_at(milvus_uri, small, tmp_path / "other")
    before = list_collections(milvus_uri)
    leave_unpublished(milvus_uri, small, tmp_path / "index", monkeypatch)
    assert len(list_collections(milvus_uri) - before) == 1
    build = build_at(
        milvus_uri, take(small, pl.col("document_id") > "doc00010"), tmp_path / "index", **setting
    )
    assert build.uploaded == (98 if setting else 0)
    assert list_keys(milvus_uri, collection_of(build)) == keys_of(build)
    assert list_aliases(milvus_uri, collection_of(build)) == {alias_of(build)}
    assert list_collections(milvus_uri) - before == {collection_of(build)}
    assert list_keys(milvus_uri, collection_of(other)) == keys_of(other)
    assert not list((tmp_path / "index").glob(".*ing-*"))


def test_a_killed_upload_goes_on_where_it_ended(
    small: Corpus, milvus_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backstory.index.engines.milvus_rows.ROWS_AT_ONCE", 50)
    upsert = MilvusClient.upsert
    calls: list[int] = []

    def end(self: MilvusClient, collection: str, rows: list[Any], **options: Any) -> Any:
        calls.append(len(rows))
        if len(calls) == 2:
            raise Killed
        return upsert(self, collection, rows, **options)

    monkeypatch.setattr(MilvusClient, "upsert", end)
    with pytest.raises(Killed):
        build_at(milvus_uri, small, tmp_path)
    build = build_at(milvus_uri, small, tmp_path)
    assert (calls, build.uploaded) == ([50, 50, 50, 20], 70)
    assert list_keys(milvus_uri, collection_of(build)) == keys_of(build)


def test_a_build_waits_for_the_index_of_the_server_as_long_as_its_rows_may_take(
    small: Corpus, milvus_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    describe = MilvusClient.describe_index
    left: list[int] = [9] * 3

    def hang(self: MilvusClient, *arguments: Any, **options: Any) -> Any:
        return describe(self, *arguments, **options) | {"pending_index_rows": left.pop() if left else 0}

    monkeypatch.setattr(MilvusClient, "describe_index", hang)
    monkeypatch.setattr("backstory.index.engines.milvus_rows._POLL_SECONDS", 0.01)
    monkeypatch.setattr("backstory.index.engines.milvus_rows.INDEX_SECONDS", 0)
    with monkeypatch.context() as patch:
        patch.setattr("backstory.index.engines.milvus_rows.INDEX_SECONDS_PER_ROW", 0)
        with raises(SearchIndexError, "unindexed_rows", address=milvus_uri, pending=9):
            build_at(milvus_uri, small, tmp_path)
    assert not (tmp_path / "CURRENT").exists()
    assert len(left) == 2
    assert build_at(milvus_uri, small, tmp_path).uploaded == 0
    assert not left


def test_a_collection_that_was_left_half_made_is_made_again(
    small: Corpus, milvus_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(*_: Any, **__: Any) -> None:
        raise Killed

    before = list_collections(milvus_uri)
    for step in ("create_index", "load_collection"):
        with monkeypatch.context() as patch:
            patch.setattr(MilvusClient, step, end)
            with pytest.raises(Killed):
                build_at(milvus_uri, small, tmp_path)
        [left] = list_collections(milvus_uri) - before
    build = build_at(milvus_uri, small, tmp_path)
    assert (build.uploaded, collection_of(build)) == (120, left)
    assert search_in(tmp_path, small).engine == "milvus"


def test_a_server_that_is_gone_stops_no_other_build_and_is_asked_again(
    small: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with serve_milvus(tmp_path / "data") as uri:
        build_at(uri, small, tmp_path / "index")
    monkeypatch.setattr("backstory.index.engines.milvus_rows.CONNECT_SECONDS", 0.5)
    assert small.build(tmp_path / "index", keep_snapshots=1).built
    assert any(uri in record.getMessage() for record in caplog.records if record.levelname == "WARNING")
    with (
        publishing(tmp_path / "index"),
        raises(SearchIndexError, "unusable_server", address=uri),
    ):
        prune(tmp_path / "index", keep=1, must_succeed=True)


def test_rows_that_the_server_lost_are_written_again(small: Corpus, milvus_uri: str, tmp_path: Path) -> None:
    first = build_at(milvus_uri, small, tmp_path)
    assert not build_at(milvus_uri, small, tmp_path).built
    with asking(milvus_uri) as client:
        lost = sorted(keys_of(first))[:9]
        client.delete(collection_of(first), ids=lost)
    again = build_at(milvus_uri, small, tmp_path)
    assert (again.built, again.version, again.uploaded) == (True, first.version, 9)
    with asking(milvus_uri) as client:
        client.drop_alias(alias_of(first))
        client.drop_collection(collection_of(first))
    assert search_in(tmp_path, small).engine == "exact"
    again = build_at(milvus_uri, small, tmp_path)
    assert (again.built, again.version, again.uploaded) == (True, first.version, 120)
    assert search_in(tmp_path, small).engine == "milvus"


def take_keys(uri: str, build: IndexBuild, collection: str | None) -> str:
    """Make a snapshot one of an earlier version, with a collection of its own, and return the collection."""
    own = collection or f"backstory_{build.version}"
    with asking(uri) as client:
        client.drop_alias(alias_of(build))
        client.drop_collection(collection_of(build))
        client.create_collection(own, dimension=4)
    manifest = read_manifest(build.folder)
    files = {name: record for name, record in manifest.files.items() if name != KEYS_FILE}
    earlier = manifest.model_copy(update={"files": files, "collection": collection})
    (build.folder / MANIFEST_FILE).write_text(earlier.model_dump_json(), encoding="utf-8")
    (build.folder / KEYS_FILE).unlink()
    (build.folder.parent / ".served").unlink()
    return own


@pytest.mark.parametrize("named", ["backstory_0123456789abcdef_fedcba9876543210", None])
def test_a_snapshot_without_keys_is_searched_exactly_and_its_collection_deleted(
    small: Corpus, milvus_uri: str, tmp_path: Path, listed: Any, named: str | None
) -> None:
    first = build_at(milvus_uri, small, tmp_path)
    collection = take_keys(milvus_uri, first, named)
    result = search_in(tmp_path, small)
    assert result.engine == "exact"
    assert REBUILD_COMMAND in result.reason
    assert listed(result.hits, 4) == small.nearest(small.queries(4), 5)
    assert collection in list_collections(milvus_uri)
    second = build_at(milvus_uri, small, tmp_path)
    assert (second.version, second.uploaded) == (first.version, 120)
    assert list_collections(milvus_uri) & {collection, collection_of(second)} == {collection_of(second)}
    assert search_in(tmp_path, small).engine == "milvus"


def test_the_removal_of_a_folder_deletes_a_collection_without_keys(
    small: Corpus, milvus_uri: str, tmp_path: Path
) -> None:
    first = build_at(milvus_uri, small, tmp_path)
    collection = take_keys(milvus_uri, first, None)
    let_go(tmp_path, [first.folder], must_succeed=True)
    assert collection not in list_collections(milvus_uri)


def test_a_collection_without_keys_is_still_listed_when_its_snapshot_is_gone(
    small: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve_milvus(tmp_path / "data") as uri:
        collection = take_keys(uri, build_at(uri, small, tmp_path / "index"), None)
    with monkeypatch.context() as patch:
        patch.setattr("backstory.index.engines.milvus_rows.CONNECT_SECONDS", 0.5)
        build = small.build(tmp_path / "index", keep_snapshots=1)
    assert [path.name for path in (tmp_path / "index").glob("[!.]*/")] == [build.version]
    assert collection in (tmp_path / "index" / ".served").read_text(encoding="utf-8")
