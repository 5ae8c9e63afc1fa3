"""The open snapshot: it stays open between questions, and is replaced when another one is published."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from backstory.index.snapshot import current_version
from backstory.ingest.documents.files import list_foreign
from backstory.ingest.sources.listing import make_locator
from backstory.interfaces.library.freshness import explain_absence
from backstory.interfaces.library.names import ADDED_FOLDER, DocumentNames, name_documents
from backstory.models.embeddings.embed import embed_texts
from backstory.models.embeddings.protocol import Vectors
from backstory.pipeline.query_index import QueryIndex, open_for_queries
from backstory.pipeline.workspace import Workspace

_KEPT_SENTENCES: Final = 8192
"""Vectors of sentences that an open snapshot keeps: 12 MB of those of the local model."""


class OpenSnapshot:
    """An open :class:`~backstory.pipeline.query_index.QueryIndex`, which serves any number of threads.

    ``published`` is its version, as the pointer names it.
    """

    def __init__(self, served: QueryIndex, published: str) -> None:
        self.index, self.workspace, self.degraded = served.index, served.workspace, served.degraded
        self.published = published
        self._lock = threading.Lock()
        self._sentences: dict[str, NDArray[np.float32]] = {}

    def describe(self, chunk_ids: Iterable[str]) -> dict[str, Mapping[str, Any]]:
        """Describe chunks by id, as :meth:`~backstory.index.search.SearchIndex.describe`, with local dates."""
        wanted = list(dict.fromkeys(chunk_ids))
        rows = self.workspace.date_locally(self.index.describe(wanted)).iter_rows(named=True)
        return dict(zip(wanted, rows, strict=True))

    def embed_sentences(self, texts: Sequence[str]) -> tuple[Vectors, int]:
        """Embed sentences of the documents: unit vectors, and the tokens of the texts that were computed.

        The vectors of the most recent ones are kept in memory while the snapshot is open, and nowhere else: no run
        would find them again, and a file would outlive the document.
        """
        with self._lock:
            known = {text: self._sentences.pop(text) for text in texts if text in self._sentences}
        unknown = [text for text in dict.fromkeys(texts) if text not in known]
        embedded = embed_texts(self.workspace.embedder, unknown, task="document", cache=None)
        # Copies, since a view of a row keeps all rows that were computed with it, also those that are kept no longer.
        known |= {text: vector.copy() for text, vector in zip(unknown, embedded.vectors, strict=True)}
        with self._lock:
            self._sentences = dict([*(self._sentences | known).items()][-_KEPT_SENTENCES:])
        dimension = self.workspace.embedder.dimension
        vectors = np.array([known[text] for text in texts], np.float32).reshape(len(texts), dimension)
        return vectors, embedded.stats.tokens

    def read_metadata(self, uri: str, revision: str) -> Mapping[str, Any]:
        """Read the metadata with which the text of a document was added; empty for any other document."""
        if not uri.startswith(f"{ADDED_FOLDER}/"):
            return {}
        from backstory.interfaces.library.added_texts import read_metadata  # few documents need it

        return read_metadata(make_locator(self.workspace)(uri), uri, revision)

    def name_documents(self, tenant: str | None) -> list[DocumentNames]:
        """Return the documents of a tenant, None for every one, by all their names."""
        owned = zip(self.index.documents["tenant"], self._documents, strict=True)
        return [document for owner, document in owned if tenant in (None, owner)]

    @cached_property
    def revisions(self) -> Mapping[str, str]:
        """The revision of each document by its uri."""
        return dict(self.index.documents.select("uri", "revision").iter_rows())

    @cached_property
    def hidden(self) -> frozenset[str]:
        """The uris of documents of other tenants than that of the settings, which may be none."""
        return list_foreign(self.index.documents, self.workspace.settings.rag.tenant)

    @cached_property
    def _documents(self) -> list[DocumentNames]:
        return name_documents(self.workspace, self.index.documents)


class Snapshots:
    """Opens the published snapshot once; each reader continues with the one that it began with."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._lock = threading.Lock()
        self._current: OpenSnapshot | None = None

    @contextmanager
    def reading(self) -> Iterator[OpenSnapshot]:
        """Open the published snapshot, which stays open and unchanged while it is used."""
        self._workspace.follower.follow()
        with self._lock:
            published = current_version(self._workspace.index)
            if not published:
                raise explain_absence(self._workspace)
            current = self._current
            if current is None or current.published != published:
                self._current = current = OpenSnapshot(open_for_queries(self._workspace), published)
                # Its last reader may still have the former one.
                weakref.finalize(current, current.index.close)
        yield current

    def close(self) -> None:
        """Let go of the snapshot, which is closed after its last reader; the next reader opens it again."""
        with self._lock:
            self._current = None
