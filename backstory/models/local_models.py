"""The models of this machine that the workspaces of a process share."""

from __future__ import annotations

import threading

from backstory.models.embeddings.choice import make_embedder
from backstory.models.embeddings.protocol import Embedder
from backstory.models.rerankers.protocol import Reranker
from backstory.settings.embedding import EmbeddingSettings
from backstory.settings.models import RerankSettings


class LocalModels:
    """Opens the models of equal settings once. They stay open as long as this object, and threads may share them.

    A model keeps nothing of what it read, so that workspaces of different people may share it. Models behind a service
    are never shared: each has the key and the budget of its workspace.
    """

    def __init__(self) -> None:
        self._opening = threading.Lock()
        self._embedders: dict[str, Embedder] = {}
        self._rerankers: dict[str, Reranker | None] = {}

    def open_embedder(self, settings: EmbeddingSettings) -> Embedder:
        """Return the embedder of settings that name no service; see :func:`make_embedder`."""
        key = settings.model_dump_json()
        with self._opening:
            if key not in self._embedders:
                self._embedders[key] = make_embedder(settings)
            return self._embedders[key]

    def open_reranker(self, settings: RerankSettings) -> Reranker | None:
        """Return the reranker of settings that name no service; None if they name none."""
        from backstory.models.rerankers.choice import make_reranker

        key = settings.model_dump_json()
        with self._opening:
            if key not in self._rerankers:
                self._rerankers[key] = make_reranker(settings)
            return self._rerankers[key]
