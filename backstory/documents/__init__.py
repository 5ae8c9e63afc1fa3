"""Files -> documents: one reader per file type behind one registry, and a row for every file."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from backstory.documents.folder import DocumentRead, name_reading, read_documents, read_listed_documents
    from backstory.documents.parsed_document import ParsedDocument
    from backstory.documents.reader import READERS, DocumentReader

__all__ = [
    "READERS",
    "DocumentRead",
    "DocumentReader",
    "ParsedDocument",
    "name_reading",
    "read_documents",
    "read_listed_documents",
]

_MODULES: Final = {"READERS": "reader", "DocumentReader": "reader", "ParsedDocument": "parsed_document"}


def __getattr__(name: str) -> Any:
    # Readers take long to load, and a search needs none of them.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES.get(name, 'folder')}"), name)
