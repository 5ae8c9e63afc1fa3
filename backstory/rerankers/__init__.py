"""Models that reorder the candidates of a window: the protocol of rerankers, and one module per provider."""

from __future__ import annotations

from backstory.providers.metering import CallMeter, Unmetered
from backstory.rerankers.protocol import Candidate, Reranker, RerankRequest, RerankResult
from backstory.settings import RerankSettings

__all__ = ["Candidate", "RerankRequest", "RerankResult", "Reranker", "make_reranker"]


def make_reranker(settings: RerankSettings, meter: CallMeter = Unmetered()) -> Reranker | None:  # noqa: B008 - immutable
    """Make the reranker that the settings name.

    Args:
        settings: The provider, its model and its limits.
        meter: Counts what calls of a paid service use, within budgets.

    Returns:
        The reranker, or None for the provider ``none``. It loads its model or client when first used.

    Raises:
        ModelFileError: The settings name no folder for a cross-encoder, or a file is absent from it.
    """
    if settings.provider == "gemini":
        from backstory.providers.gemini_client import GeminiAccess
        from backstory.rerankers.gemini import GeminiReranker

        return GeminiReranker(settings, access=GeminiAccess(meter=meter))
    if settings.provider == "cross_encoder":
        from backstory.rerankers.cross_encoder import CrossEncoderReranker

        return CrossEncoderReranker(settings)
    return None
