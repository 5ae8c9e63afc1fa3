"""The people of a chat as readers see them: names of plants and birds in place of keyed pseudonyms."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from backstory.base.ids import PSEUDONYM_PREFIX

_PSEUDONYM: Final = re.compile(rf"{re.escape(PSEUDONYM_PREFIX)}[0-9a-f]{{10}}(?![0-9a-f])")


def name_people(text: str, names: Mapping[str, str]) -> str:
    """Write the people of a text as readers see them.

    Args:
        text: Any text in which pseudonyms stand, or a pseudonym.
        names: The shown names of a conversation, by pseudonym.

    Returns:
        The text; a pseudonym without a shown name stays.
    """
    return _PSEUDONYM.sub(lambda found: names.get(found[0], found[0]), text) if names else text


def is_pseudonym(text: str) -> bool:
    """Return whether a text is the pseudonym of a person."""
    return _PSEUDONYM.fullmatch(text) is not None


def list_pseudonyms(text: str) -> list[str]:
    """List the pseudonyms in a text, in their order."""
    return _PSEUDONYM.findall(text)
