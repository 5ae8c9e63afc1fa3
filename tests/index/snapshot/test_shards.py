"""Snapshots whose vectors are in several files: what a search finds, reads and maps, and what a build writes."""

import hashlib
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from backstory.index.request import Filters, Ranking, SearchRequest
from backstory.index.search import SearchIndex
from backstory.index.snapshot import shards
from backstory.index.snapshot.build import IndexBuild
from backstory.index.snapshot.manifest import find_damage, read_manifest
from backstory.index.snapshot.opening import open_index
from tests.index.conftest import EPOCH, Corpus, unit

ROW = 4 * 24
"""Bytes of a row of the corpus."""


@pytest.fixture
def cut_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Set the most rows of a shard."""
    return lambda rows: monkeypatch.setattr(shards, "SHARD_BYTES", rows * ROW)


def list_shards(build: IndexBuild) -> list[Path]:
    """The files of vectors in the order of the rows."""
    records = read_manifest(build.folder).shards
    return [
        *(shards.locate_shard(build.folder, record) for record in records),
        build.folder / shards.VECTORS_FILE,
    ]


def take(corpus: Corpus, kept: pl.Expr) -> Corpus:
    """The corpus with some of its documents."""
    documents = corpus.documents.filter(kept)
    rows = corpus.chunks["document_id"].is_in(documents["document_id"].implode())
    return Corpus(documents, corpus.chunks.filter(rows), corpus.vectors[rows.to_numpy()])


@pytest.fixture(scope="module")
def tied(new_corpus: Any) -> Corpus:
    """A corpus in which half of the vectors occur several times."""
    corpus: Corpus = new_corpus(80)
    corpus.vectors[::2] = corpus.vectors[:16:2].repeat(10, axis=0)
    return corpus


@pytest.fixture(scope="module")
def whole(tied: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("whole")
    assert len(list_shards(tied.build(folder))) == 1
    with open_index(folder) as index:
        yield index


FILTERS = {
    "none": Filters(),
    "as of": Filters(as_of=[None if n % 5 == 0 else EPOCH + timedelta(days=n) for n in range(40)]),
    "tenant": Filters(tenant="north"),
    "few": Filters(document_ids=["doc00003", "doc00077", "doc00074"]),
    "several": Filters(as_of=[EPOCH + timedelta(days=30)] * 40, kinds=["post"], undated=False),
}


@pytest.mark.parametrize("rows", [3, 50, 159])
def test_shards_change_no_bit_of_what_is_found(
    tied: Corpus, whole: SearchIndex, tmp_path: Path, rows: int, cut_at: Callable[[int], None]
) -> None:
    cut_at(rows)
    assert len(list_shards(tied.build(tmp_path))) >= 160 / rows
    queries, texts = tied.queries(40), [f"topic{n % 17} item{n}" for n in range(40)]
    rankings: tuple[Ranking, ...] = ("dense", "keyword", "hybrid")
    with open_index(tmp_path) as index:
        assert index.version == whole.version
        for ranking in rankings:
            for least, top_k in ((0.3, 3), (None, 200)):
                for filters in FILTERS.values():
                    request = SearchRequest(
                        top_k=top_k, ranking=ranking, filters=filters, min_similarity=least
                    )
                    found, expected = (
                        each.search(queries, request, texts=texts).hits for each in (index, whole)
                    )
                    assert found.equals(expected), (ranking, top_k, filters)
        assert index.sample_vectors(20).tobytes() == whole.sample_vectors(20).tobytes()
        wanted = tied.chunks["chunk_id"].sample(30, seed=1)
        assert index.vectors_of(wanted).tobytes() == whole.vectors_of(wanted).tobytes()


def test_an_hnsw_index_is_the_same_over_shards(
    new_corpus: Any, tmp_path: Path, cut_at: Callable[[int], None]
) -> None:
    corpus = new_corpus(60)
    queries, found = corpus.queries(10), []
    for rows in (1000, 40):
        cut_at(rows)
        corpus.build(tmp_path / str(rows), ann_min_rows=0)
        with open_index(tmp_path / str(rows)) as index:
            found.append(index.search(queries, SearchRequest(top_k=5)))
    assert {result.engine for result in found} == {"vss"}
    assert found[0].hits.equals(found[1].hits)


def test_an_append_writes_the_last_shard_alone(
    new_corpus: Any, tmp_path: Path, cut_at: Callable[[int], None]
) -> None:
    cut_at(100)
    corpus = new_corpus(505)
    late = corpus.documents["document_id"].str.slice(3).cast(pl.Int64) >= 500
    dates = pl.when(late).then(pl.lit(EPOCH + timedelta(days=90))).otherwise("published_at")
    corpus = Corpus(corpus.documents.with_columns(published_at=dates), corpus.chunks, corpus.vectors)
    first = list_shards(take(corpus, ~pl.col("document_id").is_in(late_ids(corpus))).build(tmp_path))
    second = list_shards(corpus.build(tmp_path))
    assert len(first) > 10
    shared = [path for path in second if path.stat().st_nlink > 1]
    assert [path.stat().st_ino for path in shared] == [path.stat().st_ino for path in first[:-1]]
    written = sum(path.stat().st_size for path in second if path.stat().st_nlink == 1)
    assert written <= 2 * 100 * ROW
    assert second[-1].stat().st_nlink == 1


def test_an_append_reads_each_linked_shard_once(
    new_corpus: Any, tmp_path: Path, cut_at: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_at(50)
    corpus = new_corpus(300)
    titles = ("First", "Second", "Third")
    corpus.documents[0, "title"] = titles[0]
    first = list_shards(corpus.build(tmp_path, keep_snapshots=2))
    # Another process has hashed nothing.
    monkeypatch.setattr(shards, "_hashes", {})
    read: list[str] = []
    digest_file = hashlib.file_digest

    def note(file: Any, name: Any) -> Any:
        read.append(Path(file.name).name)
        return digest_file(file, name)

    monkeypatch.setattr(hashlib, "file_digest", note)
    for title in titles[1:]:
        corpus.documents[0, "title"] = title
        build = corpus.build(tmp_path, keep_snapshots=2)
        open_index(tmp_path).close()
    assert len(list((tmp_path).glob("[0-9a-f]*"))) == 2
    names = [path.name for path in list_shards(build)[:-1]]
    assert names == [path.name for path in first[:-1]]
    assert [read.count(name) for name in names] == [1] * len(names)


def late_ids(corpus: Corpus) -> list[str]:
    return corpus.documents["document_id"].tail(5).to_list()


@pytest.mark.parametrize("number", [0, 333])
def test_a_change_in_the_middle_leaves_the_other_shards(
    new_corpus: Any, tmp_path: Path, cut_at: Callable[[int], None], number: int
) -> None:
    cut_at(80)
    corpus = new_corpus(400)
    first = list_shards(take(corpus, pl.col("document_id") != f"doc{number:05d}").build(tmp_path))
    second = list_shards(corpus.build(tmp_path))
    unchanged = {path.name for path in first[:-1]} & {path.name for path in second[:-1]}
    assert len(first) - 1 - len(unchanged) <= 3
    again = list_shards(corpus.build(tmp_path / "from scratch"))
    assert [path.name for path in again] == [path.name for path in second]


def test_filters_leave_shards_unread(new_corpus: Any, tmp_path: Path, cut_at: Callable[[int], None]) -> None:
    cut_at(50)
    corpus = new_corpus(200)
    number = pl.col("document_id").str.slice(3).cast(pl.Int64)
    dated = corpus.documents.with_columns(
        published_at=pl.lit(EPOCH) + pl.duration(days=number),
        tenant=pl.when(number < 100).then(pl.lit("early")).otherwise(pl.lit("late")),
    )
    build = Corpus(dated, corpus.chunks, corpus.vectors).build(tmp_path)
    queries = corpus.queries(6)
    requests = [
        SearchRequest(top_k=5, ranking=ranking, filters=filters)
        for ranking in ("dense", "hybrid")
        for filters in (
            Filters(as_of=[EPOCH + timedelta(days=60)] * 6),
            Filters(tenant="early"),
        )
    ]
    with open_index(tmp_path) as index:
        expected = [index.search(queries, request, texts=["topic1"] * 6).hits for request in requests]
    with open_index(tmp_path) as index:
        files = list_shards(build)
        for path in files[len(files) * 2 // 3 :]:
            path.unlink()
        found = [index.search(queries, request, texts=["topic1"] * 6).hits for request in requests]
    assert all(first.equals(second) for first, second in zip(found, expected, strict=True))


def test_a_search_maps_one_shard_at_a_time(
    new_corpus: Any, tmp_path: Path, cut_at: Callable[[int], None]
) -> None:
    cut_at(60)
    corpus = new_corpus(200)
    assert len(list_shards(corpus.build(tmp_path))) > 6
    with open_index(tmp_path) as index:
        for ranking in ("dense", "hybrid"):
            index.search(corpus.queries(3), SearchRequest(top_k=5, ranking=ranking), texts=["topic1"] * 3)
            maps = Path("/proc/self/maps").read_text().splitlines()
            mapped = {line.split()[-1] for line in maps if str(tmp_path) in line and "/keywords/" not in line}
            assert len(mapped) == 1


def test_a_damaged_shard_is_written_again(
    new_corpus: Any, tmp_path: Path, cut_at: Callable[[int], None]
) -> None:
    cut_at(50)
    corpus = new_corpus(100)
    first = list_shards(corpus.build(tmp_path))
    damaged = first[0]
    content = damaged.read_bytes()
    damaged.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    corpus.documents[0, "title"] = "Another title"
    build = corpus.build(tmp_path)
    second = list_shards(build)
    assert second[0].name == damaged.name
    assert second[0].read_bytes() == content
    assert find_damage(build.folder, checksums=True) is None
    assert second[1].stat().st_ino == first[1].stat().st_ino


def test_equal_shards_are_one_file(new_corpus: Any, tmp_path: Path, cut_at: Callable[[int], None]) -> None:
    cut_at(1)
    corpus = new_corpus(10)
    corpus.vectors[:] = unit(corpus.vectors[:1])
    build = corpus.build(tmp_path)
    assert len(list_shards(build)) == 20
    assert len(list((build.folder / shards.SHARDS_FOLDER).iterdir())) == 1
    with open_index(tmp_path) as index:
        assert index.search(corpus.vectors[:1], SearchRequest(top_k=30)).hits.height == 20
