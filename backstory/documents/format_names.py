"""What the formats of documents are called where a person reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

FORMAT_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "markdown": "Markdown",
        "csv": "CSV",
        "json": "JSON",
        "jsonl": "JSON lines",
        "parquet": "Parquet",
        "code": "source code",
        "pdf": "PDF",
        "image": "image (PNG, JPEG, TIFF, WebP)",
        "text": "text",
        "restructuredtext": "reStructuredText",
        "asciidoc": "AsciiDoc",
        "org": "Org mode",
        "html": "web page",
        "docx": "Word",
        "pptx": "PowerPoint",
        "spreadsheet": "Excel",
        "odt": "OpenDocument",
        "odp": "OpenDocument",
        "epub": "EPUB",
    }
)
"""Name of each reader's format; a format that is not here is called as the tables call it."""


def list_formats(formats: Iterable[str]) -> str:
    """List formats by their names, each once."""
    return ", ".join(dict.fromkeys(name_format(each) for each in formats))


def name_format(format_name: str) -> str:
    """Return the name of a format, as the tables give it, in words."""
    return FORMAT_NAMES.get(format_name, format_name)
