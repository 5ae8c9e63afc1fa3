"""What is known of a folder of Google Drive from one run to the next, as of a page token of Drive's changes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from backstory.base.files.atomic import write_file

Entry: TypeAlias = Mapping[str, Any]
"""A file, folder or shortcut, as Drive describes it."""

MEMORY: Final = "drive.json"
"""Name of the file in a mirror."""


@dataclass(frozen=True)
class DriveMemory:
    """The entries of a folder when its changes were last read.

    Attributes:
        place: What identifies the folder, its drive and the account that reads it; what is known of another place is
            of no use.
        token: Page token of the changes that come after; empty if nothing is known.
        entries: The entries, by id.
        listed: Ids of the folders whose children are all among the entries.
    """

    place: tuple[str, ...] = ()
    token: str = ""
    entries: Mapping[str, Entry] = field(default_factory=dict)
    listed: tuple[str, ...] = ()


def read_memory(path: Path) -> DriveMemory:
    """Read what is known; nothing if the file is absent or damaged, so that the folder is listed as a whole."""
    try:
        stored = json.loads(path.read_bytes())
        return DriveMemory(
            tuple(map(str, stored["place"])),
            str(stored["token"]),
            {str(key): dict(entry) for key, entry in stored["entries"].items()},
            tuple(map(str, stored["listed"])),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return DriveMemory()


def write_memory(path: Path, memory: DriveMemory) -> None:
    """Replace what is known, as a whole."""
    write_file(path, json.dumps(asdict(memory)).encode())
