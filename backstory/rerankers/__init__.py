"""Models that judge the candidates of a window: the protocol of rerankers, and one module per provider."""

from __future__ import annotations

from backstory.providers.metering import CallMeter, Unmetered
from backstory.rerankers.protocol import Candidate, Judgements, QueryChunk, Reranker, RerankRequest
from backstory.rerankers.rating import RatingModel
from backstory.settings import RerankSettings

__all__ = ["Candidate", "Judgements", "QueryChunk", "RerankRequest", "Reranker", "make_reranker"]


def make_reranker(settings: RerankSettings, meter: CallMeter = Unmetered()) -> Reranker | None:  # noqa: B008 - immutable
    """Make the reranker that the settings name.

    Args:
        settings: The provider, its model and its limits.
        meter: Counts what calls of a paid service use, within budgets.

    Returns:
        The reranker, or None for the provider ``none``. It loads its model or client when first used.

    Raises:
        MissingExtraError: The packages of the provider are not installed.
        ModelFileError: The settings name no folder for a cross-encoder, or a file is absent from it.
    """
    if settings.provider == "cross_encoder":
        from backstory.rerankers.cross_encoder import CrossEncoderReranker

        return CrossEncoderReranker(settings)
    if settings.provider == "none":
        return None
    from backstory.rerankers.language_model import LanguageModelReranker

    return LanguageModelReranker(_make_rater(settings, meter), threads=settings.threads, meter=meter)


def _make_rater(settings: RerankSettings, meter: CallMeter) -> RatingModel:
    if settings.provider == "gemini":
        from backstory.providers.gemini_client import GeminiAccess
        from backstory.rerankers.gemini import GeminiRater

        return GeminiRater(settings, access=GeminiAccess(meter=meter))
    from backstory.providers.connection import ServiceAccess
    from backstory.rerankers.openai import OpenAIRater

    return OpenAIRater(settings, ServiceAccess(meter=meter))
