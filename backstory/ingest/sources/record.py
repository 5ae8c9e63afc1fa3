"""The recorded list of sources that were added by command: one file in the workspace, replaced as a whole."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic import ValidationError

from backstory.base.errors import WorkspaceError
from backstory.base.files.atomic import exclusive_temporary, publish, temporary_path
from backstory.settings.inputs import SourceSettings

Recorded = tuple[SourceSettings, ...]


def read_record(path: Path) -> Recorded:
    """Read the list of a workspace; empty if no source was ever added.

    It raises ``WorkspaceError`` if the file is not such a list.
    """
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))["sources"]
        return tuple(SourceSettings.model_validate(entry) for entry in entries)
    except FileNotFoundError:
        return ()
    except (ValidationError, ValueError, KeyError, TypeError) as error:
        raise WorkspaceError(
            f"{path} is damaged, and it lists the added sources. Restore it from a backup, or delete it and add the "
            "sources again; no file is lost",
            code="damaged_record",
        ) from error


def change_record(path: Path, change: Callable[[Recorded], Sequence[SourceSettings]]) -> None:
    """Replace the list of a workspace, and flush it to disk. Other processes wait meanwhile.

    It raises ``WorkspaceError`` if the file is not such a list.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with exclusive_temporary(path) as file:
        entries = [
            source.model_dump(mode="json", exclude_defaults=True) for source in change(read_record(path))
        ]
        os.fchmod(file.fileno(), 0o600)
        file.write(f"{json.dumps({'sources': entries}, indent=1)}\n".encode())
        file.flush()
        publish(temporary_path(path), path)
