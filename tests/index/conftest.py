"""A clustered corpus of any size, and an oracle that compares every pair in double precision."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from backstory.index.build import IndexBuild, arrange, publish_content
from backstory.index.calibration import DEFAULT_CALIBRATION
from backstory.index.request import Filters
from backstory.index.search import SearchIndex, open_index
from backstory.settings.models import IndexSettings
from tests.builders.documents import make_document_chunks, make_documents
from tests.milvus import serve_milvus

EPOCH = datetime(2024, 1, 1, tzinfo=UTC)
KINDS = ("post", "page", "digest")
TAGS = ("bitcoin", "lightning", "privacy", "mining")
TENANTS = ("north", "south")
EMBEDDER = "test:clustered:1"


def unit(vectors: NDArray[np.floating]) -> NDArray[np.float32]:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    rows: NDArray[np.float32] = (vectors / lengths).astype(np.float32)
    return rows


class Built:
    """What a build has published."""

    def __init__(self, index: Path, build: IndexBuild) -> None:
        self.manifest, self.built, self.uploaded = build
        self.version, self.rows = self.manifest.version, self.manifest.rows
        self.recall = self.manifest.recall_at_5
        self.folder = index / self.version


@dataclass(frozen=True)
class Corpus:
    documents: pl.DataFrame
    chunks: pl.DataFrame
    vectors: NDArray[np.float32]

    def build(self, folder: Path, embedder_id: str = EMBEDDER, **settings: object) -> Built:
        checked = IndexSettings.model_validate(settings)
        content = arrange(self.documents, self.chunks, self.vectors, embedder_id, checked)
        return Built(folder, publish_content(folder, content, DEFAULT_CALIBRATION))

    def queries(self, count: int, seed: int = 7) -> NDArray[np.float32]:
        """Points beside some of the chunks."""
        random = np.random.default_rng(seed)
        near = self.vectors[random.integers(0, len(self.vectors), count)]
        return unit(near + 0.02 * random.normal(size=near.shape))

    def nearest(
        self,
        queries: NDArray[np.float32],
        top_k: int,
        min_similarity: float | None = None,
        filters: Filters | None = None,
    ) -> list[list[tuple[str, float]]]:
        """Chunks and similarities for each query, by the definition."""
        filters = filters or Filters()
        similarities = (queries.astype(np.float64) @ self.vectors.astype(np.float64).T).clip(-1, 1).round(9)
        rows = self.chunks.join(
            self.documents.select("document_id", "published_at", "kind", "tags", "tenant", "status"),
            on="document_id",
            how="left",
            maintain_order="left",
        ).to_dicts()
        found = []
        for number, scores in enumerate(similarities):
            as_of = None if filters.as_of is None else filters.as_of[number]
            candidates = [
                (-score, row["published_at"] or EPOCH - timedelta(days=9999), row["chunk_id"])
                for score, row in zip(scores.tolist(), rows, strict=True)
                if row["status"] == "ok"
                and (min_similarity is None or score >= min_similarity)
                and (as_of is None or row["published_at"] is None or row["published_at"] <= as_of)
                and (filters.undated or row["published_at"] is not None)
                and (not filters.kinds or row["kind"] in filters.kinds)
                and (not filters.tags or set(row["tags"]) & set(filters.tags))
                and (not filters.document_ids or row["document_id"] in filters.document_ids)
                and (filters.tenant is None or row["tenant"] == filters.tenant)
            ]
            found.append([(chunk_id, -score) for score, _, chunk_id in sorted(candidates)[:top_k]])
        return found


def make_corpus(document_count: int, chunks_each: int = 2, dimension: int = 24, seed: int = 0) -> Corpus:
    random = np.random.default_rng(seed)
    days = random.integers(0, 60, document_count).tolist()
    undated = (random.random(document_count) < 0.2).tolist()
    documents = make_documents(
        {
            "document_id": f"doc{number:05d}",
            "uri": f"posts/{number}.md",
            "title": f"Post {number}",
            "slug": f"post-{number}",
            "published_at": None if undated[number] else EPOCH + timedelta(days=day),
            "tags": list(random.choice(TAGS, size=random.integers(0, 3), replace=False)),
            "kind": KINDS[number % 3],
            "tenant": TENANTS[number % 2],
            "content_hash": f"h{number}",
        }
        for number, day in enumerate(days)
    )
    pairs = [(number, index) for number in range(document_count) for index in range(chunks_each)]
    chunks = make_document_chunks(
        (
            {
                "chunk_id": f"doc{number:05d}#rev:r1#p:0#m:t#c:{index}",
                "document_id": f"doc{number:05d}",
                "chunk_index": index,
                "line_start": 1 + index,
                "line_end": 1 + index,
                "char_start": 100 * index,
                "char_end": 100 * index + 90,
                "text": f"words about topic{number % 17} and item{number} part{index}",
            }
            for number, index in pairs
        ),
        heading="Intro",
        token_count=9,
    )
    centres = random.normal(size=(max(1, document_count // 10), dimension))
    noise = 0.45 * random.normal(size=(len(pairs), dimension))
    vectors = unit(centres[random.integers(0, len(centres), len(pairs))] + noise).reshape(
        len(pairs), dimension
    )
    return Corpus(documents, chunks, vectors)


def hits_of(hits: pl.DataFrame, query_count: int) -> list[list[tuple[str, float]]]:
    """Chunks and similarities for each query, in the form that the oracle gives."""
    found: list[list[tuple[str, float]]] = [[] for _ in range(query_count)]
    for query, chunk_id, similarity in hits.select("query", "chunk_id", "similarity").iter_rows():
        found[query].append((chunk_id, similarity))
    return found


@pytest.fixture(scope="session")
def new_corpus() -> Callable[..., Corpus]:
    return make_corpus


@pytest.fixture(scope="session")
def listed() -> Callable[[pl.DataFrame, int], list[list[tuple[str, float]]]]:
    return hits_of


@pytest.fixture(scope="session")
def small() -> Corpus:
    return make_corpus(60)


@pytest.fixture
def few_sampled_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure the recall of each build by few queries."""
    monkeypatch.setattr("backstory.index.graph.SAMPLED_QUERIES", 50)


@pytest.fixture(scope="session")
def corpus() -> Corpus:
    return make_corpus(700)


ENGINES: dict[str, dict[str, Any]] = {
    "exact": {"ann_min_rows": 1_000_000},
    "milvus": {"engine": "milvus"},
    "vss": {"ann_min_rows": 0},
}


@pytest.fixture(scope="session")
def milvus_uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a Milvus server: Milvus Lite, unless the environment names another."""
    if named := os.environ.get("BACKSTORY_TEST_MILVUS"):
        yield named
        return
    with serve_milvus(tmp_path_factory.mktemp("milvus") / "data") as uri:
        yield uri


@pytest.fixture(scope="session", params=sorted(ENGINES))
def engine(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def settings_of(request: pytest.FixtureRequest) -> Callable[[str], dict[str, Any]]:
    """Give the settings of an index that an engine searches."""

    def choose(name: str) -> dict[str, object]:
        served = {"uri": request.getfixturevalue("milvus_uri")} if name == "milvus" else {}
        return ENGINES[name] | served

    return choose


@pytest.fixture(scope="session")
def folders(
    corpus: Corpus, tmp_path_factory: pytest.TempPathFactory, settings_of: Callable[[str], dict[str, Any]]
) -> Mapping[str, Path]:
    """One published index of the corpus for each engine, built when it is first asked for."""

    class Built(dict[str, Path]):
        def __missing__(self, name: str) -> Path:
            self[name] = tmp_path_factory.mktemp(name) / "index"
            corpus.build(self[name], **settings_of(name))
            return self[name]

    return Built()


@pytest.fixture(scope="session")
def index(engine: str, folders: Mapping[str, Path]) -> SearchIndex:
    """The corpus, opened: a search without a mode goes through the engine."""
    return open_index(folders[engine], embedder_id=EMBEDDER)


def recall(
    found: Sequence[Sequence[tuple[str, float]]], expected: Sequence[Sequence[tuple[str, float]]]
) -> float:
    """Share of the expected pairs that were found."""
    shared = sum(len({c for c, _ in f} & {c for c, _ in e}) for f, e in zip(found, expected, strict=True))
    return shared / max(1, sum(len(e) for e in expected))


@pytest.fixture(scope="session")
def share_found() -> Callable[..., float]:
    return recall
