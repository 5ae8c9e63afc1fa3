"""The embedders by the names that the original design gives them."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from backstory.base.environment import read_api_key
from backstory.base.errors import InputError
from backstory.models.choice import make_embedder
from backstory.models.embeddings.protocol import Embedder
from backstory.settings.embedding import LOCAL_MODELS, EmbeddingSettings

if TYPE_CHECKING:
    from google import genai
    from pydantic import SecretStr

_NAMESPACES = ("", "google-gla", "gemini")
_FAMILIES = ("gemini-embedding", "text-embedding")


def resolve_embedder(embedding_model: str | Embedder, *, client: genai.Client | None = None) -> Embedder:
    """Find the embedder for a model's name, with default settings.

    The names are ``local``, ``multilingual``, ``hashing``, and Gemini models such as
    ``google-gla:gemini-embedding-001``; an embedder is returned unchanged. All calls of a process with one name of
    Gemini share its rate limits. Such a model uses the client, or one of the environment's key: without both, it is a
    ``ModelSetupError``.
    """
    if not isinstance(embedding_model, str):
        return embedding_model
    if embedding_model in ("local", *LOCAL_MODELS):
        return make_embedder(EmbeddingSettings(model=None if embedding_model == "local" else embedding_model))
    if embedding_model == "hashing":
        return make_embedder(EmbeddingSettings(provider="hashing"))
    namespace, _, model = embedding_model.rpartition(":")
    if namespace in _NAMESPACES and model.removeprefix("models/").startswith(_FAMILIES):
        return _open_gemini(model, client, None if client else read_api_key())
    raise InputError(
        f"no embedder is called {embedding_model!r}; pass local, multilingual, hashing, a Gemini model such as "
        "google-gla:gemini-embedding-001, or an embedder from make_embedder(EmbeddingSettings(...))",
        code="unknown_embedder",
    )


@lru_cache(maxsize=8)
def _open_gemini(model: str, client: genai.Client | None, key: SecretStr | None) -> Embedder:
    from backstory.models.embeddings.service_embedder import GeminiEmbedder
    from backstory.models.service import Service

    settings = EmbeddingSettings(provider="gemini", model=model)
    return GeminiEmbedder(settings, Service(settings, key=key, client=client))
