"""The writer that the settings name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from backstory.providers.metering import CallMeter, Unmetered
from backstory.writing.digest_writer import DigestWriter
from backstory.writing.draft import Writer
from backstory.writing.model_writer import ModelWriter
from backstory.writing.plugin import load_plugin
from backstory.writing.prompt import load_prompt

if TYPE_CHECKING:
    from backstory.settings import WriterSettings
    from backstory.writing.chat_model import ChatModel


def make_writer(
    settings: WriterSettings,
    root: Path,
    meter: CallMeter = Unmetered(),  # noqa: B008 - immutable
) -> Writer | None:
    """Make the writer of the settings; None if no posts are written.

    Args:
        settings: The provider, its model and its limits.
        root: Folder of the workspace, which may hold a prompt or a writer of its own.
        meter: Counts what calls of a service use, within budgets.

    Raises:
        SettingsError: The prompt or the writer of the workspace is absent or broken.
        MissingExtraError: The packages of the provider are not installed.
    """
    if settings.provider == "none":
        return None
    if settings.provider == "digest":
        return DigestWriter()
    if settings.provider == "custom":
        return load_plugin(settings.plugin or "", root)
    prompt = load_prompt(root / settings.prompt if settings.prompt else None)
    return ModelWriter(_make_model(settings, meter), prompt, max_characters=settings.max_characters)


def _make_model(settings: WriterSettings, meter: CallMeter) -> ChatModel:
    if settings.provider == "gemini":
        from backstory.providers.gemini_client import GeminiAccess
        from backstory.writing.gemini_model import GeminiModel

        return GeminiModel(settings, GeminiAccess(meter=meter))
    from backstory.providers.connection import ServiceAccess
    from backstory.writing.openai_model import OpenAIModel

    return OpenAIModel(settings, ServiceAccess(meter=meter))
