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
from typing import Annotated, Any, Final, TypeAlias

from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from backstory.base.errors import InputError
from backstory.base.files.atomic import write_file
from backstory.base.ids import digest
from backstory.ingest.documents.dates import parse_date
from backstory.interfaces.library.names import ADDED_FOLDER
from backstory.text.encoding import is_unicode
from backstory.writing.post_files import FileState, inspect_file, write_sealed

_SAFE: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,79}")
_UNSAFE: Final = re.compile(r"[^a-z0-9._-]+")
_NAME_CHARACTERS: Final = 60
_HASH_CHARACTERS: Final = 8


def _check_date(value: Any) -> str:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"{value} has no time zone; pass an aware time, such as UTC")
        return value.isoformat()
    try:
        parse_date(value.isoformat() if isinstance(value, date) else str(value))
    except ValueError as error:
        raise ValueError(f"{value!r} is not a date; write it as YYYY-MM-DD") from error
    return str(value)


_Named: TypeAlias = Annotated[str, Field(strict=True, pattern=r"\S")]
"""A text that is not blank."""


class _Texts(BaseModel):
    """What is to be added."""

    texts: list[str]
    ids: list[str] | None
    metadata: list[dict[Any, Any]] | None


class _Metadata(BaseModel, extra="allow"):
    """Metadata with columns in the documents, and any other."""

    title: _Named | None = None
    slug: _Named | None = None
    date: Annotated[str, BeforeValidator(_check_date)] | None = None
    tags: list[_Named] | None = None
    kind: _Named | None = None
    tenant: _Named | None = None


FIELDS: Final = tuple(_Metadata.model_fields)
"""Metadata with columns in the documents."""


@dataclass(frozen=True)
class AddedText:
    """A text to add, with its id and its metadata."""

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
    """Check texts before any of them is written; those whose metadata name no tenant are of ``tenant``."""
    try:
        checked = _Texts(texts=texts, ids=ids, metadata=metadata)
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise InputError(
            f"{where}: {error.errors()[0]['msg']}; pass a list of texts, of ids, and of a mapping for each text",
            code="wrong_type",
        ) from error
    names = checked.ids or [digest([text], length=16) for text in checked.texts]
    facts = checked.metadata or [{} for _ in checked.texts]
    if not len(checked.texts) == len(names) == len(facts):
        raise InputError(
            f"{len(texts)} texts, {len(names)} ids and {len(facts)} metadata; pass one id and one metadata per text",
            code="wrong_count",
        )
    for place, (name, text) in enumerate(zip(names, checked.texts, strict=True), start=1):
        if not text.strip():
            raise InputError(
                f"text {place} ({name!r}) is blank; leave it out, or give it a text", code="blank_text"
            )
        if not is_unicode(name + text):
            raise InputError(
                f"the text {name!r} holds half of a character (a lone surrogate); decode it as it was written",
                code="no_unicode",
            )
        if not name.strip():
            raise InputError("an id is blank; give each text an id, or leave out the ids", code="blank_id")
        if checked.ids is not None and name in names[: place - 1]:
            raise InputError(f"the id {name!r} is given twice; an id names one text", code="duplicate")
    return [
        AddedText(name, text, _check_metadata(name, fact, tenant))
        for name, text, fact in zip(names, checked.texts, facts, strict=True)
    ]


def locate_text(folder: Path, text_id: str) -> Path:
    """Return the file of an added text, also of one that was never added."""
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
    """Write the file of a text, unless it holds this text already."""
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
    """Read the file of a text back, as it was added; None if it is absent or a person's."""
    if inspect_text(path) != "ours":
        return None
    head, body = path.read_bytes().decode().removeprefix("---\n").split("\n---\n", 1)
    lines = (line.partition(": ") for line in head.split("\n"))
    fields = {name: json.loads(value) for name, _, value in lines if name != "checksum"}
    text_id = str(fields.pop("added_as"))
    return AddedText(text_id, body.removesuffix("\n"), {**fields.pop("metadata", {}), **fields})


def read_metadata(path: Path, uri: str, revision: str = "") -> Mapping[str, Any]:
    """Read the metadata with which a text was added; none of a file that was not, or was changed since."""
    added = read_text(path) if uri.startswith(f"{ADDED_FOLDER}/") else None
    if added is None or not hashlib.sha256(path.read_bytes()).hexdigest().startswith(revision):
        return {}
    return {**added.metadata, "id": added.text_id}


def inspect_text(path: Path) -> FileState:
    """Return whether the file of a text is absent, as it was written, or a person's."""
    return "edited" if path.is_symlink() or path.is_dir() else inspect_file(path)


def _check_metadata(text_id: str, metadata: Mapping[str, Any], tenant: str | None) -> dict[str, Any]:
    """Return the fields of the documents, and all other metadata as one field ``metadata``."""
    try:
        checked = _Metadata.model_validate({**({"tenant": tenant} if tenant else {}), **metadata})
        others = {name: value for name, value in (checked.model_extra or {}).items() if value is not None}
        json.dumps(others, allow_nan=False)
    except (TypeError, ValueError) as error:
        told = error.errors()[0] if isinstance(error, ValidationError) else {"loc": (), "msg": str(error)}
        place = "".join(f" {part}" for part in told["loc"])
        raise InputError(
            f"the metadata{place} of text {text_id!r} cannot be written: {told['msg']}",
            code="invalid_metadata",
        ) from error
    stated = checked.model_dump(include=set(_Metadata.model_fields), exclude_none=True)
    return {**stated, **({"metadata": others} if others else {})}


def _render(added: AddedText) -> bytes:
    """Write a text as a file. The checksum is that of the file without the line of the checksum."""
    fields = {**added.metadata, "added_as": added.text_id}
    return write_sealed(fields, f"{added.text}\n")
