"""The summarizer that the settings name."""

from __future__ import annotations

from backstory.providers.metering import CallMeter, Unmetered
from backstory.settings import SummarySettings
from backstory.summaries.extraction import ExtractiveSummarizer
from backstory.summaries.request import Summarizer
from backstory.writing.draft_cache import DraftCache


def make_summarizer(
    settings: SummarySettings,
    drafts: DraftCache,
    meter: CallMeter = Unmetered(),  # noqa: B008 - immutable
) -> Summarizer:
    """Make the summarizer of the settings.

    Args:
        settings: The provider, its model and its limits.
        drafts: Keeps what a model writes.
        meter: Counts what calls of a service use, within budgets.

    Raises:
        MissingExtraError: The packages of the provider are not installed.
    """
    if settings.provider == "extractive":
        return ExtractiveSummarizer()
    from backstory.summaries.model_summarizer import ModelSummarizer
    from backstory.summaries.prompt import FORM

    if settings.provider == "gemini":
        from backstory.providers.gemini_client import GeminiAccess
        from backstory.writing.gemini_model import GeminiModel

        return ModelSummarizer(
            GeminiModel(settings, GeminiAccess(meter=meter), FORM), drafts, threads=settings.threads
        )
    from backstory.providers.connection import ServiceAccess
    from backstory.providers.openai_client import SUMMARIES
    from backstory.writing.openai_model import OpenAIModel

    model = OpenAIModel(settings, ServiceAccess(meter=meter), FORM, SUMMARIES)
    return ModelSummarizer(model, drafts, threads=settings.threads)
