"""A snapshot in memory answers as a published one of the same content does, and is only made where posts are added."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

from backstory.base.ids import WRITTEN_PREFIX
from backstory.index.calibration import DEFAULT_CALIBRATION
from backstory.index.request import Filters, SearchRequest
from backstory.index.search import SearchIndex
from backstory.index.snapshot.build import publish_content
from backstory.index.snapshot.content import Content, arrange
from backstory.index.snapshot.interim import InterimSnapshots
from backstory.index.snapshot.manifest import KEYWORDS_FOLDER
from backstory.index.snapshot.opening import open_index
from backstory.settings.models import IndexSettings
from tests.index.conftest import Corpus

TEXTS = ["topic3 and words of item5", "part1", "topic11", "what nobody wrote"]


def arrange_with(corpus: Corpus, posts: int, language: str = "en") -> Content:
    """Arrange a corpus whose first documents of three are people's or, as many as given, posts."""
    is_post = pl.int_range(pl.len()) % 3 == 0
    number = pl.int_range(pl.len()) // 3
    documents = corpus.documents.with_columns(
        uri=pl.when(is_post).then(pl.lit(WRITTEN_PREFIX) + "written/" + pl.col("slug")).otherwise("uri")
    ).filter(~is_post | (number < posts))
    kept = corpus.chunks["document_id"].is_in(documents["document_id"].implode())
    return arrange(
        documents,
        corpus.chunks.filter(kept),
        corpus.vectors[kept.to_numpy()],
        "test-24",
        IndexSettings(),
        dict.fromkeys(documents["document_id"].to_list(), language),
    )


def describe(index: SearchIndex, corpus: Corpus, ids: list[str]) -> list[pl.DataFrame]:
    queries = corpus.queries(len(TEXTS))
    found = [
        index.search(
            queries, SearchRequest(top_k=7, ranking=ranking, filters=Filters(by_people=of)), texts=TEXTS
        ).hits
        for ranking in ("dense", "keyword", "hybrid")
        for of in (None, True, False)
    ]
    words = index.words_of(TEXTS)
    return [
        *found,
        index.documents,
        index.describe(ids),
        index.read_around(ids),
        index.terms_of(TEXTS),
        pl.DataFrame({"term": words.term, "rarity": words.rarity}),
        pl.DataFrame(
            {
                "version": [index.version],
                "by_people": [index.rows_by_people],
                "posts": [index.list_posts(ids)],
            }
        ),
    ]


def test_it_answers_as_a_published_one(new_corpus: Callable[..., Corpus], tmp_path: Path) -> None:
    corpus = new_corpus(24)
    snapshots = InterimSnapshots(arrange_with(corpus, 1), DEFAULT_CALIBRATION)
    for posts in (2, 5, 0, 8):
        content = arrange_with(corpus, posts)
        assert snapshots.fits(content)
        publish_content(tmp_path / str(posts), content, DEFAULT_CALIBRATION)
        with snapshots.open(content) as found, open_index(tmp_path / str(posts)) as wanted:
            ids = content.chunks["chunk_id"].to_list()[::-3]
            pairs = list(zip(describe(found, corpus, ids), describe(wanted, corpus, ids), strict=True))
            assert [one.equals(other) and one.schema == other.schema for one, other in pairs] == [True] * len(
                pairs
            )
            assert np.array_equal(found.vectors_of(ids), wanted.vectors_of(ids))
            assert np.array_equal(found.sample_vectors(9), wanted.sample_vectors(9))


def test_posts_alone_are_added(new_corpus: Callable[..., Corpus]) -> None:
    corpus = new_corpus(24)
    snapshots = InterimSnapshots(arrange_with(corpus, 1), DEFAULT_CALIBRATION)
    title = pl.when(pl.col("document_id") == "doc00001").then(pl.lit("Another")).otherwise("title")
    for changed in (
        Corpus(corpus.documents.with_columns(title=title), corpus.chunks, corpus.vectors),
        Corpus(corpus.documents.head(20), corpus.chunks.head(40), corpus.vectors[:40]),
    ):
        assert not snapshots.fits(arrange_with(changed, 2))
    assert not snapshots.fits(arrange_with(corpus, 2, "de"))


def test_rows_that_were_counted_before_give_the_same_files(
    new_corpus: Callable[..., Corpus], tmp_path: Path
) -> None:
    corpus = new_corpus(24)
    rows = InterimSnapshots(arrange_with(corpus, 1), DEFAULT_CALIBRATION).rows
    for posts in (5, 2, 8):
        content = arrange_with(corpus, posts)
        builds = [
            publish_content(tmp_path / f"{posts} {name}", content, DEFAULT_CALIBRATION, given)
            for name, given in (("counted", rows), ("alone", None))
        ]
        counted, alone = (
            {path.name: path.read_bytes() for path in (build.folder / KEYWORDS_FOLDER).iterdir()}
            for build in builds
        )
        assert counted == alone
