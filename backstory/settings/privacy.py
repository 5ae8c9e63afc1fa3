"""Settings of what the tables and the posts leave out about people."""

from __future__ import annotations

from collections import Counter
from datetime import date
from typing import Literal

from pydantic import Field, field_validator

from backstory.settings.groups import SettingsGroup


class AgreedName(SettingsGroup):
    """The name that readers see of a person who has agreed to it."""

    shown: str = Field(pattern=r"^[^\W\d_]+(?:[ '’.-]{1,2}[^\W\d_]+)*$", max_length=60)
    """The name, in letters."""
    agreed: date
    """Day on which the person agreed."""


class PrivacySettings(SettingsGroup):
    """What the tables leave out about people in chats: names, all messages of a person, contact and bank data."""

    pseudonyms: bool = True
    """Whether authors, and mentions of them, become pseudonyms keyed by the secret of the workspace."""
    exclude: tuple[str, ...] = ()
    """People whose messages no table holds, by any of their names in the exports, or by pseudonym."""
    scrub: tuple[Literal["email", "phone", "card", "iban"], ...] = ()
    """What becomes a marker such as `[email]` in messages: `[email, phone, card, iban]`, or some of these."""
    phone_region: str | None = None
    """Region, such as DE, whose phone numbers `scrub` finds without country code; null finds those with a plus sign."""
    names: dict[str, AgreedName] = Field(default_factory=dict)
    """Names that people agreed to be shown by, such as `{Ada Lind: {shown: Ada, agreed: 2025-03-01}}`."""
    documents: Literal["replace", "keep", "reject"] = "replace"
    """Members' names in passages of documents, and contact data in posts; `reject` rejects posts that hold any."""

    @field_validator("phone_region")
    @classmethod
    def _known_region(cls, value: str | None) -> str | None:
        if value is None:
            return None
        from phonenumbers import SUPPORTED_REGIONS

        if value.upper() not in SUPPORTED_REGIONS:
            raise ValueError(
                "this is no region with phone numbers; use a code of two letters, such as DE or US"
            )
        return value.upper()

    @field_validator("names")
    @classmethod
    def _shown_for_one(cls, value: dict[str, AgreedName]) -> dict[str, AgreedName]:
        shown = Counter(name.shown.casefold() for name in value.values())
        if any(times > 1 for times in shown.values()):
            raise ValueError("two people are shown by the same name; choose another for one of them")
        return value
