"""The ZIP file of an office document or an e-book, checked before a part of it is read.

Nothing is ever unpacked to disk. What a library is given is written anew from the checked parts
(:meth:`Package.rewrite`), so that it never sees the file itself.
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final
from xml.etree.ElementTree import Element, XMLParser

from backstory.base.errors import MissingExtraError, ReadError
from backstory.base.extras import require_extra
from backstory.ingest.documents.file_kinds import HEAD_BYTES, name_binary_kind

MOST_PARTS: Final = 20_000
"""Maximum number of parts of a file."""

MOST_BYTES: Final = 256 << 20
"""Maximum size of all text parts of a file together, decompressed."""

MOST_RATIO: Final = 200
"""How many times its compressed size a part may have, if it is not small; tables of equal rows reach 100."""

SMALL_BYTES: Final = 1 << 20
"""Size up to which a part may be compressed by any ratio."""

_TEXT_ENDINGS: Final = (".xml", ".rels", ".opf", ".xhtml", ".html", ".htm")
_OLE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED: Final = "EncryptedPackage".encode("utf-16-le")
_MANIFEST: Final = "META-INF/manifest.xml"
_ENCRYPTION: Final = b"encryption-data"
"""What the manifest of an OpenDocument file says of each part that a password protects."""

_IS_ENCRYPTED: Final = 0x1
_DEFINITION: Final = re.compile(rb"[^<]{0,9}(?:\s|<\?.*?\?>|<!--.*?-->)*<!DOCTYPE", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True)
class Package:
    """A checked file.

    Attributes:
        uri: Name of the file in error messages.
        parts: The text parts by name.
        names: The names of all parts.
    """

    uri: str
    parts: dict[str, bytes]
    names: tuple[str, ...]

    def require(self, name: str) -> bytes:
        """Return a part.

        It raises ``ReadError`` if the file has no such part.
        """
        if name not in self.parts:
            raise damaged(self.uri, f"its part {name} is missing")
        return self.parts[name]

    def parse(self, name: str) -> Element:
        """Parse a part.

        It raises ``ReadError`` if the file has no such part, or it is not XML, or it has a document type definition.
        """
        return parse_xml(self.require(name), self.uri, name)

    def parse_optional(self, name: str) -> Element | None:
        """Parse a part as :meth:`parse` does; None if the file has no such part."""
        return self.parse(name) if name in self.parts else None

    def rewrite(self) -> io.BytesIO:
        """Write a ZIP file of the text parts, for a library.

        It raises ``ReadError`` if a part has a document type definition.
        """
        for name, content in self.parts.items():
            if name != "mimetype":
                refuse_definitions(content, self.uri, name)
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, content in self.parts.items():
                archive.writestr(zipfile.ZipInfo(name), content)
        file.seek(0)
        return file

    def count_images(self, folder: str) -> int:
        """Count the files in and below a folder of images."""
        return sum(name.startswith(folder) and not name.endswith("/") for name in self.names)


def open_package(content: bytes, uri: str, kind: str) -> Package:
    """Check a file and read its text parts.

    It raises ``ReadError`` if the file holds nothing; or the file is no such file, is protected by a password, is
    damaged, or exceeds a limit.
    """
    if not content:
        raise ReadError(f"{uri}: the file is empty; save it again, or remove it", code="empty_document")
    if content.startswith(_OLE):
        raise ReadError(f"{uri}: {_describe_ole(content, kind)}")
    if not content.startswith(b"PK"):
        found = name_binary_kind(content[:HEAD_BYTES])
        what = (
            f"is {found}, although its name says otherwise"
            if found
            else f"is not {kind}, although its name says so"
        )
        raise ReadError(f"{uri}: this {what}; give it the name of its kind, or save it again")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            _check_entries(archive.infolist(), uri)
            parts = {
                entry.filename: archive.read(entry)
                for entry in archive.infolist()
                if _is_text(entry.filename)
            }
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, ValueError) as error:
        if isinstance(error, ReadError):
            raise
        raise damaged(uri, "it cannot be unpacked") from error
    if _ENCRYPTION in parts.get(_MANIFEST, b""):
        raise ReadError(
            f"{uri}: this is {kind} that is protected by a password; save it without one", code="protected"
        )
    return Package(uri, parts, tuple(archive.namelist()))


def damaged(uri: str, problem: str) -> ReadError:
    """Build the error for a damaged file."""
    return ReadError(f"{uri}: the file is damaged: {problem}; write or export it again", code="damaged_file")


def parse_xml(content: bytes, uri: str, name: str) -> Element:
    """Parse XML.

    It raises ``ReadError`` if it is not XML, or has a document type definition, which could define entities.
    """
    refuse_definitions(content, uri, name)
    parser = XMLParser()  # noqa: S314 - what makes it unsafe was refused
    try:
        parser.feed(content)
        return parser.close()
    except (SyntaxError, ValueError, LookupError) as error:
        raise damaged(uri, f"its part {name} is not XML") from error


def refuse_definitions(content: bytes, uri: str, name: str) -> None:
    """Raise an error if XML begins with a document type definition: office documents have none, attacks do.

    The definition can only stand before the first element, so that no more is parsed.

    It raises ``ReadError`` if it has one.
    """
    if _DEFINITION.match(content.replace(b"\0", b"")):  # also in UTF-16
        raise ReadError(
            f"{uri}: its part {name} defines entities or a document type, which no office program writes; the file may "
            "be made to do harm, and is not read"
        )


def _describe_ole(content: bytes, kind: str) -> str:
    if _ENCRYPTED in content:
        return f"this is {kind} that is protected by a password; save it without one"
    return f"this is a file of an old Microsoft Office, although its name says otherwise; save it as {kind} of today"


def _is_text(name: str) -> bool:
    return name == "mimetype" or name.lower().endswith(_TEXT_ENDINGS)


def _check_entries(entries: Iterable[zipfile.ZipInfo], uri: str) -> None:
    names: set[str] = set()
    total = 0
    for entry in entries:
        name = PurePosixPath(entry.filename)
        if name.is_absolute() or ".." in name.parts or "\\" in entry.filename:
            raise ReadError(
                f"{uri}: its part {entry.filename!r} points outside the file, so Backstory does not read it"
            )
        if entry.filename in names:
            raise damaged(uri, f"it holds {entry.filename!r} twice")
        names.add(entry.filename)
        if entry.flag_bits & _IS_ENCRYPTED:
            raise ReadError(f"{uri}: it is protected by a password; save it without one", code="protected")
        total += entry.file_size if _is_text(entry.filename) else 0
        if _is_text(entry.filename) and entry.file_size > max(SMALL_BYTES, MOST_RATIO * entry.compress_size):
            raise ReadError(
                f"{uri}: its part {entry.filename!r} grows to {entry.file_size:,} bytes when unpacked, more than "
                f"{MOST_RATIO} times its size in the file, as in files made to do harm; it is not read"
            )
        if len(names) > MOST_PARTS:
            raise ReadError(f"{uri}: it has more than {MOST_PARTS:,} parts; split it")
        if total > MOST_BYTES:
            raise ReadError(
                f"{uri}: its texts have more than {MOST_BYTES:,} bytes when unpacked; split it",
                code="too_large",
            )


def require_office(uri: str, kind: str) -> None:
    """Raise an error that says what to install if a file needs packages that are absent.

    It raises ``ReadError`` if they are absent.
    """
    try:
        require_extra("office", f"reading {kind}", "save its text as Markdown")
    except MissingExtraError as error:
        raise ReadError(f"{uri}: {error}", code="missing_extra") from error
