"""What every reader of a file type provides, and the registry of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Protocol

from backstory.documents.markdown_reader import MarkdownReader
from backstory.documents.parsed_document import ParsedDocument


class DocumentReader(Protocol):
    """Reads one type of file."""

    @property
    def format(self) -> str:
        """Name of the type, as the table ``sources`` gives it."""
        ...

    @property
    def suffixes(self) -> frozenset[str]:
        """File name endings of this type, lower-case and with the dot."""
        ...

    def find_encoding(self, content: bytes) -> str | None:
        """Tell in which encoding a file of this type is read; None for a type that is no text."""
        ...

    def read(self, content: bytes, uri: str, *, drafts: bool) -> ParsedDocument | None:
        """Read one file.

        Args:
            content: The bytes of the file.
            uri: What error messages call it.
            drafts: Whether a document that calls itself a draft is wanted.

        Returns:
            The document, or None for a draft that is not wanted; the same bytes always give the same.

        Raises:
            EmptyDocumentError: The file holds no text.
            DocumentError: The file cannot be read.
        """
        ...


READERS: tuple[DocumentReader, ...] = (MarkdownReader(),)


def find_reader(uri: str, readers: Iterable[DocumentReader]) -> DocumentReader | None:
    """Give the first reader that takes a file, by the ending of its name in any case; None if none does."""
    suffix = PurePosixPath(uri).suffix.lower()
    return next((reader for reader in readers if suffix in reader.suffixes), None)
