"""The bytes of a text file -> its text."""

from __future__ import annotations

import re
from typing import Final

from backstory.base.errors import ReadError
from backstory.ingest.documents.file_kinds import HEAD_BYTES, name_binary_kind
from backstory.text.encoding import UTF8, find_encoding

_CONTROL: Final = re.compile(r"[\x00-\x08\x0e-\x1f]")
"""Characters that occur only if the encoding was guessed wrongly, or if the file is binary."""


def decode_text(content: bytes, uri: str, encoding: str | None = None) -> str:
    r"""Decode a text file, and write its line ends as ``\n``.

    It raises ``ReadError`` if the bytes are not text in that encoding.
    """
    encoding = encoding or find_encoding(content)
    try:
        text = content.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        name = "UTF-8" if encoding == UTF8 else encoding
        raise ReadError(
            f"{uri}:{line}: this is not {name} text; save the file as UTF-8", code="not_utf8"
        ) from error
    if encoding != UTF8 and (name_binary_kind(content[:HEAD_BYTES]) or _CONTROL.search(text)):
        raise ReadError(
            f"{uri}: this is not text; remove the file, or give its name another ending", code="binary_file"
        )
    return text.replace("\r\n", "\n").replace("\r", "\n")
