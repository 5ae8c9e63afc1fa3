"""Snapshots in memory: the documents of a published one, with more and more posts while a run lasts.

A run whose posts are documents searches each window in the posts before it. Only the last of these snapshots is
published, so that no other is written, flushed and read again.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.index.calibration import Calibration
from backstory.index.engines.keyword_files import CountedRows, Strings, split_rows
from backstory.index.engines.keywords import KeywordIndex, StoredScores
from backstory.index.engines.score_blocks import ENTRY
from backstory.index.search import SearchIndex
from backstory.index.snapshot.content import Content
from backstory.index.snapshot.database import hold_database
from backstory.index.snapshot.held import HeldSnapshot
from backstory.index.snapshot.manifest import FORMAT, Manifest


class InterimSnapshots:
    """Makes snapshots that differ from a published one in posts alone. What depends on people's documents is kept.

    Attributes:
        rows: The rows of people's documents, which alone count for the scores of words.
    """

    def __init__(self, published: Content, calibration: Calibration) -> None:
        """Remember what is published, and count its rows.

        Args:
            published: The content of the published snapshot.
            calibration: Its calibration, which depends on the documents that people wrote.
        """
        self.rows = CountedRows(**published.searched)
        self._of_people = _describe_people(published)
        self._calibration = calibration
        self._keywords: KeywordIndex | None = None

    def fits(self, content: Content) -> bool:
        """Return whether content differs from what was published in posts alone."""
        documents, chunks = _describe_people(content)
        return documents.equals(self._of_people[0]) and chunks.equals(self._of_people[1])

    def open(self, content: Content) -> SearchIndex:
        """Open a snapshot of content that :meth:`fits`, which has too few rows for an HNSW index by its settings.

        Its version is that of a published snapshot of the same content.
        """
        keywords = self._add_rows(**content.searched)
        vectors = content.vectors[content.source.to_numpy()]
        languages = self.rows.languages
        manifest = Manifest(
            format=FORMAT,
            version=content.hash(self._calibration.model_dump_json()),
            embedder_id=content.embedder_id,
            dimension=vectors.shape[1],
            documents=content.documents.height,
            rows=content.chunks.height,
            words=sum(language.terms for language in languages),
            languages=languages,
            settings=content.settings,
            hnsw=None,
            calibration=self._calibration,
            made_with={},
            files={},
        )
        database = hold_database(content.documents, content.stored)
        return SearchIndex(
            HeldSnapshot(manifest, vectors, content.rows, content.filtered, database, keywords)
        )

    def _add_rows(self, texts: Strings, stemmers: Strings, counted: NDArray[np.bool_]) -> KeywordIndex:
        """Score the rows of posts by the statistics of the others, which are computed once."""
        places, others = split_rows(texts, stemmers, counted)
        rows = self.rows
        if not rows.languages:
            return KeywordIndex(None, ())
        ordered = rows.order_with(places, others)
        entries = np.concatenate([np.empty(0, ENTRY), *ordered.pieces])
        bounds, row, score = ordered.bounds, entries["row"].copy(), entries["score"].copy()
        if self._keywords is None:
            self._keywords = KeywordIndex(
                StoredScores(bounds, row, score, rows.names), rows.languages, rows.frequency
            )
        return self._keywords.with_scores(bounds, row, score)


def _describe_people(content: Content) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the documents that people wrote with their stemmers, and their chunks."""
    by_people = content.by_people
    documents = content.documents.with_columns(stemmer=content.stemmers).filter(by_people)
    chunks = content.chunks.filter(by_people.gather(content.chunks["document"]))
    return documents, chunks.drop("document")
