"""The summarizer that the settings name."""

from __future__ import annotations

from backstory.base.environment import Keys
from backstory.models.usage import CallMeter
from backstory.settings.writers import SummarySettings
from backstory.writing.draft_cache import DraftCache
from backstory.writing.summaries.extraction import ExtractiveSummarizer
from backstory.writing.summaries.request import Summarizer


def make_summarizer(
    settings: SummarySettings,
    drafts: DraftCache,
    meter: CallMeter = CallMeter(),  # noqa: B008 - immutable
    keys: Keys | None = None,
) -> Summarizer:
    """Make the summarizer of the settings.

    Args:
        settings: The provider, its model and its limits.
        drafts: Keeps what a model writes.
        meter: Counts what calls of a service use, within budgets.
        keys: The keys of the workspace; None for those of the environment.

    Raises:
        MissingExtraError: The packages of the provider are not installed.
    """
    if settings.provider == "extractive":
        return ExtractiveSummarizer()
    from backstory.models.chat_model import ChatModel
    from backstory.models.service import Service
    from backstory.writing.summaries.model_summarizer import ModelSummarizer
    from backstory.writing.summaries.prompt import make_summary_form

    model = ChatModel(settings, Service(settings, meter=meter, keys=keys))
    form = make_summary_form(settings.max_output_tokens)
    return ModelSummarizer(model, form, drafts, threads=settings.threads)
