"""Texts added by programs: Markdown files that the library writes into a folder of the documents.

The front matter of a file holds its id and its checksum. The checksum shows whether a person has edited the file
since; the library never replaces or deletes a person's file.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final

from backstory.base.errors import InputError
from backstory.base.files.atomic import write_file
from backstory.base.ids import digest
from backstory.ingest.documents.dates import parse_date
from backstory.interfaces.library.names import ADDED_FOLDER
from backstory.text.encoding import is_unicode
from backstory.writing.post_files import FileState, inspect_file, write_sealed

FIELDS: Final = ("title", "slug", "date", "tags", "kind", "tenant")
"""Metadata with columns in the documents; the file stores all other metadata as one field ``metadata``."""

_SAFE: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,79}")
_UNSAFE: Final = re.compile(r"[^a-z0-9._-]+")
_NAME_CHARACTERS: Final = 60
_HASH_CHARACTERS: Final = 8


@dataclass(frozen=True)
class AddedText:
    """A text to add.

    Attributes:
        text_id: Its id.
        text: Its text, not blank.
        metadata: Its metadata.
    """

    text_id: str
    text: str
    metadata: Mapping[str, Any]

    @property
    def tenant(self) -> str:
        """Its owner; empty for none."""
        return str(self.metadata.get("tenant", ""))


def check_texts(
    texts: Sequence[str],
    ids: Sequence[str] | None,
    metadata: Sequence[Mapping[str, Any]] | None,
    tenant: str | None = None,
) -> list[AddedText]:
    """Check texts before any of them is written.

    Args:
        texts: The texts.
        ids: One id per text; None to name each by its content.
        metadata: The metadata of each text; None for none.
        tenant: Owner of the texts whose metadata name none; None or empty for nobody.

    Raises:
        InputError: An argument has another shape, a text is blank, the numbers differ, an id is blank or repeated, or
            metadata cannot be written.
    """
    if isinstance(texts, str) or isinstance(ids, str):
        raise InputError("texts and ids are lists; pass a list of one text to add one", code="wrong_type")
    if isinstance(metadata, Mapping) or not all(isinstance(each, Mapping) for each in metadata or ()):
        raise InputError(
            f"metadata is a list with a mapping for each text; found {metadata!r}", code="wrong_type"
        )
    for name, given in (("texts", texts), ("ids", ids or ())):
        wrong = next((one for one in given if not isinstance(one, str)), None)
        if wrong is not None:
            raise InputError(f"{name} must be texts; found {wrong!r}", code="wrong_type")
    names = [digest([text], length=16) for text in texts] if ids is None else list(ids)
    facts: list[Mapping[str, Any]] = [{} for _ in texts] if metadata is None else list(metadata)
    if not len(texts) == len(names) == len(facts):
        raise InputError(
            f"{len(texts)} texts, {len(names)} ids and {len(facts)} metadata; pass one id and one metadata per text",
            code="wrong_count",
        )
    blank = next((place for place, text in enumerate(texts) if not text.strip()), None)
    if blank is not None:
        raise InputError(
            f"text {blank + 1} ({names[blank]!r}) is blank; leave it out, or give it a text",
            code="blank_text",
        )
    unwritable = next(
        (name for name, text in zip(names, texts, strict=True) if not is_unicode(name + text)), None
    )
    if unwritable is not None:
        raise InputError(
            f"the text {unwritable!r} holds half of a character (a lone surrogate); decode it as it was written",
            code="no_unicode",
        )
    if any(not name.strip() for name in names):
        raise InputError("an id is blank; give each text an id, or leave out the ids", code="blank_id")
    if ids is not None and len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise InputError(f"the id {repeated!r} is given twice; an id names one text", code="duplicate")
    return [
        AddedText(name, text, _check_metadata(name, fact, tenant))
        for name, text, fact in zip(names, texts, facts, strict=True)
    ]


def locate_text(folder: Path, text_id: str) -> Path:
    """Return the file of an added text, also of one that was never added.

    Args:
        folder: Folder of the documents.
        text_id: Id of the text.
    """
    if _SAFE.fullmatch(text_id):
        return folder / ADDED_FOLDER / f"{text_id}.md"
    # Other ids are shortened to what every file system can hold; their hash distinguishes them.
    plain = _UNSAFE.sub("-", text_id.casefold()).strip("-._")[:_NAME_CHARACTERS]
    return (
        folder
        / ADDED_FOLDER
        / f"{plain}{'-' if plain else ''}~{digest([text_id], length=_HASH_CHARACTERS)}.md"
    )


def write_text(folder: Path, added: AddedText) -> Path:
    """Write the file of a text, unless it holds this text already.

    Args:
        folder: Folder of the documents.
        added: The text.

    Raises:
        InputError: A person's file is in its place.
    """
    path = locate_text(folder, added.text_id)
    if inspect_text(path) == "edited":
        raise InputError(
            f"{path} was written or edited by a person, so the text {added.text_id!r} does not replace it; "
            "add it under another id, or move the file away",
            code="edited_file",
        )
    content = _render(added)
    if path.is_file() and path.read_bytes() == content:
        return path
    write_file(path, content)
    return path


def read_text(path: Path) -> AddedText | None:
    """Read the file of a text back.

    Returns:
        The text as it was added; None if its file is absent or a person's.
    """
    if inspect_text(path) != "ours":
        return None
    head, body = path.read_bytes().decode().removeprefix("---\n").split("\n---\n", 1)
    lines = (line.partition(": ") for line in head.split("\n"))
    fields = {name: json.loads(value) for name, _, value in lines if name != "checksum"}
    text_id = str(fields.pop("added_as"))
    return AddedText(text_id, body.removesuffix("\n"), {**fields.pop("metadata", {}), **fields})


def read_metadata(path: Path, uri: str, revision: str = "") -> Mapping[str, Any]:
    """Read the metadata with which a text was added.

    Args:
        path: The file of a document.
        uri: Path of the document.
        revision: Its indexed revision; without one, the file may have changed since.

    Returns:
        The metadata; empty for a file that was not added as a text, or was changed since.
    """
    added = read_text(path) if uri.startswith(f"{ADDED_FOLDER}/") else None
    if added is None or not hashlib.sha256(path.read_bytes()).hexdigest().startswith(revision):
        return {}
    return {**added.metadata, "id": added.text_id}


def inspect_text(path: Path) -> FileState:
    """Return whether the file of a text is absent, as it was written, or a person's."""
    return "edited" if path.is_symlink() or path.is_dir() else inspect_file(path)


def _check_metadata(text_id: str, metadata: Mapping[str, Any], tenant: str | None) -> dict[str, Any]:
    stated = {str(name): value for name, value in metadata.items() if value is not None}
    if tenant:
        stated.setdefault("tenant", tenant)
    for name in ("title", "slug", "kind", "tenant"):
        if name in stated and not (isinstance(stated[name], str) and stated[name].strip()):
            raise InputError(
                f"text {text_id!r}: its {name} must be a text that is not blank; found {stated[name]!r}",
                code="invalid_metadata",
            )
    if "tags" in stated:
        tags = stated["tags"]
        if not isinstance(tags, list | tuple | set | frozenset) or not all(
            isinstance(tag, str) and tag.strip() for tag in tags
        ):
            raise InputError(
                f"text {text_id!r}: its tags must be a list of texts; found {tags!r}", code="invalid_metadata"
            )
        stated["tags"] = list(tags)
    if "date" in stated:
        stated["date"] = _check_date(text_id, stated["date"])
    others = {name: stated.pop(name) for name in list(stated) if name not in FIELDS}
    try:
        json.dumps(others, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"text {text_id!r}: its metadata cannot be written as JSON ({error})", code="invalid_metadata"
        ) from error
    return {**stated, **({"metadata": others} if others else {})}


def _check_date(text_id: str, value: Any) -> str:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise InputError(
                f"text {text_id!r}: its date {value} has no time zone; pass an aware time, such as UTC",
                code="invalid_metadata",
            )
        return value.isoformat()
    try:
        parse_date(value.isoformat() if isinstance(value, date) else str(value))
    except ValueError as error:
        raise InputError(
            f"text {text_id!r}: {value!r} is not a date; write it as YYYY-MM-DD", code="invalid_metadata"
        ) from error
    return str(value)


def _render(added: AddedText) -> bytes:
    """Write a text as a file. The checksum is that of the file without the line of the checksum."""
    fields = {**added.metadata, "added_as": added.text_id}
    return write_sealed(fields, f"{added.text}\n")
