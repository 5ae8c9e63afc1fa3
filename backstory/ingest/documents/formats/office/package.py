"""The ZIP file of an office document or an e-book, checked before anything of it is read, and its document."""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final
from xml.etree.ElementTree import Element, XMLParser

from backstory.base.errors import MissingExtraError, ReadError
from backstory.base.extras import require_extra
from backstory.base.wording import count
from backstory.ingest.documents.formats.properties import read_properties
from backstory.ingest.documents.formats.texts import find_title
from backstory.ingest.documents.parsed_document import ParsedDocument
from backstory.ingest.file_kinds import name_binary_kind
from backstory.ingest.zips import ZipLimits, list_members, open_zip, read_member

MOST_BYTES: Final = 256 << 20
"""Maximum size of all text parts of a file together, decompressed."""
_LIMITS: Final = ZipLimits(members=20_000, bytes=8 << 30)
_TEXT_ENDINGS: Final = (".xml", ".rels", ".opf", ".xhtml", ".html", ".htm")
_OLE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED: Final = "EncryptedPackage".encode("utf-16-le")
_ENCRYPTION: Final = b"encryption-data"
"""What the manifest of an OpenDocument file says of each part that a password protects."""
_DEFINITION: Final = re.compile(rb"[^<]{0,9}(?:\s|<\?.*?\?>|<!--.*?-->)*<!DOCTYPE", re.DOTALL | re.IGNORECASE)
_LITTLE_TEXT: Final = 400
"""Characters for each image below which the images are likely to hold what the document says."""


@dataclass(frozen=True)
class Package:
    """A checked file: its text parts by name, and the names of all parts."""

    parts: dict[str, bytes]
    names: tuple[str, ...]

    def parse(self, name: str) -> Element:
        """Parse a part; raise ``ReadError`` if it is missing, is not XML, or has a document type definition."""
        if name not in self.parts:
            raise damaged(f"its part {name} is missing")
        refuse_definitions(self.parts[name], name)
        parser = XMLParser()  # noqa: S314 - what makes it unsafe was refused
        try:
            parser.feed(self.parts[name])
            return parser.close()
        except (SyntaxError, ValueError, LookupError) as error:
            raise damaged(f"its part {name} is not XML") from error

    def parse_optional(self, name: str) -> Element | None:
        """Parse a part as :meth:`parse` does; None if the file has no such part."""
        return self.parse(name) if name in self.parts else None

    def rewrite(self) -> io.BytesIO:
        """Write a ZIP file of the text parts, for a library; none may have a document type definition."""
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, content in self.parts.items():
                if name != "mimetype":
                    refuse_definitions(content, name)
                archive.writestr(zipfile.ZipInfo(name), content)
        file.seek(0)
        return file

    def list_related(self, name: str) -> dict[str, tuple[str, str]]:
        """List kind and name of the parts that a part of Microsoft Office names, by the id of the relation."""
        folder, file = posixpath.split(name)
        root = self.parse_optional(f"{folder}/_rels/{file}.rels")
        found = {}
        for relation in root if root is not None else ():
            path = posixpath.normpath(posixpath.join(f"/{folder}", relation.get("Target", "")))
            found[relation.get("Id", "")] = (relation.get("Type", "").rpartition("/")[2], path.lstrip("/"))
        return found

    def count_images(self, folder: str) -> int:
        """Count the files in and below a folder of images."""
        return sum(name.startswith(folder) and not name.endswith("/") for name in self.names)


def open_package(content: bytes, kind: str) -> Package:
    """Check a file and read its text parts; raise ``ReadError`` if it is no such file, or exceeds a limit."""
    if not content:
        raise ReadError("the file is empty; save it again, or remove it", code="empty_document")
    if content.startswith(_OLE) and _ENCRYPTED not in content:
        raise ReadError(
            f"this is a file of an old Microsoft Office, although its name says otherwise; save it as {kind}"
        )
    if not content.startswith((b"PK", _OLE)):
        found = name_binary_kind(content)
        what = (
            f"{found}, although its name says otherwise"
            if found
            else f"not {kind}, although its name says so"
        )
        raise ReadError(f"this is {what}; give it the name of its kind, or save it again")
    parts: dict[str, bytes] = {}
    names = []
    if content.startswith(b"PK"):
        with open_zip(io.BytesIO(content), _LIMITS) as archive:
            total = 0
            for name, info, problem in list_members(archive):
                names.append(name)
                if not (name == "mimetype" or name.lower().endswith(_TEXT_ENDINGS)):
                    continue
                if problem is not None:
                    raise ReadError(f"its part {name!r} cannot be read: {problem}")
                total += info.file_size
                if total > MOST_BYTES:
                    raise ReadError(
                        f"its texts have more than {MOST_BYTES:,} bytes when unpacked; split it",
                        code="too_large",
                    )
                parts[name] = read_member(archive, info)
    if content.startswith(_OLE) or _ENCRYPTION in parts.get("META-INF/manifest.xml", b""):
        raise ReadError(
            f"this is {kind} that is protected by a password; save it without one", code="protected"
        )
    if not parts:
        raise damaged("it holds no part of a document")
    return Package(parts, tuple(names))


def damaged(problem: str) -> ReadError:
    """Make the error of a damaged file."""
    return ReadError(f"the file is damaged: {problem}; write or export it again", code="damaged_file")


def refuse_definitions(content: bytes, name: str) -> None:
    """Raise ``ReadError`` if XML begins with a document type definition: office documents have none, attacks do."""
    if _DEFINITION.match(content.replace(b"\0", b"")):  # also in UTF-16
        raise ReadError(
            f"its part {name} defines entities or a document type, which no office program writes; the file may "
            "be made to do harm, and is not read"
        )


def require_office(kind: str) -> None:
    """Raise ``ReadError`` that says what to install if packages are absent."""
    try:
        require_extra("office", f"reading {kind}", "save its text as Markdown")
    except MissingExtraError as error:
        raise ReadError(str(error), code="missing_extra") from error


def compose_document(
    text: str,
    properties: Element | None,
    images: int,
    *,
    starts: tuple[int, ...] = (),
    notes: Iterable[str | None] = (),
) -> ParsedDocument:
    """Compose a document; images are named as unread if it has little text beside them."""
    unread = (
        count(images, "image was", "images were")
        + " not read; export the document as PDF, whose images can be recognised"
    )
    if not text.strip():
        problem = unread if images else "write some, or remove the file"
        raise ReadError(f"there is no text in it; {problem}", code="empty_document")
    stated = read_properties(properties)
    has_images = images and len(text) < _LITTLE_TEXT * images
    return replace(
        stated,
        text=text,
        title=stated.title or find_title(text),
        page_starts=starts,
        chunker="page" if starts else "markdown",
        unread="; ".join(filter(None, [*notes, unread if has_images else None])) or None,
    )


def write_table(rows: Sequence[Sequence[str]]) -> str:
    """Write rows as a table whose header is the first row."""
    width = max(map(len, rows), default=0)
    if not any(cell.strip() for row in rows for cell in row):
        return ""
    lines = [_write_row([*row, *[""] * (width - len(row))]) for row in rows]
    return "\n".join([lines[0], f"|{' --- |' * width}", *lines[1:]])


def _write_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(' '.join(cell.split()).replace('|', chr(92) + '|') for cell in cells)} |"
