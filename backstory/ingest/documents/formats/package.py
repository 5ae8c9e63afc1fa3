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
from backstory.ingest.documents.formats.texts import find_title
from backstory.ingest.documents.metadata import ParsedDocument, read_properties
from backstory.ingest.documents.page_texts import PAGE_BREAK, find_starts
from backstory.ingest.file_kinds import name_binary_kind
from backstory.ingest.zips import list_members, open_zip, read_member
from backstory.settings.inputs import ChunkerName

MOST_CHARACTERS: Final = 20_000_000
"""Maximum length of the text of a file: a short one can repeat a text without end."""
_MOST_PARTS: Final = 20_000
_MOST_UNPACKED: Final = 1 << 30
_TEXT_ENDINGS: Final = (".xml", ".rels", ".opf", ".xhtml", ".html", ".htm")
_OLE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED: Final = "EncryptedPackage".encode("utf-16-le")
_ENCRYPTION: Final = b"encryption-data"
"""What the manifest of an OpenDocument file says of each part that a password protects."""
_DEFINITIONS: Final = tuple("<!DOCTYPE".encode(name) for name in ("ascii", "utf-16-le", "utf-16-be"))
_PICTURE: Final = re.compile(
    r"(?i:.*(?<!thumbnail)\.(?:png|jpe?g|gif|webp|bmp|tiff?|svg|emf|wmf)|(?:ppt|word)/charts/chart\d*\.xml)"
)
_LITTLE_TEXT: Final = 400
"""Characters for each image below which the images are likely to hold what the document says."""


@dataclass(frozen=True)
class Package:
    """A checked file: its text parts by name, and the names of all parts."""

    parts: dict[str, bytes]
    names: tuple[str, ...]

    def parse(self, name: str, *, is_optional: bool = False) -> Element:
        """Parse a part, without namespaces in the names of its elements; an optional part that is missing is empty.

        It raises ``ReadError`` if a part is missing, is not XML, or has a document type definition.
        """
        if is_optional and name not in self.parts:
            return Element("missing")
        root = parse_xml(self.parts.get(name, b""), name)
        for element in root.iter():
            element.tag = element.tag.rpartition("}")[2]
        return root

    def rewrite(self) -> io.BytesIO:
        """Write a ZIP file of the text parts, for a library; none may have a document type definition."""
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, content in self.parts.items():
                _refuse_definitions(content, name)
                archive.writestr(zipfile.ZipInfo(name), content)
        file.seek(0)
        return file

    def list_related(self, name: str) -> dict[str, tuple[str, str]]:
        """List kind and name of the parts that a part of Microsoft Office names, by the id of the relation."""
        folder, file = posixpath.split(name)
        found = {}
        for relation in self.parse(f"{folder}/_rels/{file}.rels", is_optional=True):
            path = posixpath.normpath(posixpath.join(f"/{folder}", relation.get("Target", "")))
            found[relation.get("Id", "")] = (relation.get("Type", "").rpartition("/")[2], path.lstrip("/"))
        return found


def open_package(content: bytes, kind: str, *, needs_extra: bool = False) -> Package:
    """Check a file and read its text parts; raise ``ReadError`` if it is no such file, or exceeds a limit.

    ``needs_extra``: whether packages read it that an extra installs; without them the error says what to install.
    """
    package = Package({}, ())
    if content.startswith(b"PK"):
        package = _read_parts(content)
    elif _ENCRYPTED not in content or not content.startswith(_OLE):
        found = name_binary_kind(content) or "a text"
        raise ReadError(
            f"this is {found}, although its name says otherwise; give it the name of its kind, or save it as {kind}"
        )
    if not package.names or _ENCRYPTION in package.parts.get("META-INF/manifest.xml", b""):
        raise ReadError(f"this is {kind}, protected by a password; save it without one", code="protected")
    if needs_extra:
        try:
            require_extra("office", f"reading {kind}", "save its text as Markdown")
        except MissingExtraError as error:
            raise ReadError(str(error), code="missing_extra") from error
    return package


def _read_parts(content: bytes) -> Package:
    parts: dict[str, bytes] = {}
    names = []
    with open_zip(io.BytesIO(content), _MOST_PARTS, _MOST_UNPACKED) as archive:
        for name, info, problem in list_members(archive):
            names.append(name)
            if name != "mimetype" and not name.lower().endswith(_TEXT_ENDINGS):
                continue
            if problem is not None:
                raise ReadError(f"its part {name!r} cannot be read: {problem}")
            parts[name] = read_member(archive, info)
    if not parts:
        raise damaged("it holds no part of a document")
    return Package(parts, tuple(names))


def damaged(problem: str) -> ReadError:
    """Make the error of a damaged file."""
    return ReadError(f"the file is damaged: {problem}; write or export it again", code="damaged_file")


def parse_xml(content: bytes, name: str) -> Element:
    """Parse the content of a part."""
    _refuse_definitions(content, name)
    parser = XMLParser()  # noqa: S314 - what makes it unsafe was refused
    try:
        parser.feed(content)
        return parser.close()
    except (SyntaxError, ValueError, LookupError) as error:
        raise damaged(f"its part {name} is missing, or is not XML") from error


def _refuse_definitions(content: bytes, name: str) -> None:
    """Raise ``ReadError`` if XML has a document type definition: office documents have none, attacks do."""
    if any(mark in content for mark in _DEFINITIONS):
        raise ReadError(
            f"its part {name} defines entities or a document type, which no office program writes; the file may "
            "be made to do harm, and is not read"
        )


def compose_document(
    package: Package,
    pages: Sequence[str],
    chunker: ChunkerName = "markdown",
    *,
    properties: Element | None = None,
    notes: Iterable[str | None] = (),
) -> ParsedDocument:
    """Compose a document of one text, or of pages; images are named as unread if it has little text beside them.

    ``properties``: those of a book, which has them in a part of its own.
    """
    separator = "" if chunker == "rows" else PAGE_BREAK
    text = separator.join(pages)
    pictures = sum(map(bool, map(_PICTURE.fullmatch, package.names)))
    unread = (
        f"{count(pictures, 'image or chart was', 'images or charts were')} not read; export the document as PDF, whose "
        "images can be recognised"
    )
    if len(text) > MOST_CHARACTERS:
        problem = f"it has more than {MOST_CHARACTERS:,} characters of text; split it"
        raise ReadError(problem, code="too_large")
    if not text.strip():
        problem = unread if pictures else "write some, or remove the file"
        raise ReadError(f"there is no text in it; {problem}", code="empty_document")
    if properties is None:
        part = "meta.xml" if "meta.xml" in package.parts else "docProps/core.xml"
        properties = package.parse(part, is_optional=True)
    stated = read_properties(properties)
    has_images = len(text) < _LITTLE_TEXT * pictures
    return replace(
        stated,
        text=text,
        title=stated.title or (None if chunker == "rows" else find_title(text)),
        page_starts=() if chunker == "markdown" else find_starts(pages, separator),
        chunker=chunker,
        unread="; ".join(filter(None, [*notes, unread if has_images else None])) or None,
    )
