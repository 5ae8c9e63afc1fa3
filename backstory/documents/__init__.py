"""Files -> documents: one reader per file type behind one registry, and a row for every file."""

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
