"""The names that an uploaded file may have: of one file in one folder, on every machine, and without a trick."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from backstory.base.errors import InputError

MOST_NAME_BYTES: Final = 240
"""Bytes of a name in UTF-8; file systems take 255, and temporary files add a few."""

_RESERVED: Final = re.compile(r"(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(?:\..*)?", re.IGNORECASE)
"""Names that mean a device on Windows, whatever their ending."""

_INVISIBLE: Final = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
_JOINERS: Final = ("\u200c", "\u200d")
"""Invisible characters that words of Persian and many others are written with."""

_SHOWN: Final = 60


def check_file_name(name: str) -> str:
    """Return the name under which an uploaded file is stored: the given one, composed as Unicode's NFC does.

    A name that would have to be changed in any other way is refused, so that nobody looks for a file under a name that
    it does not have.
    """
    composed = unicodedata.normalize("NFC", name)
    reason = _find_fault(composed)
    if reason is not None:
        raise InputError(
            f"a file cannot be uploaded as {name[:_SHOWN]!r}: {reason}; rename it", code="bad_file_name"
        )
    return composed


def fold_file_name(name: str) -> str:
    """Return a text that is equal for two names which some machine, or a person, takes for the same."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def _find_fault(name: str) -> str | None:
    if not name.strip():
        return "the name is blank"
    if "/" in name or "\\" in name:
        return "a name has no folders, and no `/` or `\\`"
    if any(unicodedata.category(letter) in _INVISIBLE and letter not in _JOINERS for letter in name):
        return "it holds characters that nobody sees"
    if len(name.encode()) > MOST_NAME_BYTES:
        return f"it has more than {MOST_NAME_BYTES} bytes"
    if name.startswith("."):
        return "a name that begins with a dot is that of a hidden file, which is not read"
    if name != name.strip() or name.endswith("."):
        return "it begins or ends with a space, or ends with a dot"
    if ":" in name:
        return "a name has no `:`"
    if _RESERVED.fullmatch(name):
        return "some machines take it for a device"
    return None
