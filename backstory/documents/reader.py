"""What every reader of a file type provides, and the registry of them."""

from __future__ import annotations

from typing import Protocol

from backstory.documents.markdown import MarkdownReader
from backstory.documents.parsed_document import ParsedDocument


class DocumentReader(Protocol):
    """Reads one type of file."""

    @property
    def suffixes(self) -> frozenset[str]:
        """File name endings, lower-case and with the dot, that are of this type."""
        ...

    def read(self, content: bytes, name: str) -> ParsedDocument:
        """Read one file.

        Args:
            content: The bytes of the file.
            name: Its name without folders, for what the content does not say.

        Returns:
            The document.

        Raises:
            InputError: The file cannot be read; the message says what is wrong and where.
        """
        ...


READERS: tuple[DocumentReader, ...] = (MarkdownReader(),)


def find_reader(name: str) -> DocumentReader | None:
    """Give the reader of a file, by its name's ending."""
    suffix = "." + name.rpartition(".")[2].lower()
    return next((reader for reader in READERS if suffix in reader.suffixes), None)
