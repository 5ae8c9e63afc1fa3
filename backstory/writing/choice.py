"""The writer that the settings name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from backstory.base.environment import Keys
from backstory.models.chat_model import ChatModel
from backstory.models.usage import CallMeter
from backstory.writing.digest_writer import DigestWriter
from backstory.writing.draft import Writer
from backstory.writing.draft_answer import make_post_form
from backstory.writing.model_writer import ModelWriter
from backstory.writing.plugin import load_plugin
from backstory.writing.prompt import load_prompt

if TYPE_CHECKING:
    from backstory.settings.writers import WriterSettings


def make_writer(
    settings: WriterSettings,
    root: Path,
    meter: CallMeter = CallMeter(),  # noqa: B008 - immutable
    keys: Keys | None = None,
) -> Writer | None:
    """Make the writer of the settings; None if no posts are written.

    Args:
        settings: The provider, its model and its limits.
        root: Folder of the workspace, which may hold a prompt or a writer of its own.
        meter: Counts what calls of a service use, within budgets.
        keys: The keys of the workspace; None for those of the environment.

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
    from backstory.models.service import Service

    return ModelWriter(
        ChatModel(settings, Service(settings, meter=meter, keys=keys)),
        make_post_form(settings.max_output_tokens),
        prompt,
        max_characters=settings.max_characters,
    )
