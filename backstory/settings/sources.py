"""Settings of one further source of documents."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final, Self
from urllib.parse import parse_qsl, urlsplit

from pydantic import field_validator, model_validator

from backstory.base.files.patterns import compile_patterns
from backstory.settings.groups import SettingsGroup

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}")
_DRIVE_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,200}")
_CREDENTIAL: Final = re.compile(r"sig$|signature|token|secret|password|passwd|credential|key|auth")
_SCHEMES: Final = frozenset(
    ["http", "https", "file", "ftp", "s3", "gs", "abfs", "memory", "zip", "mailto", "data"]
)


class DriveSettings(SettingsGroup):
    """Files of Google Drive, by the ids in their addresses."""

    folder: str | None = None
    """Id of a folder, whose files and subfolders are read."""
    files: tuple[str, ...] = ()
    """Ids of single files."""

    @model_validator(mode="after")
    def _ids(self) -> Self:
        ids = (*self.files, *([self.folder] if self.folder is not None else []))
        if not ids or not all(_DRIVE_ID.fullmatch(each) for each in ids):
            raise ValueError(
                "drive names a `folder` or `files` by their ids: the long word in the address of each"
            )
        return self


class SourceSettings(SettingsGroup):
    """One source of documents in addition to the folder of documents."""

    path: str | None = None
    """A file or folder, absolute or relative to the workspace; `~` is the home folder."""
    url: str | None = None
    """Address of a bucket, folder or archive that fsspec knows, such as s3://notes/wiki."""
    urls: tuple[str, ...] = ()
    """Addresses of single files of the web."""
    url_list: str | None = None
    """Address of a text in the web that names further ones, each on a line of its own."""
    drive: DriveSettings | None = None
    """Files of Google Drive."""
    name: str = ""
    """Short name that begins the uri of every document; empty takes it from the end of the path."""
    include: tuple[str, ...] = ()
    """Files to read, as in `.gitignore`; empty for all."""
    exclude: tuple[str, ...] = ()
    """Files and folders to leave out, as in `.gitignore`."""
    kind: str | None = None
    """Kind of its documents that do not state one; null takes that of all documents."""
    tenant: str | None = None
    """Tenant of its documents that do not state one; null takes that of all documents."""

    @field_validator("name")
    @classmethod
    def _short_name(cls, value: str) -> str:
        if value:
            require_source_name(value)
        return value

    @field_validator("include", "exclude")
    @classmethod
    def _patterns(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        compile_patterns(value)
        return value

    @model_validator(mode="after")
    def _has_a_place(self) -> Self:
        if (self.path is not None) + (self.url is not None) + bool(self.urls or self.url_list) + (
            self.drive is not None
        ) != 1:
            raise ValueError("a source has either `path`, or `url`, or `drive`, or `urls` and `url_list`")
        if self.path is not None and not self.path.strip():
            raise ValueError("path is empty; name a file or a folder")
        if self.url is not None and urlsplit(self.url).scheme in ("", "http", "https"):
            raise ValueError(
                "`url` is an address such as s3://bucket/folder; name files of the web by `urls`"
            )
        for address in (*self.urls, *([self.url_list] if self.url_list else [])):
            if urlsplit(address).scheme not in ("http", "https"):
                raise ValueError("`urls` and `url_list` are addresses that begin with https:// or http://")
        for address in self.addresses:
            part = find_credential(address)
            if part is not None:
                raise ValueError(
                    f"the address of a source holds {part}; keys are read from the environment of the service's tool"
                )
        return self

    @property
    def addresses(self) -> tuple[str, ...]:
        """All addresses that the source names."""
        return tuple(address for address in (self.url, *self.urls, self.url_list) if address)

    @property
    def is_remote(self) -> bool:
        """Whether its files are fetched from elsewhere."""
        return self.path is None

    @property
    def origin(self) -> str:
        """The identity of the place: its path or addresses."""
        place = self.path or self.url
        return place or ("web" if self.drive is None else f"drive {self.drive.folder or ''}")

    @property
    def label(self) -> str:
        """The name of the source: the given one, or else one from the end of its path."""
        if self.name:
            return self.name
        if self.drive is not None:
            return "drive"
        place = self.path or (self.addresses[0] if self.addresses else "")
        return make_source_name(urlsplit(place).path.rstrip("/") or urlsplit(place).netloc)


def find_credential(address: str) -> str | None:
    """Return which part of an address may be a key or a password; None if none is."""
    parts = urlsplit(address.rpartition("::")[2])
    if "@" in parts.netloc and parts.scheme not in ("abfs", "abfss"):
        return "a user or a password"
    if ":" in parts.netloc.rpartition("@")[0]:
        return "a user or a password"
    names = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
    return next((f"a part called {name}" for name in names if _CREDENTIAL.search(name.lower())), None)


def require_source_name(name: str) -> None:
    """Raise if a text cannot name a source.

    Raises:
        ValueError: It holds other characters than a name may, or is taken for the scheme of an address.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(
            "the name of a source has 1 to 40 small letters a to z, digits, dots, dashes and underscores, and begins "
            "with a letter or digit"
        )
    if name in _SCHEMES:
        raise ValueError(f"{name} is what addresses of another kind begin with; give the source another name")


def make_source_name(path: str, taken: Iterable[str] = ()) -> str:
    """Make a name from the end of a path: its letters, and a number where the name is taken.

    Args:
        path: The path of a file or folder.
        taken: Names of other sources.
    """
    end = PurePosixPath(path)
    words = re.sub(r"[^a-z0-9._-]+", "-", (end.stem or end.name).lower()).strip("-._")[:36].rstrip("-._")
    name = words or "source"
    if name in _SCHEMES:
        name = f"{name}-files"
    others = set(taken)
    numbered = (f"{name}-{number}" for number in range(2, len(others) + 3))
    return next(one for one in (name, *numbered) if one not in others)
