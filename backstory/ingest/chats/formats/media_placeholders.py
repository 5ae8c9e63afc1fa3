"""Media placeholders in messages, and the captions next to them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import polars as pl

from backstory.ingest.chats.formats.whatsapp_locales import BIDI_MARKS
from backstory.ingest.chats.formats.whatsapp_phrases import (
    ANY_MARK,
    APP_MARK,
    list_phrases,
    match_any,
    normalize,
)

_FILE_NAME: Final = r"[^<>\n]*\.\w{1,8}"
_ATTACHED: Final = re.compile(rf"<[^<>\n:：]{{2,40}}[:：]\s?{_FILE_NAME}>")
_NAMED_BY_APP: Final = r"(?:IMG|VID|PTT|AUD|STK|DOC)-\d{8}-WA\d{4,}\.\w+ [(（][^()（）\n]+[)）]"


def find_captions(texts: pl.Series) -> dict[str, str]:
    """Find the texts that contain a placeholder for a picture, a voice message or a file."""
    distinct = texts.drop_nulls().unique()
    plain = distinct.str.replace_all(ANY_MARK, "")
    first_line = plain.str.extract("^([^\n]*)").str.strip_chars()
    lowered = first_line.str.to_lowercase().str.strip_suffix(".")
    may_be = (
        distinct.str.contains(APP_MARK, literal=True)
        | first_line.str.starts_with("<")
        | first_line.str.contains(r"[)）]$")
        | lowered.is_in(list(list_phrases("media", "kinds")))
    )
    found = ((text, split_caption(text)) for text in distinct.filter(may_be))
    return {text: caption for text, caption in found if caption is not None}


def split_caption(text: str) -> str | None:
    """Remove the placeholder from a message.

    Android writes the placeholder into the first line. iOS writes it at the end of the first or last line, after a
    left-to-right mark. The document name that iOS writes before the placeholder is not a caption.

    It returns the caption, empty if there is none; None if the message has no placeholder.
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
    plain = re.sub(ANY_MARK, "", line).strip()
    exported = rf"(?i:{_NAMED_BY_APP}|{_FILE_NAME} [(（]{match_any('attached')}[)）])"
    if _ATTACHED.fullmatch(plain) or re.fullmatch(exported, plain):
        return True
    in_brackets = plain.startswith("<") and plain.endswith(">")
    phrase = normalize(plain.removeprefix("<").removesuffix(">"))
    by_app = in_brackets or line.lstrip().startswith(tuple(BIDI_MARKS))
    return phrase in list_phrases("media", "kinds") and (by_app or phrase not in list_phrases("also_words"))


def _join(lines: Iterable[str]) -> str:
    return "\n".join(lines).strip().strip(BIDI_MARKS).strip()
