"""Deterministic identifiers and cache keys."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any, Final

WHOLE_WINDOW = "window"
"""Suffix of the id of a whole-window query: ``{window_id}#window``."""


def digest(parts: Iterable[str], *, length: int = 32) -> str:
    """Hash a sequence of strings by BLAKE2b into an even number of lower-case hexadecimal characters, at most 128.

    Each part is preceded by its length, so ``("ab", "c")`` and ``("a", "bc")`` differ.
    """
    state = hashlib.blake2b(digest_size=length // 2)
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        state.update(len(encoded).to_bytes(8, "little"))
        state.update(encoded)
    return state.hexdigest()


def digest_each(parts: Iterable[str]) -> list[bytes]:
    """Hash strings one by one into the 16 bytes of ``digest([part])``, faster than by a call of it for each."""
    encoded = (part.encode("utf-8", "surrogatepass") for part in parts)
    hash_bytes = hashlib.blake2b
    return [hash_bytes(len(part).to_bytes(8, "little") + part, digest_size=16).digest() for part in encoded]


def digest_json(value: Any, *, length: int = 32) -> str:
    """Hash a JSON-serializable value, independent of the order of mapping keys."""
    return digest([json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)], length=length)


def document_id_of(uri: str) -> str:
    """Make the id of a document from its uri, so that it is the same after every change of the file."""
    return digest([uri], length=16)


def document_chunk_id(document_id: str, revision: str, page: int | None, method: str, index: int) -> str:
    """Make the id of a stored chunk: ``{document_id}#rev:{revision}#p:{page}#m:{method}#c:{index}``."""
    return f"{document_id}#rev:{revision}#p:{page or 0}#m:{method}#c:{index}"


WRITTEN_PREFIX: Final = "../"
"""Start of the uri of a written post: ``../`` and its path relative to the workspace. No other uri starts so."""


def is_written(uri: str) -> bool:
    """Return whether a document is a post that Backstory wrote."""
    return uri.startswith(WRITTEN_PREFIX)


PSEUDONYM_PREFIX: Final = "member-"
