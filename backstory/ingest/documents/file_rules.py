"""Rules that leave files of a folder out: patterns of the settings, and files ``.backstoryignore``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from backstory.base.errors import ReadError
from backstory.base.files.patterns import Patterns, compile_patterns
from backstory.ingest.documents.opening import open_inside
from backstory.ingest.documents.secret_files import describe_secret, list_secret_names
from backstory.settings.inputs import DocumentSettings, SourceSettings

IGNORE_FILE: Final = ".backstoryignore"
"""File of patterns, in any folder, that leaves files out of the folder and those below it."""

MOST_PATTERN_BYTES: Final = 1 << 16
"""Maximum size of a file of patterns."""


@dataclass(frozen=True)
class FileRules:
    """What the settings leave out of a folder.

    Attributes:
        include: Files to read; without patterns, all.
        exclude: Files and folders to leave out.
        secrets: Files that hold secrets, in small letters.
        name: Where the patterns stand, such as ``source notes``, for the reasons.
    """

    include: Patterns = field(default_factory=Patterns)
    exclude: Patterns = field(default_factory=Patterns)
    secrets: Patterns = field(default_factory=list_secret_names)
    name: str = "documents"

    def explain_secret(self, path: str) -> str | None:
        """Return which pattern of secrets a file or folder matches; None if none does."""
        found = self.secrets.find(path.lower())
        return describe_secret(f"its name is one of `{found[1]}`") if found and found[0] else None

    def is_vetted(self, path: str) -> bool:
        """Return whether the settings say that a file may be read though it looks like a secret."""
        found = self.secrets.find(path.lower()) if self.secrets.keeps_any else None
        return found is not None and not found[0]

    def explain_folder(self, path: str) -> str | None:
        """Return which pattern leaves a folder out; None if none does. Its path ends with ``/``."""
        found = self.exclude.find(path)
        return f"`exclude: {found[1]}` of {self.name} leaves it out" if found and found[0] else None

    def explain_file(self, path: str) -> str | None:
        """Return which pattern leaves a file out; None if none does."""
        reason = self.explain_folder(path)
        if reason is None and self.include.lines:
            found = self.include.find(path)
            if found is None or not found[0]:
                reason = f"no pattern of `include` of {self.name} names it"
        return reason


def make_rules(settings: DocumentSettings, source: SourceSettings | None = None) -> FileRules:
    """Make the rules of the settings."""
    secrets = list_secret_names(settings.secrets)
    if source is None:
        return FileRules(secrets=secrets)
    return FileRules(
        Patterns(source.include), Patterns(source.exclude), secrets, name=f"source {source.label}"
    )


def read_ignore_file(folder: Path, root: Path) -> Patterns | None:
    """Read the patterns of a folder; None if it has no file of them.

    It raises ``ReadError`` if the file is there and cannot be used, and with it the list of what must not be read.
    """
    path = folder / IGNORE_FILE
    if not path.is_symlink() and not path.exists():
        return None
    name = str(PurePosixPath(path.relative_to(root)))
    try:
        with open_inside(root, path) as file:
            content = file.read(MOST_PATTERN_BYTES + 1)
    except FileNotFoundError:
        return None
    except ReadError as error:
        raise ReadError(f"{name}: {error}", code=error.code) from error
    return parse_patterns(content, name)


def parse_patterns(content: bytes, name: str) -> Patterns:
    """Read the patterns of a file.

    It raises ``ReadError`` if it is too large, not UTF-8, or a line is no pattern.
    """
    if len(content) > MOST_PATTERN_BYTES:
        raise ReadError(
            f"{name}: a file of patterns has at most {MOST_PATTERN_BYTES:,} bytes; shorten it",
            code="too_large",
        )
    try:
        patterns = Patterns(tuple(content.decode("utf-8-sig").splitlines()))
        compile_patterns(patterns.lines)
    except UnicodeDecodeError as error:
        raise ReadError(f"{name} is not UTF-8 text; save it as such", code="not_utf8") from error
    except ValueError as error:
        raise ReadError(f"{name}: {error}") from error
    return patterns


def explain_ignored(path: str, by_folder: Mapping[str, Patterns]) -> str | None:
    """Return which file of patterns leaves a path out; None if none does. The file nearest to it decides.

    ``path``: relative to the root, with ``/``; that of a folder ends with one. ``by_folder``: the patterns of each
    folder that has some, by its path, which is empty or ends with ``/``.
    """
    for folder in _list_around(path):
        patterns = by_folder.get(folder)
        found = patterns.find(path[len(folder) :]) if patterns else None
        if found is not None:
            return f"`{found[1]}` in {folder}{IGNORE_FILE} leaves it out" if found[0] else None
    return None


def _list_around(path: str) -> Iterable[str]:
    """List the folders around a path, the nearest first."""
    place = path.rstrip("/").rpartition("/")[0]
    while place:
        yield f"{place}/"
        place = place.rpartition("/")[0]
    yield ""
