"""Texts added by programs: Markdown files that the library writes into a folder of the documents.

The front matter of a file holds its id and its checksum. The checksum shows whether a person has edited the file
since; the library never replaces or deletes a person's file.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Annotated, Any, Final, Self, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, Strict, ValidationError, model_validator

from backstory.base.errors import InputError
from backstory.base.files.atomic import write_file
from backstory.base.ids import digest
from backstory.ingest.documents.metadata import parse_date
from backstory.interfaces.library.names import ADDED_FOLDER
from backstory.writing.post_files import FileState, inspect_file, write_sealed

_SAFE: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,79}")
_UNSAFE: Final = re.compile(r"[^a-z0-9._-]+")
_NAME_CHARACTERS: Final = 60
_HASH_CHARACTERS: Final = 8


def _check_date(value: Any) -> str:
    if isinstance(value, datetime) and value.tzinfo is None:
        raise ValueError(f"{value} has no time zone; pass an aware time, such as UTC")
    text = value.isoformat() if isinstance(value, date) else str(value)
    try:
        parse_date(text)
    except ValueError as error:
        raise ValueError(f"{value!r} is not a date; write it as YYYY-MM-DD") from error
    return text


def _require_text(value: str) -> str:
    value.encode()  # a lone surrogate raises an error that says so
    if not value.strip():
        raise ValueError("it is blank")
    return value


_Named: TypeAlias = Annotated[str, Strict(), AfterValidator(_require_text)]


class _Metadata(BaseModel, extra="allow"):
    """Metadata with columns in the documents, and any other."""

    title: _Named | None = None
    slug: _Named | None = None
    date: Annotated[str, BeforeValidator(_check_date)] | None = None
    tags: list[_Named] | None = None
    kind: _Named | None = None
    tenant: _Named | None = None

    def as_fields(self) -> dict[str, Any]:
        """Return the fields of the documents, and all other metadata as one field ``metadata``."""
        others = {name: value for name, value in (self.model_extra or {}).items() if value is not None}
        stated = self.model_dump(include=set(_Metadata.model_fields), exclude_none=True)
        return {**stated, **({"metadata": others} if others else {})}

    @model_validator(mode="after")
    def _require_json(self) -> Self:
        try:
            json.dumps(self.model_extra, allow_nan=False, ensure_ascii=False).encode()
        except TypeError as error:
            raise ValueError(f"cannot be written: {error}") from error
        return self


def _take_mapping(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else value


class _Texts(BaseModel):
    """What is to be added."""

    texts: list[_Named]
    ids: list[_Named] | None
    metadata: list[Annotated[_Metadata, BeforeValidator(_take_mapping)]] | None

    @model_validator(mode="after")
    def _require_one_each(self) -> Self:
        for name, given in (("ids", self.ids), ("metadata", self.metadata)):
            if given is not None and len(given) != len(self.texts):
                raise ValueError(f"{len(self.texts)} texts and {len(given)} {name}; pass one for each text")
        if self.ids and (twice := [name for name, times in Counter(self.ids).items() if times > 1]):
            raise ValueError(f"the id {twice[0]!r} is given twice; an id names one text")
        return self


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
        checked = _Texts.model_validate({"texts": texts, "ids": ids, "metadata": metadata})
    except ValidationError as error:
        told = error.errors()[0]
        where = ".".join(map(str, told["loc"])) or "the texts"
        raise InputError(f"{where} cannot be added: {told['msg']}", code="invalid_text") from error
    names = checked.ids or [digest([text], length=16) for text in checked.texts]
    fields = [one.as_fields() for one in checked.metadata or [_Metadata()] * len(names)]
    owner = {"tenant": tenant} if tenant else {}
    return [
        AddedText(name, text, owner | stated)
        for name, text, stated in zip(names, checked.texts, fields, strict=True)
    ]


def locate_text(folder: Path, text_id: str) -> Path:
    """Return the file of an added text, also of one that was never added."""
    name = text_id
    if not _SAFE.fullmatch(text_id):
        # Other ids are shortened to what every file system can hold; their hash distinguishes them.
        plain = _UNSAFE.sub("-", text_id.casefold()).strip("-._")[:_NAME_CHARACTERS]
        name = f"{plain}{'-' if plain else ''}~{digest([text_id], length=_HASH_CHARACTERS)}"
    return folder / ADDED_FOLDER / f"{name}.md"


def write_text(folder: Path, added: AddedText) -> Path:
    """Write the file of a text, unless it holds this text already."""
    path = locate_text(folder, added.text_id)
    content = write_sealed({**added.metadata, "added_as": added.text_id}, f"{added.text}\n")
    if not path.is_file() or path.read_bytes() != content:
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
