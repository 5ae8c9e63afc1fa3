"""A page of an indexed document as a picture, so that a passage can be seen where it stands."""

from __future__ import annotations

import hashlib

from backstory.base.errors import InputError
from backstory.base.sandbox import ReadingLimits
from backstory.ingest.documents.pages import PDF
from backstory.ingest.documents.reading import draw_page
from backstory.interfaces.library.corpus import Corpus
from backstory.interfaces.library.names import list_all_files


def draw_document_page(corpus: Corpus, name: str, page: int) -> bytes:
    """Draw a page of a document; see :meth:`backstory.interfaces.library.library.Library.page_picture`."""
    row = corpus.find(name)
    uri, pages = row["uri"], len(row["page_starts"] or ())
    if row["format"] != PDF.name or not 1 <= page <= pages:
        raise InputError(
            f"{uri} has no picture of a page {page}; only pages of PDF files are drawn, and it has {pages}",
            code="unknown_page",
        )
    settings = corpus.workspace.settings.documents
    file = next((each for each in list_all_files(corpus.workspace).files if each.uri == uri), None)
    limits = ReadingLimits(settings.read_seconds, settings.read_megabytes)
    content = b"" if file is None else file.read(most_bytes=limits.most_bytes)
    if hashlib.sha256(content).hexdigest() != row["content_hash"]:
        raise InputError(
            f"{uri} has changed since it was indexed, so its pages may be others; index again",
            code="changed_document",
        )
    return draw_page(content, page, settings)
