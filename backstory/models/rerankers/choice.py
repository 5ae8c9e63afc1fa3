"""Makes the reranker that the settings name."""

from __future__ import annotations

from backstory.base.credentials import Keys
from backstory.models.rerankers.protocol import Reranker
from backstory.models.services.meter import CallMeter, Unmetered
from backstory.settings.models import RerankSettings


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
