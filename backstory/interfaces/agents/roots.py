"""The folders that tools of agents may read new files from and write files into."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from backstory.base.errors import InputError
from backstory.ingest.sources.listing import list_sources
from backstory.interfaces.library.names import resolve_path
from backstory.pipeline.workspace import Workspace
from backstory.settings.paths import WorkspacePaths

_SHOWN: Final = 200


def list_readable(workspace: Workspace) -> list[Path]:
    """List the folders and files that a tool may index: the documents, their sources, and the roots of the settings."""
    return [
        workspace.documents_dir,
        *(source.root for source in list_sources(workspace)),
        *list_named(workspace),
    ]


def list_writable(workspace: Workspace) -> list[Path]:
    """List the folders that a tool may write into: that of dumped texts, and the roots of the settings."""
    return [workspace.dumps, *list_named(workspace)]


def list_named(workspace: WorkspacePaths) -> list[Path]:
    """List the roots of the setting ``agents.roots``."""
    return [workspace.root / Path(root).expanduser() for root in workspace.settings.agents.roots]


def require_inside(path: str | Path, roots: Sequence[Path], base: Path) -> Path:
    """Return the absolute path of a file or folder that lies in one of the roots, after links are resolved.

    Args:
        path: What a tool was given, absolute or relative to ``base``; ``~`` is the home folder.
        roots: The roots.
        base: Folder of the workspace.

    Raises:
        InputError: It lies outside of all roots, or no path can be so written; the message lists the roots, and
            repeats the path as it was given, since where it leads tells of the machine.
    """
    found = resolve_path(path, base)
    resolved = list(dict.fromkeys(root.resolve() for root in roots))
    if not any(found.is_relative_to(root) for root in resolved):
        raise InputError(
            f"{str(path)[:_SHOWN]!r} lies outside of the roots {', '.join(map(str, resolved))}; name a path in one "
            "of them, or have its folder added to the setting agents.roots"
        )
    return found
