"""The base of all groups of settings."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class SettingsGroup(BaseModel):
    """Base of all groups of settings: frozen, and an unknown name is an error."""

    # Every command loads the settings, and their validators take less time to build all at once.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
