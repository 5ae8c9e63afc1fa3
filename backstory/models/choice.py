"""The embedder and the reranker that settings, or a model's name, choose."""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import TYPE_CHECKING

from backstory.base.environment import Keys, cache_folder, read_api_key
from backstory.base.errors import InputError
from backstory.models.embeddings.protocol import Embedder
from backstory.models.reranker import Reranker
from backstory.models.usage import CallMeter, Unmetered
from backstory.settings.embedding import LOCAL_MODELS, EmbeddingSettings
from backstory.settings.groups import SERVICES
from backstory.settings.models import RerankSettings

if TYPE_CHECKING:
    from google import genai
    from pydantic import SecretStr

_GEMINI_NAMESPACES = ("", "google-gla", "gemini")
_GEMINI_FAMILIES = ("gemini-embedding", "text-embedding")


def make_embedder(
    settings: EmbeddingSettings,
    meter: CallMeter = Unmetered(),  # noqa: B008 - immutable
    keys: Keys | None = None,
) -> Embedder:
    """Make the embedder that the settings name, which loads its model or client when first used.

    The meter counts what calls of a paid service use, within budgets. The keys are those of the workspace, or with None
    those of the environment. A ``MissingExtraError`` means that packages are not installed, a ``ModelSetupError`` that
    the local model is absent, damaged, or of a kind that cannot be run.
    """
    if settings.provider in SERVICES:
        from backstory.models.embeddings.service_embedder import GeminiEmbedder, ServiceEmbedder
        from backstory.models.service import Service

        kind = GeminiEmbedder if settings.provider == "gemini" else ServiceEmbedder
        return kind(settings, Service(settings, meter=meter, keys=keys))
    if settings.provider == "hashing":
        from backstory.models.embeddings.hashing import HashingEmbedder

        return HashingEmbedder(languages=settings.languages)
    from backstory.models.embeddings import packs
    from backstory.models.embeddings.local_embedder import open_own_model, open_pack

    if settings.model_dir is not None:
        return open_own_model(settings)
    return open_pack(
        packs.read_e5_pack() if settings.model == "multilingual" else packs.read_granite_pack(),
        cache_folder() / "models",
        runtime=settings.runtime,
        int8=settings.precision == "int8",
        languages=settings.languages,
    )


def make_reranker(
    settings: RerankSettings,
    meter: CallMeter = Unmetered(),  # noqa: B008 - immutable
    keys: Keys | None = None,
) -> Reranker | None:
    """Make the reranker that the settings name, or None for the provider ``none``; see :func:`make_embedder`."""
    if settings.provider == "none":
        return None
    if settings.provider == "cross_encoder":
        from backstory.models.cross_encoder import CrossEncoderReranker

        return CrossEncoderReranker(settings)
    from backstory.models.chat_model import ChatModel
    from backstory.models.llm_reranker import LLMReranker
    from backstory.models.service import Service

    model = ChatModel(settings, Service(settings, meter=meter, keys=keys))
    return LLMReranker(model, threads=settings.threads, meter=meter)


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
        key = settings.model_dump_json()
        with self._opening:
            if key not in self._rerankers:
                self._rerankers[key] = make_reranker(settings)
            return self._rerankers[key]


def resolve_embedder(embedding_model: str | Embedder, *, client: genai.Client | None = None) -> Embedder:
    """Find the embedder for a model's name, with default settings.

    The names are ``local``, ``multilingual``, ``hashing``, and Gemini models such as
    ``google-gla:gemini-embedding-001``; an embedder is returned unchanged. The same name gives the same embedder, so
    that all calls of a process share its loaded model and its rate limits. A Gemini model uses the client, or one of
    the environment's key: without both, it is a ``ModelSetupError``.
    """
    if not isinstance(embedding_model, str):
        return embedding_model
    if embedding_model in ("local", *LOCAL_MODELS):
        return _open(None if embedding_model == "local" else embedding_model)
    if embedding_model == "hashing":
        return make_embedder(EmbeddingSettings(provider="hashing"))
    namespace, _, model = embedding_model.rpartition(":")
    if namespace in _GEMINI_NAMESPACES and model.removeprefix("models/").startswith(_GEMINI_FAMILIES):
        return _open(model, client, None if client else read_api_key())
    raise InputError(
        f"no embedder is called {embedding_model!r}; pass local, multilingual, hashing, a Gemini model such as "
        "google-gla:gemini-embedding-001, or an embedder from make_embedder(EmbeddingSettings(...))",
        code="unknown_embedder",
    )


@lru_cache(maxsize=8)
def _open(model: str | None, client: genai.Client | None = None, key: SecretStr | None = None) -> Embedder:
    if client is None and key is None:
        return make_embedder(EmbeddingSettings(model=model))
    from backstory.models.embeddings.service_embedder import GeminiEmbedder
    from backstory.models.service import Service

    settings = EmbeddingSettings(provider="gemini", model=model)
    return GeminiEmbedder(settings, Service(settings, key=key, client=client))
