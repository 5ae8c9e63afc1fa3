"""Features of pairs: finite, and the same in whichever batch a window is measured."""

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl
import pytest

from backstory.index.search import SearchIndex, open_index
from backstory.models.embeddings.embed import embed_texts
from backstory.models.embeddings.protocol import Vectors
from backstory.pipeline.workspace import Workspace
from backstory.retrieval.evidence.pair_features import measure_pairs
from backstory.retrieval.evidence.pair_model import OF_PARTS, OF_SINGLE, read_pair_model
from backstory.retrieval.evidence.pairs import list_parts, read_pairs
from backstory.retrieval.evidence.shared_words import Values


@pytest.fixture
def index(made_workspace: Workspace) -> Iterator[SearchIndex]:
    with open_index(made_workspace.index) as opened:
        yield opened


class Measured:
    """The pairs of the hits of a workspace."""

    def __init__(self, workspace: Workspace, index: SearchIndex) -> None:
        self.index = index
        self.hits, self.chunks = (workspace.tables.read(name) for name in ("hits", "window_chunks"))
        vectors = embed_texts(
            workspace.embedder, self.chunks["text"].to_list(), task="query", cache=None
        ).vectors
        self.vectors = dict(zip(self.chunks["chunk_id"], vectors, strict=True))

    def find_vectors(self, ids: Sequence[str]) -> Vectors:
        return np.stack([self.vectors[chunk_id] for chunk_id in ids])

    def measure(self, hits: pl.DataFrame) -> dict[str, Values]:
        found = self.index.describe(hits["chunk_id"].unique(maintain_order=True))
        parts = list_parts(hits, self.chunks)
        return measure_pairs(read_pairs(hits, parts, found, self.find_vectors, self.index))


@pytest.fixture
def measured(made_workspace: Workspace, index: SearchIndex) -> Measured:
    return Measured(made_workspace, index)


def test_every_feature_of_the_model_has_a_finite_value_for_every_hit(measured: Measured) -> None:
    features = measured.measure(measured.hits)
    assert set(features) == {*OF_PARTS, *OF_SINGLE, "is_single"}
    assert all(values.shape == (len(measured.hits),) for values in features.values())
    assert all(np.isfinite(values).all() for values in features.values())


def test_a_window_alone_has_the_values_that_it_has_among_others(measured: Measured) -> None:
    together = measured.measure(measured.hits)
    windows = measured.hits["window_id"].unique(maintain_order=True).to_list()
    assert len(windows) > 1
    for window_id in windows:
        mine = (measured.hits["window_id"] == window_id).to_numpy()
        alone = measured.measure(measured.hits.filter(window_id=window_id))
        for name, values in alone.items():
            assert values == pytest.approx(together[name][mine], abs=1e-6), name


def test_the_order_of_the_hits_changes_no_value(measured: Measured) -> None:
    order = np.random.default_rng(7).permutation(len(measured.hits))
    plain, shuffled = measured.measure(measured.hits), measured.measure(measured.hits[order.tolist()])
    for name, values in shuffled.items():
        assert values == pytest.approx(plain[name][order], abs=1e-6), name


def test_shared_words_and_named_titles_raise_the_probability(measured: Measured) -> None:
    probability = pl.Series(read_pair_model().estimate(measured.measure(measured.hits)))
    judged = measured.hits.with_columns(probability=probability)
    shares = judged.filter(pl.col("keyword_score").is_not_null())["probability"].mean()
    others = judged.filter(pl.col("keyword_score").is_null())["probability"].mean()
    assert isinstance(shares, float)
    assert isinstance(others, float)
    assert shares > others


def test_words_are_read_in_their_order_and_the_sample_is_stable(index: SearchIndex) -> None:
    words = index.words_of(["the sourdough starter starter", "irrigation sourdough", "zygote"])
    first, second, third = np.split(words.term, words.start[1:-1])
    assert len(first) == 2
    assert second[1] == first[0]
    assert not len(third)
    few, many = index.sample_vectors(2), index.sample_vectors(100)
    assert (len(few), len(many)) == (2, index.manifest.rows)
    assert np.array_equal(few, many[:2])
