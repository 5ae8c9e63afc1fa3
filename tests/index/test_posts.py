"""Posts over an open snapshot answer as a published snapshot of the same content does."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

from backstory.base.ids import WRITTEN_PREFIX
from backstory.index.build import Content, arrange, publish_content
from backstory.index.calibration import DEFAULT_CALIBRATION
from backstory.index.posts import with_posts
from backstory.index.request import Filters, SearchRequest
from backstory.index.search import SearchIndex, open_index
from backstory.settings.models import IndexSettings
from tests.index.conftest import Corpus

TEXTS = ["topic3 and words of item5", "part1", "topic11", "what nobody wrote"]


LANGUAGES = ("en", None, "de")


def arrange_with(corpus: Corpus, posts: int, *, main_stemmer: str | None = None) -> Content:
    """Arrange a corpus whose first documents of three are people's or, as many as given, posts.

    With the main stemmer of a snapshot, only the posts are arranged.
    """
    is_post = pl.int_range(pl.len()) % 3 == 0
    number = pl.int_range(pl.len()) // 3
    documents = corpus.documents.with_columns(
        uri=pl.when(is_post).then(pl.lit(WRITTEN_PREFIX) + "written/" + pl.col("slug")).otherwise("uri")
    ).filter(~is_post | (number < posts))
    if main_stemmer is not None:
        documents = documents.filter(pl.col("uri").str.starts_with(WRITTEN_PREFIX))
    kept = corpus.chunks["document_id"].is_in(documents["document_id"].implode())
    languages = [LANGUAGES[int(name[-1]) % 3] for name in documents["document_id"]]
    documents = documents.with_columns(language=pl.Series(languages, dtype=pl.String))
    chunks, vectors = corpus.chunks.filter(kept), corpus.vectors[kept.to_numpy()]
    return arrange(documents, chunks, vectors, "test-24", IndexSettings(), main_stemmer)


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
                "rows": [index.manifest.rows],
                "documents": [index.manifest.documents],
                "admitted": [index.count_admitted(Filters(kinds=["post"]))],
                "by_people": [index.count_admitted(Filters(by_people=True))],
                "posts": [index.list_posts(ids)],
            }
        ),
    ]


def test_they_answer_as_a_published_snapshot(new_corpus: Callable[..., Corpus], tmp_path: Path) -> None:
    corpus = new_corpus(24)
    publish_content(tmp_path / "base", arrange_with(corpus, 3), DEFAULT_CALIBRATION)
    versions = set[str]()
    with open_index(tmp_path / "base") as base:
        for posts in (2, 5, 0, 8, 2):
            content = arrange_with(corpus, posts)
            publish_content(tmp_path / str(posts), content, DEFAULT_CALIBRATION)
            over = with_posts(base, arrange_with(corpus, posts, main_stemmer=base.manifest.main_stemmer))
            versions.add(over.manifest.version)
            with over as found, open_index(tmp_path / str(posts)) as wanted:
                ids = content.chunks["chunk_id"].to_list()[::-3]
                pairs = zip(describe(found, corpus, ids), describe(wanted, corpus, ids), strict=True)
                assert all(one.equals(other) and one.schema == other.schema for one, other in pairs)
                assert np.array_equal(found.vectors_of(ids), wanted.vectors_of(ids))
                assert np.array_equal(found.sample_vectors(9), wanted.sample_vectors(9))
                result = found.search(corpus.queries(1), SearchRequest(top_k=1))
                assert (result.engine, "memory" in result.reason) == ("exact", True)
                for read in (SearchIndex.describe, SearchIndex.read_around):
                    assert getattr(found, read.__name__)([]).equals(read(wanted, []))
        assert base.search(corpus.queries(1), SearchRequest(top_k=1)).hits.height == 1
        assert len(versions - {base.manifest.version}) == 4
