"""PDF files, page by page."""

from __future__ import annotations

from backstory.base.errors import ReadError
from backstory.ingest.documents.ocr.paged_file import PagedFile, Recognition, compose_document
from backstory.ingest.documents.ocr.recognition import INSTALL
from backstory.ingest.documents.parsed_document import ParsedDocument


class PdfReader:
    """Reads the text of every page, in the order in which the program that made the file wrote it.

    PDFium reads the text (:mod:`backstory.ingest.documents.formats.pdf_pages`): it keeps words whole that pypdf breaks,
    and takes an eighth of the time. Pages in a script from right to left are read by pypdf, because PDFium turns some
    of their letters around. ``docs/decisions/0008-two-readers-of-pdf.md`` has the figures.
    """

    format = "pdf"
    suffixes = frozenset({".pdf"})
    find_encoding = None

    def read(self, content: bytes, uri: str, *, drafts: bool = True) -> ParsedDocument | None:  # noqa: ARG002
        """Read one file without recognition; see :class:`backstory.ingest.documents.reader.DocumentReader`."""
        return compose_document(self.read_pages(content, uri), Recognition(obstacle=INSTALL), uri)

    def read_pages(self, content: bytes, uri: str) -> PagedFile:
        """Read all pages; see :class:`backstory.ingest.documents.ocr.paged_file.PictureReader`."""
        if not content.strip(b"\0 \t\r\n"):
            raise ReadError(f"{uri}: the file is empty; export it again, or remove it", code="empty_document")
        # Loading the libraries takes a third of a second, which only workspaces with a PDF should pay.
        from backstory.ingest.documents.formats.pdf_pages import read_pdf

        return read_pdf(content, uri)

    def draw_page(self, content: bytes, page: int) -> bytes:
        """Draw a page; see :class:`backstory.ingest.documents.ocr.paged_file.PictureReader`."""
        from backstory.ingest.documents.formats.pdf_pages import draw_pdf_page

        return draw_pdf_page(content, page)
