"""Posts over an open snapshot: a second, small collection in memory, which takes the place of the snapshot's own posts.

A run whose posts are documents searches each window in the posts before it. Posts count neither for the scores of words
nor for the calibration, so their rows are scored by the statistics of the snapshot, and no snapshot is built for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.base.ids import WRITTEN_PREFIX, digest
from backstory.index.build import Content
from backstory.index.request import Filters, SearchRequest
from backstory.index.search import SearchIndex, SearchResult
from backstory.index.snapshot import HeldRows, Manifest
from backstory.index.terms import order_entries, score_rows
from backstory.models.embeddings.protocol import Vectors

_REASON: Final = "posts lie over the snapshot in memory, so every chunk is compared"


def with_posts(index: SearchIndex, content: Content) -> SearchIndex:
    """Put posts, arranged with the main stemmer of a snapshot, in the place of those that it holds.

    The index answers, exactly, as a snapshot of these and the documents of people would, which stays open meanwhile.
    """
    keywords, manifest = index.snapshot.keywords, index.manifest
    entries = score_rows(content.list_rows(by_people=False), keywords.statistics)
    counts = {"documents": content.documents.height, "rows": content.chunks.height, "recall_at_5": None}
    version = content.hash(manifest.calibration.model_dump_json())
    held = HeldRows(
        manifest=manifest.model_copy(update={"version": version, **counts}),
        vectors=content.vectors,
        documents=content.documents,
        chunks=content.told,
        texts=content.chunks["text"],
        keywords=keywords.with_scores(order_entries([entries], keywords.statistics)),
    )
    return _IndexWithPosts(index, SearchIndex(held))


class _IndexWithPosts(SearchIndex):
    """The documents of people in a snapshot, and posts in memory. The snapshot stays open when this is closed."""

    def __init__(self, people: SearchIndex, posts: SearchIndex) -> None:
        super().__init__(people.snapshot)
        self._people, self._posts = people, posts

    def close(self) -> None:
        pass

    @cached_property
    def manifest(self) -> Manifest:
        people, posts = self._people.manifest, self._posts.manifest
        version = digest([people.version, posts.version], length=8)
        counts = {"documents": self.documents.height, "rows": self.count_admitted(Filters())}
        return people.model_copy(update={"version": version, "recall_at_5": None, **counts})

    def search(
        self, queries: Vectors, request: SearchRequest, *, texts: Sequence[str] | None = None
    ) -> SearchResult:
        results = [
            index.search(
                queries,
                replace(request, mode="exact", filters=replace(request.filters, by_people=by_people)),
                texts=texts,
            )
            for index, by_people in ((self._people, True), (self._posts, False))
            if request.filters.by_people in (None, by_people)
        ]
        moments = self.documents.select("document_id", "published_at")
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
        engine, reason = results[0].engine, results[0].reason
        return SearchResult(hits, engine, _REASON if engine == "exact" else reason)

    def count_admitted(self, filters: Filters) -> int:
        by_people = filters.by_people
        people = 0 if by_people is False else self._people.count_admitted(replace(filters, by_people=True))
        return people + (0 if by_people else self._posts.count_admitted(filters))

    def describe(self, chunk_ids: Iterable[str]) -> pl.DataFrame:
        people, posts, order = self._split(chunk_ids)
        return pl.concat([self._people.describe(people), self._posts.describe(posts)])[order]

    def read_around(self, chunk_ids: Iterable[str]) -> pl.DataFrame:
        ids = list(chunk_ids)
        people, posts, _ = self._split(ids)
        read = pl.concat([self._people.read_around(people), self._posts.read_around(posts)])
        places = {chunk_id: place for place, chunk_id in enumerate(ids)}
        return read[np.argsort([places[chunk_id] for chunk_id in read["chunk_id"]], kind="stable")]

    def vectors_of(self, chunk_ids: Iterable[str]) -> Vectors:
        people, posts, order = self._split(chunk_ids)
        vectors: Vectors = np.concatenate([self._people.vectors_of(people), self._posts.vectors_of(posts)])
        return vectors[order]

    def list_posts(self, chunk_ids: Iterable[str]) -> list[str]:
        return [chunk_id for chunk_id in chunk_ids if chunk_id in self._posts]

    def sample_vectors(self, most: int) -> NDArray[np.float64]:
        return self._people.sample_vectors(most)

    @cached_property
    def documents(self) -> pl.DataFrame:
        by_people = self._people.documents.filter(~pl.col("uri").str.starts_with(WRITTEN_PREFIX))
        return pl.concat([by_people, self._posts.documents]).sort("uri", "document_id")

    def _split(self, chunk_ids: Iterable[str]) -> tuple[list[str], list[str], NDArray[np.int64]]:
        """Return the chunks of people, those of posts, and where each asked one is among both."""
        ids = list(chunk_ids)
        is_post = np.array([chunk_id in self._posts for chunk_id in ids], bool)
        order = np.argsort(is_post, kind="stable")
        people = len(ids) - int(is_post.sum())
        return (
            [ids[place] for place in order[:people]],
            [ids[place] for place in order[people:]],
            np.argsort(order),
        )
