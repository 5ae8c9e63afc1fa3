"""Settings of one further source of documents."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final, Self

from pydantic import field_validator, model_validator

from backstory.path_patterns import compile_patterns
from backstory.settings.group import SettingsGroup

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}")
_SCHEMES: Final = frozenset(
    ["http", "https", "file", "ftp", "s3", "gs", "abfs", "memory", "zip", "mailto", "data"]
)


class SourceSettings(SettingsGroup):
    """One further source of documents beside the folder of documents."""

    path: str
    """A file or folder, absolute or relative to the workspace; `~` is the home folder."""
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
        if not self.path.strip():
            raise ValueError("path is empty; name a file or a folder")
        return self

    @property
    def label(self) -> str:
        """The name of the source: the given one, or else one from the end of its path."""
        return self.name or make_source_name(self.path)


def require_source_name(name: str) -> None:
    """Raise if a text cannot name a source.

    Raises:
        ValueError: It holds other characters than a name may, or is taken for the scheme of an address.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(
            "a source is named by 1 to 40 small letters a to z, digits, dots, dashes and underscores, and begins with "
            "a letter or digit"
        )
    if name in _SCHEMES:
        raise ValueError(f"{name} begins addresses of another kind; give the source another name")


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
