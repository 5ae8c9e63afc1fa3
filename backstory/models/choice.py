"""The embedder and the reranker that settings, or a model's name, choose."""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import TYPE_CHECKING

from backstory.base.credentials import Keys
from backstory.base.environment import cache_folder, read_api_key
from backstory.base.errors import InputError
from backstory.models.embeddings.protocol import Embedder
from backstory.models.rerankers.protocol import Reranker
from backstory.models.services.meter import CallMeter, Unmetered
from backstory.settings.embedding import LOCAL_MODELS, EmbeddingSettings
from backstory.settings.groups import SERVICES
from backstory.settings.models import RerankSettings

if TYPE_CHECKING:
    from google import genai
    from pydantic import SecretStr

_GEMINI_NAMESPACES = ("google-gla", "gemini")
_GEMINI_FAMILIES = ("gemini-embedding", "text-embedding")


def make_embedder(
    settings: EmbeddingSettings,
    meter: CallMeter = Unmetered(),  # noqa: B008 - immutable
    keys: Keys | None = None,
) -> Embedder:
    """Make the embedder that the settings name.

    Args:
        settings: The provider, its model and its limits.
        meter: Counts what calls of a paid service use, within budgets.
        keys: The keys of the workspace; None for those of the environment.

    Returns:
        The embedder. It loads its model or client when first used.

    Raises:
        MissingExtraError: The packages of the provider, the model or the runtime are not installed.
        ModelFileError: The local model is absent, damaged, or of a kind that cannot be run.
    """
    if settings.provider in SERVICES:
        from backstory.models.embeddings.service_embedder import GeminiEmbedder, ServiceEmbedder
        from backstory.models.services.service import Service

        kind = GeminiEmbedder if settings.provider == "gemini" else ServiceEmbedder
        return kind(settings, Service(settings, meter=meter, keys=keys))
    if settings.provider == "hashing":
        from backstory.models.embeddings.hashing import HashingEmbedder

        return HashingEmbedder(languages=settings.languages)
    from backstory.models.embeddings.local.embedder import open_own_model, open_pack

    if settings.model_dir is not None:
        return open_own_model(settings)
    if settings.model == "multilingual":
        from backstory.models.embeddings.local.e5_pack import read_e5_pack

        model = read_e5_pack()
    else:
        from backstory.models.embeddings.local.granite_pack import read_granite_pack

        model = read_granite_pack()
    return open_pack(
        model,
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
    """Make the reranker that the settings name.

    Args:
        settings: The provider, its model and its limits.
        meter: Counts what calls of a paid service use, within budgets.
        keys: The keys of the workspace; None for those of the environment.

    Returns:
        The reranker, or None for the provider ``none``. It loads its model or client when first used.

    Raises:
        MissingExtraError: The packages of the provider are not installed.
        ModelFileError: The settings name no folder for a cross-encoder, or a file is absent from it.
    """
    if settings.provider == "cross_encoder":
        from backstory.models.rerankers.cross_encoder import CrossEncoderReranker

        return CrossEncoderReranker(settings)
    if settings.provider == "none":
        return None
    from backstory.models.chat_model import ChatModel
    from backstory.models.rerankers.llm_reranker import LLMReranker
    from backstory.models.services.service import Service

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
    """Find the embedder for a model's name.

    The same name gives the same embedder, so that all calls of a process share its loaded model and its rate
    limits.

    Args:
        embedding_model: ``local``, ``multilingual``, ``hashing``, or a Gemini model such as
            ``google-gla:gemini-embedding-001``; an embedder is returned unchanged.
        client: The google-genai client that a Gemini model uses; None makes one from the environment's key.

    Returns:
        The embedder, with default settings.

    Raises:
        InputError: No embedder has this name.
        AuthenticationError: A Gemini model is named, and there is neither a client nor a key.
    """
    if not isinstance(embedding_model, str):
        return embedding_model
    if embedding_model == "local":
        return _resolve_local(None)
    if embedding_model in LOCAL_MODELS:
        return _resolve_local(embedding_model)
    if embedding_model == "hashing":
        return make_embedder(EmbeddingSettings(provider="hashing"))
    namespace, _, model = embedding_model.rpartition(":")
    if namespace in ("", *_GEMINI_NAMESPACES) and model.removeprefix("models/").startswith(_GEMINI_FAMILIES):
        return _resolve_gemini(model, client, None if client else read_api_key())
    raise InputError(
        f"no embedder is called {embedding_model!r}; pass local, multilingual, hashing, a Gemini model such as "
        "google-gla:gemini-embedding-001, or an embedder from make_embedder(EmbeddingSettings(...))",
        code="unknown_embedder",
    )


@lru_cache(maxsize=len(LOCAL_MODELS) + 1)
def _resolve_local(model: str | None) -> Embedder:
    return make_embedder(EmbeddingSettings(provider="local", model=model))


@lru_cache(maxsize=8)
def _resolve_gemini(model: str, client: genai.Client | None, api_key: SecretStr | None) -> Embedder:
    from backstory.models.embeddings.service_embedder import GeminiEmbedder
    from backstory.models.services.service import Service

    settings = EmbeddingSettings(provider="gemini", model=model)
    return GeminiEmbedder(settings, Service(settings, key=api_key, client=client))
