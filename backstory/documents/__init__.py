"""Files -> documents: one reader per file type behind one registry."""

from backstory.documents.folder import read_documents
from backstory.documents.parsed_document import ParsedDocument
from backstory.documents.reader import READERS, DocumentReader

__all__ = ["READERS", "DocumentReader", "ParsedDocument", "read_documents"]
