"""Detecting encodings that write every letter in ASCII: ISO-2022-JP by escape sequences, and UTF-7 by signs of plus."""

from __future__ import annotations

import codecs
import re
import unicodedata
from typing import Final

_SWITCH: Final = re.compile(rb"\x1b(?:\$[@AB]|\$\([CDOPQ]|\([IJ])")
"""Escape sequences that switch to other letters. Terminals use others, such as ``ESC ( B``."""

_ISO_2022: Final = ("iso2022_jp", "iso2022_jp_ext", "iso2022_jp_2004", "iso2022_jp_2")
"""From the usual one to those that know more letters."""

_UTF7: Final = "utf-7"
_RUN: Final = re.compile(rb"\+(?P<units>[A-Za-z0-9+/]*)(?P<end>-?)")
_FEWEST_RUNS: Final = 3
_WORD: Final = re.compile(rb"[A-Z]?[a-z]+[0-9]*|[A-Z]+[0-9]*s?|[0-9]+")
"""What stands behind a ``+`` in ordinary texts: ``UI+API-tests``, ``mysql+aiomysql``, ``AM4``, ``+100``."""

_NEAR: Final = re.compile(r"[\u00a0-\u017f\u0370-\u06ff]+")
"""Letters and marks of Latin, Greek, Cyrillic, Armenian, Hebrew and Arabic texts."""


def find_seven_bit_encoding(content: bytes) -> str | None:
    """Detect ISO-2022-JP or UTF-7 in a text of ASCII alone.

    A text counts as ISO-2022-JP if it switches to other letters, even if it is damaged, so that it is not taken for
    ASCII. It counts as UTF-7 if every ``+`` in it begins letters as UTF-7 writes them, and if three different ones do
    not look like a word or a number, or one of these ends with ``-`` and is in an alphabet of Europe or the Near East.
    What looks like a word counts among the three if it is in such an alphabet and continues a word in small letters,
    as in ``v+AOQ-g``. One ``+`` of another meaning makes the text ASCII.

    Args:
        content: All bytes of the file, or enough of its beginning.

    Returns:
        Python's name of the encoding; None if the text is in none of them.
    """
    if not content.isascii():
        return None
    return find_iso_2022(content) or (_UTF7 if b"+" in content and _is_utf7(content) else None)


def find_iso_2022(content: bytes) -> str | None:
    """Detect ISO-2022-JP; see :func:`find_seven_bit_encoding`."""
    if b"\x1b" not in content or not content.isascii() or _SWITCH.search(content) is None:
        return None
    return next((name for name in _ISO_2022 if _is_valid(content, name)), _ISO_2022[0])


def _is_valid(content: bytes, encoding: str) -> bool:
    """Say whether bytes are text in an encoding, or its beginning."""
    try:
        codecs.getincrementaldecoder(encoding)().decode(content)
    except UnicodeDecodeError:
        return False
    return True


def _is_utf7(content: bytes) -> bool:
    found: set[bytes] = set()
    is_near = False
    for run in _RUN.finditer(content):
        units = run["units"]
        if not units:
            if not run["end"]:
                return False
            continue
        letters = _decode_run(units)
        if letters is None and run.end() == len(content):
            break  # the end of the text cuts it off
        if letters is None:
            return False
        is_word, in_near = _WORD.fullmatch(units) is not None, _NEAR.fullmatch(letters) is not None
        if not is_word or (in_near and content[run.start() - 1 : run.start()].islower()):
            found.add(units)
        is_near = is_near or (in_near and not is_word and bool(run["end"]))
    return is_near or len(found) >= _FEWEST_RUNS


def _decode_run(units: bytes) -> str | None:
    """Decode what stands between ``+`` and ``-``; None if no program writes it so."""
    try:
        letters = (b"+" + units + b"-").decode(_UTF7)
    except UnicodeDecodeError:
        return None
    is_written = letters and not any(_is_unlikely(letter) for letter in letters)
    return letters if is_written else None


def _is_unlikely(letter: str) -> bool:
    """Say whether UTF-7 leaves a letter as it is, or no text holds it."""
    return (letter.isascii() and letter.isalnum()) or unicodedata.category(letter) in ("Cn", "Co", "Cs", "Cc")
