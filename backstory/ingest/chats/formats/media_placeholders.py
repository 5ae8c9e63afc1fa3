"""Media placeholders in messages, and the captions next to them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Final

import polars as pl

from backstory.ingest.chats.formats.media_phrases import AFTER_FILE_NAME, ALSO_WORDS, BY_KIND, IN_BRACKETS
from backstory.ingest.chats.formats.whatsapp_locales import BIDI_MARKS

APP_MARK: Final = "\u200e"
"""Left-to-right mark, which the app writes before its own texts."""

_MARKS: Final = f"[{BIDI_MARKS}]"
_FILE_NAME: Final = r"[^<>\n]*\.\w{1,8}"
_ATTACHED: Final = re.compile(rf"<[^<>\n:：]{{2,40}}[:：]\s?{_FILE_NAME}>")
_NAMED_BY_APP: Final = r"(?:IMG|VID|PTT|AUD|STK|DOC)-\d{8}-WA\d{4,}\.\w+ [(（][^()（）\n]+[)）]"


def _normalize(text: str) -> str:
    plain = re.sub(_MARKS, "", text).strip().removesuffix(".")
    return unicodedata.normalize("NFC", " ".join(plain.split()).lower())


def _list_phrases(*tables: Mapping[str, str]) -> frozenset[str]:
    return frozenset(
        _normalize(phrase) for table in tables for phrases in table.values() for phrase in phrases.split(", ")
    )


_PHRASES: Final = _list_phrases(IN_BRACKETS, BY_KIND)
_WORDS: Final = _list_phrases({"": ALSO_WORDS})
_EXPORTED: Final = re.compile(
    rf"(?i:{_NAMED_BY_APP}|{_FILE_NAME} [(（](?:{'|'.join(map(re.escape, _list_phrases(AFTER_FILE_NAME)))})[)）])"
)


def find_captions(texts: pl.Series) -> dict[str, str]:
    """Find the texts that contain a placeholder for a picture, a voice message or a file.

    Args:
        texts: Texts of messages as exported.

    Returns:
        The caption of each such text; an empty string if there is no caption.
    """
    distinct = texts.drop_nulls().unique()
    plain = distinct.str.replace_all(_MARKS, "")
    first_line = plain.str.extract("^([^\n]*)").str.strip_chars()
    lowered = first_line.str.to_lowercase().str.strip_suffix(".")
    may_be = (
        distinct.str.contains(APP_MARK, literal=True)
        | first_line.str.starts_with("<")
        | first_line.str.contains(r"[)）]$")
        | lowered.is_in(list(_PHRASES))
    )
    found = ((text, split_caption(text)) for text in distinct.filter(may_be))
    return {text: caption for text, caption in found if caption is not None}


def split_caption(text: str) -> str | None:
    """Remove the placeholder from a message.

    Android writes the placeholder into the first line. iOS writes it at the end of the first or last line, after a
    left-to-right mark. The document name that iOS writes before the placeholder is not a caption.

    Args:
        text: The message as exported.

    Returns:
        The caption, empty if there is none; None if the message has no placeholder.
    """
    lines = text.split("\n")
    if _is_placeholder(lines[0]):
        return _join(lines[1:])
    written, mark, by_app = lines[-1].rpartition(APP_MARK)
    if mark and _is_placeholder(mark + by_app):
        named = len(lines) == 1 and (APP_MARK in written or re.fullmatch(_FILE_NAME, written.strip()))
        return _join([*lines[:-1], "" if named else written])
    return None


def _is_placeholder(line: str) -> bool:
    plain = re.sub(_MARKS, "", line).strip()
    if _ATTACHED.fullmatch(plain) or _EXPORTED.fullmatch(plain):
        return True
    in_brackets = plain.startswith("<") and plain.endswith(">")
    phrase = _normalize(plain.removeprefix("<").removesuffix(">"))
    by_app = in_brackets or line.lstrip().startswith(tuple(BIDI_MARKS))
    return phrase in _PHRASES and (by_app or phrase not in _WORDS)


def _join(lines: Iterable[str]) -> str:
    return "\n".join(lines).strip().strip(BIDI_MARKS).strip()
