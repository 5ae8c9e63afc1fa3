"""Descriptions of files that no reader supports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Final

HEAD_BYTES: Final = 512
"""Number of bytes at the beginning of a file that are examined."""

_ZIP = b"PK\x03\x04"
_OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_MAGIC: Final = (
    (b"%PDF-", "a PDF file"),
    (b"\x89PNG\r\n\x1a\n", "an image (PNG)"),
    (b"\xff\xd8\xff", "an image (JPEG)"),
    (b"GIF87a", "an image (GIF)"),
    (b"GIF89a", "an image (GIF)"),
    (b"II*\0", "an image (TIFF)"),
    (b"MM\0*", "an image (TIFF)"),
    (b"OggS", "a sound file (Ogg)"),
    (b"ID3", "a sound file (MP3)"),
    (b"\x1f\x8b", "an archive (gzip)"),
    (b"7z\xbc\xaf\x27\x1c", "an archive (7z)"),
    (b"Rar!\x1a\x07", "an archive (RAR)"),
    (b"SQLite format 3\0", "a database (SQLite)"),
    (b"PAR1", "a data file (Parquet)"),
    (b"{\\rtf", "a rich text file (RTF)"),
    (_OFFICE, "a file of an old Microsoft Office"),
    (_ZIP, "an archive (ZIP)"),
)
"""First bytes of file types; the last two belong to several types, which the file name suffix distinguishes."""

_SUFFIXES: Final = {
    "a PDF file": ".pdf",
    "a Word file": ".docx .docm .dotx",
    "a Word file of before 2007 (save it as DOCX)": ".doc .dot",
    "a spreadsheet": ".xlsx .xlsm .ods .numbers",
    "a spreadsheet of before 2007 (save it as XLSX)": ".xls .xlt",
    "a spreadsheet in Excel's binary format (save it as XLSX)": ".xlsb",
    "a presentation": ".pptx .odp .key",
    "a presentation of before 2007 (save it as PPTX)": ".ppt .pps",
    "an OpenDocument text": ".odt",
    "a rich text file (RTF)": ".rtf",
    "an e-book": ".epub .mobi .azw3",
    "an image": ".png .jpg .jpeg .gif .webp .svg .tif .tiff .bmp .heic .heif .avif .ico",
    "a sound file": ".mp3 .m4a .wav .ogg .opus .flac .aac",
    "a video": ".mp4 .mov .mkv .webm .avi .3gp",
    "an archive": ".zip .tar .gz .tgz .7z .rar .bz2 .xz",
    "a web page (HTML)": ".html .htm .xhtml",
    "a text file": ".txt .text",
    "a log": ".log",
    "a text file (reStructuredText)": ".rst",
    "a text file (AsciiDoc)": ".adoc .asciidoc",
    "a text file (Org mode)": ".org",
    "a text file (LaTeX)": ".tex",
    "an MDX file": ".mdx",
    "a canvas of Obsidian": ".canvas",
    "a notebook": ".ipynb",
    "a table": ".csv .tsv .tab",
    "a data file (Parquet)": ".parquet",
    "a data file": ".json .jsonl .ndjson .yaml .yml .toml .xml .db .sqlite",
    "an e-mail": ".eml .msg .mbox",
    "program code": (
        ".py .pyi .pyw .js .mjs .cjs .jsx .ts .mts .cts .tsx .css .scss .sh .bash .rb .go .rs .java .c .h .cc .cpp .cxx"
        " .hh .hpp .hxx .cs .kt .php .swift .scala .lua .pl .r .sql"
    ),
}
_KINDS: Final = {suffix: kind for kind, suffixes in _SUFFIXES.items() for suffix in suffixes.split()}


def name_kind(uri: str, head: bytes) -> str:
    """Return the kind of a file, by its first bytes, else by its suffix.

    It returns a noun with its article, such as ``a PDF file``.
    """
    suffix = PurePosixPath(uri).suffix.lower()
    by_name = _KINDS.get(suffix)
    by_content = name_binary_kind(head)
    if by_content is not None and not (by_name and head.startswith((_ZIP, _OFFICE))):
        return by_content
    if by_name is not None:
        return by_name
    return (
        f"a file of a kind that is not known ({suffix})" if suffix else "a file without an ending in its name"
    )


def name_binary_kind(head: bytes) -> str | None:
    """Return the kind of a binary file by its first bytes; None for a text or an unknown kind."""
    if head.startswith(b"RIFF"):
        return {b"WEBP": "an image (WebP)", b"WAVE": "a sound file (WAV)"}.get(head[8:12])
    if head[4:8] == b"ftyp":
        return "an image (HEIF)" if head[8:11] in (b"hei", b"avi", b"mif") else "a video"
    return next((kind for magic, kind in _MAGIC if head.startswith(magic)), None)


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
