"""Posts over an open snapshot: a second, small collection in memory, which takes the place of the snapshot's own posts.

A run whose posts are documents searches each window in the posts before it. Posts count neither for the scores of words
nor for the calibration, so their rows are scored by the statistics of the snapshot, and no snapshot is built for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.base.ids import WRITTEN_PREFIX, digest
from backstory.index.engines.keyword_scores import order_entries, score_rows
from backstory.index.engines.keywords import IndexedWords
from backstory.index.request import Filters, SearchRequest
from backstory.index.result import SearchResult
from backstory.index.search import SearchIndex
from backstory.index.snapshot.content import Content
from backstory.index.snapshot.manifest import Manifest
from backstory.index.snapshot.publication import HeldRows
from backstory.models.embeddings.protocol import Vectors


def with_posts(index: SearchIndex, content: Content) -> SearchIndex:
    """Put posts in the place of those that an index holds.

    Args:
        index: An open snapshot, which stays open for as long as the result is used.
        content: The posts alone, arranged with the main stemmer of the snapshot.

    Returns:
        An index that answers, exactly, as a snapshot of the documents of people and these posts.
    """
    keywords, people = index.keywords, index.manifest
    entries = score_rows(content.list_rows(by_people=False), keywords.statistics)
    held = HeldRows(
        manifest=people.model_copy(
            update={
                "version": content.hash(people.calibration.model_dump_json()),
                "documents": content.documents.height,
                "rows": content.chunks.height,
                "hnsw": None,
            }
        ),
        vectors=np.concatenate([np.empty((0, people.dimension), np.float32), *content.read_vectors()]),
        documents=content.documents,
        chunks=content.told,
        texts=content.chunks["text"],
        keywords=keywords.with_scores(order_entries([entries], keywords.statistics)),
    )
    return _IndexWithPosts(index, SearchIndex(held))


class _IndexWithPosts(SearchIndex):
    """The documents of people in a snapshot, and posts in memory."""

    def __init__(self, people: SearchIndex, posts: SearchIndex) -> None:
        self._people = people
        self._posts = posts

    def close(self) -> None:
        """Leave the snapshot open, which was opened before."""

    @cached_property
    def manifest(self) -> Manifest:
        """Content and origin of both. The version is a hash of their versions."""
        people, posts = self._people.manifest, self._posts.manifest
        return people.model_copy(
            update={
                "version": digest([people.version, posts.version], length=8),
                "documents": self.documents.height,
                "rows": self._people.rows_by_people + posts.rows,
                "hnsw": None,
            }
        )

    def search(
        self, queries: Vectors, request: SearchRequest, *, texts: Sequence[str] | None = None
    ) -> SearchResult:
        """Find the best chunks for each query of a batch; see :meth:`SearchIndex.search`."""
        asked = replace(request, mode="exact")
        of_people = replace(asked, filters=_narrow(request.filters))
        if request.filters.by_people is not None:
            index = self._people if request.filters.by_people else self._posts
            return index.search(queries, asked, texts=texts)
        results = [
            self._people.search(queries, of_people, texts=texts),
            self._posts.search(queries, asked, texts=texts),
        ]
        moments = self.all_documents.select("document_id", "published_at")
        hits = (
            pl.concat(result.hits for result in results)
            .join(moments, on="document_id", how="left")
            .sort(
                *("query", "score", "similarity", "published_at", "chunk_id"),
                descending=[False, True, True, False, False],
            )
            .with_columns(rank=pl.int_range(1, pl.len() + 1).over("query"))
            .filter(pl.col("rank") <= request.top_k)
            .drop("published_at")
        )
        return SearchResult(hits, results[0].engine, results[0].reason)

    def count_admitted(self, filters: Filters) -> int:
        """Count the chunks that filters admit to a query; see :meth:`SearchIndex.count_admitted`."""
        of_people = 0 if filters.by_people is False else self._people.count_admitted(_narrow(filters))
        return of_people + (0 if filters.by_people else self._posts.count_admitted(filters))

    def describe(self, chunk_ids: Iterable[str]) -> pl.DataFrame:
        """Read chunks with the metadata of their documents; see :meth:`SearchIndex.describe`."""
        ids = list(chunk_ids)
        parts = self._split(ids)
        described = pl.concat(index.describe([ids[place] for place in places]) for index, places in parts)
        return described[np.argsort([place for _, places in parts for place in places])]

    def read_around(self, chunk_ids: Iterable[str]) -> pl.DataFrame:
        """Read chunks, and the one before and after each; see :meth:`SearchIndex.read_around`."""
        ids = list(chunk_ids)
        read = pl.concat(
            index.read_around([ids[place] for place in places]) for index, places in self._split(ids)
        )
        place = pl.DataFrame({"chunk_id": ids}, schema={"chunk_id": pl.String}).with_row_index("place")
        return (
            read.join(place, on="chunk_id", maintain_order="left")
            .sort("place", maintain_order=True)
            .drop("place")
        )

    def terms_of(self, texts: Sequence[str]) -> pl.DataFrame:
        """Find the words of texts that occur in the documents of people; see :meth:`SearchIndex.terms_of`."""
        return self._people.terms_of(texts)

    def words_of(self, texts: Sequence[str]) -> IndexedWords:
        """Find these words in their order; see :meth:`SearchIndex.words_of`."""
        return self._people.words_of(texts)

    def sample_vectors(self, most: int) -> NDArray[np.float64]:
        """Read the vectors of some chunks that people wrote; see :meth:`SearchIndex.sample_vectors`."""
        return self._people.sample_vectors(most)

    def vectors_of(self, chunk_ids: Iterable[str]) -> Vectors:
        """Read the vectors of chunks; see :meth:`SearchIndex.vectors_of`."""
        ids = list(chunk_ids)
        vectors = np.empty((len(ids), self.dimension), np.float32)
        for index, places in self._split(ids):
            vectors[places] = index.vectors_of([ids[place] for place in places])
        return vectors

    def list_posts(self, chunk_ids: Iterable[str]) -> list[str]:
        """List the chunks that are of posts; see :meth:`SearchIndex.list_posts`."""
        return [chunk_id for chunk_id in chunk_ids if chunk_id in self._posts]

    @property
    def rows_by_people(self) -> int:
        """Number of indexed chunks of documents that people wrote."""
        return self._people.rows_by_people

    @cached_property
    def all_documents(self) -> pl.DataFrame:
        """The documents of both; see :attr:`SearchIndex.all_documents`."""
        people = self._people.all_documents
        by_people = people.filter(~pl.col("uri").str.starts_with(WRITTEN_PREFIX))
        return pl.concat([by_people, self._posts.all_documents])

    def _split(self, chunk_ids: Sequence[str]) -> list[tuple[SearchIndex, list[int]]]:
        """Return the places of the chunks of people, and of those of posts."""
        is_post = [chunk_id in self._posts for chunk_id in chunk_ids]
        return [
            (index, [place for place, post in enumerate(is_post) if post is of_posts])
            for index, of_posts in ((self._people, False), (self._posts, True))
        ]


def _narrow(filters: Filters) -> Filters:
    return replace(filters, by_people=True)
