"""The content of a snapshot: documents, chunks and vectors, checked and in the order of the rows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import TypedDict

import duckdb
import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.base.errors import ContractError, InputError
from backstory.base.ids import WRITTEN_PREFIX
from backstory.index.engines.matches import find_stray_vector
from backstory.index.engines.scope import list_moments
from backstory.index.snapshot.manifest import FORMAT
from backstory.index.snapshot.shards import ROWS_AT_ONCE
from backstory.models.embeddings.protocol import Vectors
from backstory.settings.models import IndexSettings
from backstory.text.languages import detect_language
from backstory.text.stemmers import EACH_BY_ITS_OWN, choose_stemmers

_KEY = ["document_id", "revision"]
_FILTER_COLUMNS = ["document_id", "revision", "kind", "tags", "tenant", "published_at"]
_DOCUMENT_COLUMNS = [*_KEY, "uri", "title", "slug", "published_at", "tags", "kind", "tenant"]


class RowTexts:
    """The searched text of each row, which is made when it is read.

    Args:
        chunks: The chunks in the order of the rows, with the title of their document.
    """

    def __init__(self, chunks: pl.DataFrame) -> None:
        self._chunks = chunks

    def __len__(self) -> int:
        return self._chunks.height

    def __getitem__(self, rows: slice) -> list[str]:
        """Make the texts of some rows."""
        texts = pl.concat_str("title", "heading", "text", separator="\n")
        return self._chunks[rows].select(texts).to_series().to_list()


class SearchedTexts(TypedDict):
    """The arguments of :func:`backstory.index.engines.keyword_files.write_keywords` for the rows of a snapshot."""

    texts: RowTexts
    stemmers: pl.Series
    counted: NDArray[np.bool_]


@dataclass(frozen=True)
class Content:
    """The content of a snapshot.

    Attributes:
        documents: The searched documents, ordered by id.
        chunks: Their chunks in the order of the rows, with the document's title and position.
        vectors: Unit rows in the order of the input.
        source: Position in ``vectors`` of each row.
        embedder_id: Name of the vectors' embedding space.
        settings: Settings of the index.
        stemmers: Stemmer of each document.
    """

    documents: pl.DataFrame
    chunks: pl.DataFrame
    vectors: Vectors
    source: pl.Series
    embedder_id: str
    settings: IndexSettings
    stemmers: pl.Series

    @property
    def by_people(self) -> pl.Series:
        """Whether each document was written by people, and not by this library."""
        return _written_by_people(self.documents)

    @property
    def rows(self) -> pl.DataFrame:
        """The id of each chunk, and the position of its document."""
        return self.chunks.select("chunk_id", pl.col("document").cast(pl.Int64))

    @property
    def filtered(self) -> pl.DataFrame:
        """The columns of the documents that filters need."""
        return self.documents.select(_FILTER_COLUMNS)

    @property
    def stored(self) -> pl.DataFrame:
        """The chunks as the database holds them."""
        return self.chunks.drop("document", "title")

    @property
    def searched(self) -> SearchedTexts:
        """What the keyword index is made of.

        Written posts must not change the scores of other documents: else the hits of a window would depend on posts
        that are written later. So they do not count.
        """
        document = self.chunks["document"]
        return {
            "texts": RowTexts(self.chunks),
            "stemmers": self.stemmers.gather(document),
            "counted": self.by_people.gather(document).to_numpy(),
        }

    @property
    def has_hnsw(self) -> bool:
        """Whether the database gets an HNSW index, since there are enough rows."""
        return self.settings.engine == "embedded" and 0 < self.chunks.height >= self.settings.ann_min_rows

    @property
    def is_in_milvus(self) -> bool:
        """Whether a Milvus server gets the vectors."""
        return self.settings.engine == "milvus" and self.chunks.height > 0

    @property
    def tenants(self) -> pl.Series:
        """The tenant of each row; empty if it has none."""
        return self.documents["tenant"].fill_null("").gather(self.chunks["document"])

    @property
    def moments(self) -> NDArray[np.int64]:
        """When the document of each row was published."""
        moments: NDArray[np.int64] = list_moments(self.documents)[self.chunks["document"].to_numpy()]
        return moments

    def hash(self, calibration: str) -> str:
        """Hash the content, the settings and the calibration, as JSON, into the snapshot's version."""
        state = hashlib.blake2b(digest_size=8)
        unread = {"engine", "uri"} if self.settings.engine == "embedded" else {"ann_min_rows"}
        effective = self.settings.model_dump_json(exclude={"keep_snapshots", "allow_http", *unread})
        header = [
            str(FORMAT), duckdb.__version__, self.embedder_id, effective, calibration, str(self.vectors.shape[1]),
        ]  # fmt: skip
        state.update("\n".join([*header, *self.stemmers]).encode())
        for frame in (self.documents, self.chunks):
            for rows in frame.iter_slices(ROWS_AT_ONCE):
                buffer = BytesIO()
                rows.write_ndjson(buffer)
                state.update(buffer.getbuffer())
        for start in range(0, len(self.source), ROWS_AT_ONCE):
            state.update(self.vectors[self.source[start : start + ROWS_AT_ONCE].to_numpy()].tobytes())
        return state.hexdigest()


def arrange(
    documents: pl.DataFrame,
    document_chunks: pl.DataFrame,
    vectors: Vectors,
    embedder_id: str,
    settings: IndexSettings,
    languages: Mapping[str, str | None] | None,
) -> Content:
    """Check and order the content of a snapshot; see :func:`backstory.index.snapshot.build.build_index`.

    Raises:
        InputError: The vectors do not fit the chunks, or are not finite unit rows of float32.
        ContractError: A chunk's document is absent, or a document or chunk occurs twice.
    """
    _check_vectors(vectors, document_chunks.height)
    unknown = document_chunks.join(documents, on=_KEY, how="anti")
    if unknown.height:
        raise ContractError(
            f"{unknown.height} document chunks belong to no document, such as {unknown['chunk_id'][0]!r}; "
            "materialize documents and document_chunks together",
            code="unknown_document",
            chunks=unknown["chunk_id"].to_list(),
        )
    ok = documents.filter(pl.col("status") == "ok").sort("document_id")
    searched = ok.select(_DOCUMENT_COLUMNS)
    for name, column in (("document", searched["document_id"]), ("chunk", document_chunks["chunk_id"])):
        if column.n_unique() < len(column):
            raise ContractError(
                f"{name} {column.filter(column.is_duplicated())[0]!r} occurs twice",
                code="duplicate",
                kind=name,
                id=column.filter(column.is_duplicated())[0],
            )
    ordered = (
        document_chunks.with_row_index("source")
        .join(
            searched.with_row_index("document").select(*_KEY, "document", "published_at", "title"),
            on=_KEY,
            how="inner",
        )
        .sort("published_at", "chunk_id", nulls_last=False)
    )
    return Content(
        documents=searched,
        chunks=ordered.drop("source", "published_at"),
        vectors=vectors,
        source=ordered["source"],
        embedder_id=embedder_id,
        settings=settings,
        stemmers=_choose_stemmers(ok, languages, settings.language),
    )


def _choose_stemmers(
    documents: pl.DataFrame, languages: Mapping[str, str | None] | None, setting: str
) -> pl.Series:
    """Choose the stemmer of each document; languages that are not given are detected if the choice needs them."""
    if languages is not None:
        found = [languages[document_id] for document_id in documents["document_id"]]
    elif setting == EACH_BY_ITS_OWN:
        found = [detect_language(texts) for texts in documents.select("title", "text").iter_rows()]
    else:
        found = [None] * len(documents)
    chosen = choose_stemmers(found, _written_by_people(documents), setting)
    return pl.Series("stemmer", chosen, dtype=pl.String)


def _written_by_people(documents: pl.DataFrame) -> pl.Series:
    return ~documents["uri"].str.starts_with(WRITTEN_PREFIX)


def _check_vectors(vectors: Vectors, chunk_count: int) -> None:
    if vectors.ndim != 2 or vectors.dtype != np.float32 or vectors.shape[1] == 0:
        raise InputError(
            f"vectors have shape {vectors.shape} and type {vectors.dtype}; pass float32 of shape "
            "(chunks, dimension)",
            code="unusable_vectors",
            shape=vectors.shape,
            dtype=str(vectors.dtype),
        )
    if len(vectors) != chunk_count:
        raise InputError(
            f"{len(vectors)} vectors for {chunk_count} chunks; pass one per chunk, in the order of the chunks",
            code="wrong_count",
            count=len(vectors),
            expected=chunk_count,
        )
    if (stray := find_stray_vector(vectors)) is not None:
        raise InputError(
            f"vector {stray} is not a finite unit vector; normalise the rows",
            code="no_unit_vector",
            row=stray,
        )
