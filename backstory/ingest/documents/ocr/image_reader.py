"""Image files, whose text is recognised."""

from __future__ import annotations

from backstory.base.errors import ReadError
from backstory.ingest.documents.file_kinds import HEAD_BYTES, name_binary_kind
from backstory.ingest.documents.ocr.paged_file import PagedFile, Recognition, compose_document
from backstory.ingest.documents.ocr.recognition import INSTALL
from backstory.ingest.documents.parsed_document import ParsedDocument


class ImageReader:
    """Reads scans and photographs of text; a TIFF may hold several pages.

    A picture without text, such as a photograph beside a post, is no document: it is ``empty``.
    """

    format = "image"
    suffixes = frozenset({".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp"})
    find_encoding = None

    def read(self, content: bytes, uri: str, *, drafts: bool = True) -> ParsedDocument | None:  # noqa: ARG002
        """Read one file without recognition; see :class:`backstory.ingest.documents.reader.DocumentReader`."""
        return compose_document(self.read_pages(content, uri), Recognition(obstacle=INSTALL), uri)

    def read_pages(self, content: bytes, uri: str) -> PagedFile:
        """Check the file; see :class:`backstory.ingest.documents.ocr.paged_file.PictureReader`."""
        if not content:
            raise ReadError(
                f"{uri}: the file is empty; save the image again, or remove the file", code="empty_document"
            )
        if not (name_binary_kind(content[:HEAD_BYTES]) or "").startswith("an image"):
            raise ReadError(f"{uri}: this is not an image; give the file its right ending, or remove it")
        return PagedFile(texts=("",), pictures=(1,))

    def draw_page(self, content: bytes, page: int) -> bytes:  # noqa: ARG002 - Tesseract reads all pages of a TIFF
        """Return the file itself; see :class:`backstory.ingest.documents.ocr.paged_file.PictureReader`."""
        return content
