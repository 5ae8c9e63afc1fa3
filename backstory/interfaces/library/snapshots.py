"""The open snapshot: it stays open between questions, and is replaced when another one is published."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from backstory.base.local_times import localize
from backstory.index.search import SearchIndex
from backstory.index.snapshot import current_version
from backstory.ingest.documents.files import list_foreign
from backstory.interfaces.library.freshness import explain_absence
from backstory.interfaces.library.names import ADDED_FOLDER, NamedDocument, make_locator, name_documents
from backstory.models.embeddings.embed import embed_texts
from backstory.models.embeddings.protocol import Vectors
from backstory.pipeline.query_index import QueryIndex, open_for_queries
from backstory.pipeline.workspace import Workspace

_KEPT_DESCRIPTIONS: Final = 4096
"""Descriptions of chunks that an open snapshot keeps, a few megabytes."""
_KEPT_SENTENCES: Final = 8192
"""Vectors of sentences that an open snapshot keeps: 12 MB of those of the local model."""


@dataclass
class OpenSnapshot:
    """An open snapshot, which serves any number of threads.

    ``published`` is the version that was published when it was opened, ``readers`` the number of its present readers,
    the last of whom closes it if it ``is_retired``. ``lock`` guards what is cached.
    """

    served: QueryIndex
    published: str | None
    readers: int = field(default=0, init=False)
    is_retired: bool = field(default=False, init=False)
    described: dict[str, Mapping[str, Any]] = field(default_factory=dict, init=False, repr=False)
    lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)
    _sentences: dict[str, NDArray[np.float32]] = field(default_factory=dict, init=False, repr=False)

    @property
    def index(self) -> SearchIndex:
        """The open index."""
        return self.served.index

    @property
    def workspace(self) -> Workspace:
        """The workspace, with the embedder of the index."""
        return self.served.workspace

    def describe(self, chunk_ids: Sequence[str]) -> dict[str, Mapping[str, Any]]:
        """Describe chunks by id, as :meth:`~backstory.index.search.SearchIndex.describe`, and cache the most recent."""
        with self.lock:
            unknown = [chunk_id for chunk_id in dict.fromkeys(chunk_ids) if chunk_id not in self.described]
            if len(self.described) + len(unknown) > _KEPT_DESCRIPTIONS:
                self.described.clear()
                unknown = list(dict.fromkeys(chunk_ids))
            if unknown:
                zone = self.workspace.settings.conversations.timezone
                for chunk_id, row in zip(
                    unknown, self.index.describe(unknown).iter_rows(named=True), strict=True
                ):
                    date = row["published_at"] and localize(row["published_at"], zone)
                    self.described[chunk_id] = {**row, "published_at": date}
            return {chunk_id: self.described[chunk_id] for chunk_id in chunk_ids}

    def embed_sentences(self, texts: Sequence[str]) -> tuple[Vectors, int]:
        """Embed sentences of the documents: unit vectors, and the tokens of the texts that were computed.

        The vectors of the most recent ones are kept in memory while the snapshot is open, and nowhere else: no run
        would find them again, and a file would outlive the document.
        """
        with self.lock:
            known = {text: self._sentences.pop(text) for text in texts if text in self._sentences}
        unknown = [text for text in dict.fromkeys(texts) if text not in known]
        embedded = embed_texts(self.workspace.embedder, unknown, task="document", cache=None)
        # Copies, since a view of a row keeps all rows that were computed with it, also those that are kept no longer.
        known |= {text: vector.copy() for text, vector in zip(unknown, embedded.vectors, strict=True)}
        with self.lock:
            self._sentences |= known
            for text in list(self._sentences)[: max(0, len(self._sentences) - _KEPT_SENTENCES)]:
                del self._sentences[text]
        dimension = self.workspace.embedder.dimension
        vectors = np.array([known[text] for text in texts], np.float32).reshape(len(texts), dimension)
        return vectors, embedded.stats.tokens

    def read_metadata(self, uri: str, revision: str) -> Mapping[str, Any]:
        """Read the metadata with which the text of a document was added; empty for any other document."""
        if not uri.startswith(f"{ADDED_FOLDER}/"):
            return {}
        from backstory.interfaces.library.added_texts import read_metadata  # few documents need it

        return read_metadata(self._locate_file(uri), uri, revision)

    @cached_property
    def _locate_file(self) -> Callable[[str], Path]:
        return make_locator(self.workspace)

    def name_documents(self, tenant: str | None) -> list[NamedDocument]:
        """Return the documents by all their names."""
        wanted = self.workspace.settings.rag.tenant if tenant is None else tenant
        owned = zip(self.index.documents["tenant"], self._documents, strict=True)
        return [document for tenant, document in owned if wanted in (None, tenant)]

    @cached_property
    def revisions(self) -> Mapping[str, str]:
        """The revision of each document by its uri."""
        return dict(self.index.documents.select("uri", "revision").iter_rows())

    @cached_property
    def hidden(self) -> frozenset[str]:
        """The uris of documents of other tenants than that of the settings, which may be none."""
        return list_foreign(self.index.documents, self.workspace.settings.rag.tenant)

    @cached_property
    def _documents(self) -> list[NamedDocument]:
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
        snapshot = self._take()
        try:
            yield snapshot
        finally:
            self._give_back(snapshot)

    def close(self) -> None:
        """Close the snapshot after its last reader; the next reader opens it again."""
        with self._lock:
            self._retire()

    def _take(self) -> OpenSnapshot:
        self._workspace.follower.follow()
        with self._lock:
            published = current_version(self._workspace.index)
            if not published:
                raise explain_absence(self._workspace)
            current = self._current
            if current is None or current.published != published:
                opened = OpenSnapshot(open_for_queries(self._workspace), published)
                self._retire()
                self._current = current = opened
            current.readers += 1
            return current

    def _give_back(self, snapshot: OpenSnapshot) -> None:
        with self._lock:
            snapshot.readers -= 1
            if snapshot.is_retired and not snapshot.readers:
                snapshot.index.close()

    def _retire(self) -> None:
        retired, self._current = self._current, None
        if retired is not None:
            retired.is_retired = True
            if not retired.readers:
                retired.index.close()
