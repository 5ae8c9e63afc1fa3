"""The order of publication: file ``HISTORY`` lists the published snapshots, oldest first.

Which snapshot is later follows from the place of its line, never from a clock or the time of a file, since clocks are
set back. The time in a line is only shown. A snapshot that is not listed is never served in place of the current one.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from backstory.base.files.atomic import flush

HISTORY_FILE: Final = "HISTORY"
_LINE = re.compile(r"([0-9a-f]{16}) ([0-9a-f]{64}) (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)")
_TIME = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True)
class Publication:
    """One published snapshot.

    Attributes:
        version: Its version.
        manifest: SHA-256 of its manifest, which holds the checksums of its other files.
        at: Time of the publication by the clock of that machine, in UTC, as ``2025-03-04T10:00:00Z``.
    """

    version: str
    manifest: str
    at: str

    def as_line(self) -> str:
        """The line of the file."""
        return f"{self.version} {self.manifest} {self.at}\n"

    @property
    def moment(self) -> datetime | None:
        """The time of the publication, or None if damage made it a time that does not exist."""
        try:
            return datetime.strptime(self.at, _TIME).replace(tzinfo=UTC)
        except ValueError:
            return None


def read_history(folder: Path) -> list[Publication]:
    """Read the published snapshots that are not pruned, oldest first.

    A damaged line is left out: the snapshot that it named is not served, and is pruned first.
    """
    try:
        text = (folder / HISTORY_FILE).read_text(encoding="ascii", errors="replace")
    except FileNotFoundError:
        return []
    lines = [_LINE.fullmatch(line) for line in text.splitlines()]
    return [Publication(*line.groups()) for line in lines if line is not None]


def find_bad_line(folder: Path) -> int | None:
    """Return the number of the first line, from 1, that is damaged, or whose snapshot is gone; None if none is."""
    try:
        text = (folder / HISTORY_FILE).read_text(encoding="ascii", errors="replace")
    except FileNotFoundError:
        return None
    for number, line in enumerate(text.splitlines(), start=1):
        found = _LINE.fullmatch(line)
        if found is None or not (folder / found[1]).is_dir():
            return number
    return None


def add_publication(folder: Path, version: str, manifest: str, building: Path) -> None:
    """Put a snapshot at the end of the history. The caller holds the lock of the folder.

    Args:
        folder: The folder of the index.
        version: Version of the snapshot.
        manifest: SHA-256 of its manifest.
        building: Temporary file of the caller, which replaces the history in one step.
    """
    at = datetime.now(UTC).strftime(_TIME)
    earlier = [
        line for line in read_history(folder) if line.version != version and (folder / line.version).is_dir()
    ]
    _write(folder, [*earlier, Publication(version, manifest, at)], building)


def drop_publications(folder: Path, versions: Collection[str], building: Path) -> None:
    """Take snapshots out of the history. The caller holds the lock of the folder."""
    known = read_history(folder)
    remaining = [line for line in known if line.version not in versions]
    if len(remaining) < len(known):
        _write(folder, remaining, building)


def _write(folder: Path, history: list[Publication], building: Path) -> None:
    building.write_text("".join(line.as_line() for line in history), encoding="ascii")
    flush(building)
    building.replace(folder / HISTORY_FILE)
    flush(folder)
