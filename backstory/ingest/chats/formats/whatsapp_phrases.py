"""What the app itself writes into WhatsApp exports, in many languages: ``whatsapp_phrases.toml``."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

from backstory.ingest.chats.formats.whatsapp_locales import BIDI_MARKS

APP_MARK: Final = "\u200e"
"""Left-to-right mark, which the app on iOS writes before its own texts."""

ANY_MARK: Final = f"[{BIDI_MARKS}]"


@cache
def _load() -> Mapping[str, Mapping[str, str]]:
    shipped = files("backstory.ingest.chats.formats").joinpath("whatsapp_phrases.toml")
    return tomllib.loads(shipped.read_text(encoding="utf-8"))


def normalize(text: str) -> str:
    """Write a text as it is compared: without direction marks, case and a final full stop."""
    plain = re.sub(ANY_MARK, "", text).strip().removesuffix(".")
    return unicodedata.normalize("NFC", " ".join(plain.split()).lower())


@cache
def list_phrases(*topics: str) -> frozenset[str]:
    """List the phrases of some topics in all languages, normalized."""
    return frozenset(
        normalize(phrase)
        for topic in topics
        for phrases in _load()[topic].values()
        for phrase in phrases.split(", ")
    )


@cache
def match_any(topic: str) -> str:
    """Return a regular expression for any phrase of a topic, the longest that fits, in lower case."""
    longest = sorted(list_phrases(topic), key=lambda phrase: (-len(phrase), phrase))
    return f"(?:{'|'.join(map(re.escape, longest))})"
