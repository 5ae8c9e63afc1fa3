"""Makes the chat model that a group of settings names."""

from __future__ import annotations

from backstory.base.credentials import Keys
from backstory.models.chat.model import ChatModel, ChatModelSettings
from backstory.models.services.connection import ServiceAccess, Stage
from backstory.models.services.meter import CallMeter


def make_chat_model(
    settings: ChatModelSettings, stage: Stage, meter: CallMeter, keys: Keys | None
) -> ChatModel:
    """Make the chat model of a stage. Its first call reads the key.

    Args:
        settings: The service, its model and its limits.
        stage: The stage that asks, which errors name.
        meter: Counts what calls use, within budgets.
        keys: The keys of the workspace; None for those of the environment.

    Raises:
        MissingExtraError: The packages of the service are not installed.
    """
    if settings.provider == "gemini":
        from backstory.models.chat.gemini import GeminiModel
        from backstory.models.services.gemini import GeminiAccess

        return GeminiModel(settings, stage, GeminiAccess(keys=keys, meter=meter))
    from backstory.models.chat.openai import OpenAIModel

    return OpenAIModel(settings, stage, ServiceAccess(keys=keys, meter=meter))
