"""A snapshot in memory, of which no file is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from backstory.index.snapshot.database import Database
from backstory.index.snapshot.manifest import Manifest
from backstory.index.snapshot.shards import StoredVectors

if TYPE_CHECKING:  # a search by vectors alone does not load the keyword index
    from backstory.index.engines.keywords import KeywordIndex


@dataclass(frozen=True)
class HeldSnapshot:
    """A snapshot in memory; see :class:`backstory.index.snapshot.manifest.Snapshot`.

    Attributes:
        manifest: Content and origin.
        vectors: Vectors of the rows.
        rows: Id of each chunk, and position of its document.
        documents: The columns of the documents that filters need.
        database: Documents and chunks.
        keywords: The keyword index.
    """

    manifest: Manifest
    vectors: StoredVectors
    rows: pl.DataFrame
    documents: pl.DataFrame
    database: Database
    keywords: KeywordIndex

    def close(self) -> None:
        """Close the database."""
        self.database.close()
