"""What a server holds for folders that were copied or cloned, that share a store, or that have equal documents."""

import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from backstory.index.snapshot.served import adopt_collection, is_served, let_go
from tests.index.conftest import Corpus
from tests.index.milvus_builds import (
    alias_of,
    build_at,
    collection_of,
    keys_of,
    list_collections,
    list_keys,
    search_in,
    take,
)

pytestmark = pytest.mark.usefixtures("few_sampled_queries")


def test_a_copy_searches_what_the_original_holds_and_is_built_into_its_own(
    small: Corpus, milvus_uri: str, tmp_path: Path, listed: Any, caplog: pytest.LogCaptureFixture
) -> None:
    first = build_at(milvus_uri, small, tmp_path / "index", keep_snapshots=1)
    shutil.copytree(tmp_path / "index", tmp_path / "copy")
    expected, alias = small.nearest(small.queries(4), 5), alias_of(first)
    assert search_in(tmp_path / "copy", small).engine == "milvus"
    assert is_served(first.folder)
    assert not is_served(tmp_path / "copy" / first.version)
    second = build_at(
        milvus_uri, take(small, pl.col("document_id") > "doc00010"), tmp_path / "index", keep_snapshots=1
    )
    without = search_in(tmp_path / "copy", small)
    assert without.engine == "exact"
    assert alias in without.reason
    assert listed(without.hits, 4) == expected
    copied = build_at(milvus_uri, small, tmp_path / "copy", keep_snapshots=1)
    assert (copied.version, copied.uploaded) == (first.version, 120)
    assert collection_of(copied) != collection_of(second)
    [told] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert collection_of(second) in told
    assert list_keys(milvus_uri, collection_of(second)) == keys_of(second)
    result = search_in(tmp_path / "copy", small)
    assert result.engine == "milvus"
    assert listed(result.hits, 4) == expected


def test_a_clone_without_the_list_leaves_what_the_original_holds(
    small: Corpus, milvus_uri: str, tmp_path: Path
) -> None:
    first = build_at(milvus_uri, small, tmp_path / "index")
    shutil.copytree(tmp_path / "index", tmp_path / "clone")
    adopt_collection(tmp_path / "clone", first.version)  # as if the list had kept its inode number
    assert is_served(tmp_path / "clone" / first.version)
    (tmp_path / "clone" / ".served").unlink()
    fewer = take(small, pl.col("document_id") > "doc00050")
    second = build_at(milvus_uri, fewer, tmp_path / "clone", keep_snapshots=1)
    assert (second.uploaded, collection_of(second) == collection_of(first)) == (18, False)
    assert is_served(first.folder)


def test_a_clone_and_its_original_part_when_one_has_lost_its_rows(
    small: Corpus, milvus_uri: str, tmp_path: Path, listed: Any, caplog: pytest.LogCaptureFixture
) -> None:
    original, clone = tmp_path / "original", tmp_path / "clone"
    first = build_at(milvus_uri, small, original)
    shared = collection_of(first)
    shutil.copytree(original, clone)
    adopt_collection(clone, first.version)  # as if the list had kept its inode number
    later = take(small, pl.col("document_id") > "doc00010")
    assert collection_of(build_at(milvus_uri, later, clone)) == shared
    assert search_in(clone, later).engine == "milvus"
    fewer = take(small, pl.col("document_id") < "doc00050")
    second = build_at(milvus_uri, fewer, original)
    assert collection_of(second) == shared
    found = search_in(clone, later)
    assert found.engine == "exact"
    assert listed(found.hits, 4) == later.nearest(later.queries(4), 5)
    apart = build_at(milvus_uri, later, clone)
    assert (apart.built, apart.uploaded, collection_of(apart) == shared) == (True, 98, False)
    [told] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert shared in told
    let_go(clone, [clone / first.version])
    assert build_at(milvus_uri, fewer, original).built is False
    for folder, corpus in ((original, fewer), (clone, later)):
        found = search_in(folder, corpus)
        assert found.engine == "milvus"
        assert listed(found.hits, 4) == corpus.nearest(corpus.queries(4), 5)


def test_workers_of_one_store_share_a_collection(small: Corpus, milvus_uri: str, tmp_path: Path) -> None:
    first = build_at(milvus_uri, small, tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "other")
    adopt_collection(tmp_path / "other", first.version)
    assert is_served(tmp_path / "other" / first.version)
    second = build_at(
        milvus_uri, take(small, pl.col("document_id") > "doc00010"), tmp_path / "other", keep_snapshots=1
    )
    assert (second.uploaded, collection_of(second)) == (0, collection_of(first))
    assert list_keys(milvus_uri, collection_of(first)) == keys_of(second)


def test_a_removal_leaves_what_another_folder_of_equal_documents_searches(
    small: Corpus, milvus_uri: str, tmp_path: Path
) -> None:
    builds = [build_at(milvus_uri, small, tmp_path / name) for name in ("one", "other")]
    assert builds[0].version == builds[1].version
    build_at(milvus_uri, small, tmp_path / "one", hnsw_m=20, keep_snapshots=1)
    assert collection_of(builds[1]) in list_collections(milvus_uri)
    assert search_in(tmp_path / "other", small).engine == "milvus"
