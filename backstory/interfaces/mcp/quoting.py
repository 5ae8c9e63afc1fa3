"""The passages of a context with numbers to cite, escaped so that no document forges structure."""

from __future__ import annotations

import json
from typing import Final

from backstory.interfaces.library.results import ContextAnswer
from backstory.text.prompts.formats import ContextFormat

FORMAT: Final[ContextFormat] = "messages"
"""Format in which a context is asked for: the message of the user holds the passages."""


def quote_passages(answer: ContextAnswer) -> str:
    """Return the passages of a context of :data:`FORMAT` as Markdown; empty if nothing was found."""
    return str(json.loads(answer.text)[-1]["content"]) if answer.text else ""
