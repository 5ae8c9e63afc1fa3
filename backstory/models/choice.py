"""The embedder and the reranker that settings choose."""

from __future__ import annotations

from backstory.base.environment import Keys, cache_folder
from backstory.models.embeddings.protocol import Embedder
from backstory.models.reranker import Reranker
from backstory.models.usage import CallMeter
from backstory.settings.embedding import EmbeddingSettings
from backstory.settings.groups import SERVICES
from backstory.settings.models import RerankSettings


def make_embedder(
    settings: EmbeddingSettings,
    meter: CallMeter = CallMeter(),  # noqa: B008 - immutable
    keys: Keys | None = None,
) -> Embedder:
    """Make the embedder that the settings name, which loads its model or client when first used.

    The meter counts what calls of a paid service use, within budgets. The keys are those of the workspace, or with None
    those of the environment. A ``ModelSetupError`` means that the local model is absent, damaged or of an unknown kind.
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
    meter: CallMeter = CallMeter(),  # noqa: B008 - immutable
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
