"""What the service refuses, and how it says so without the places of this machine.

The processes of jobs need this, too, which load nothing of the web.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from backstory.base.errors import BackstoryError
from backstory.ingest.documents.files import SOURCE_MARK
from backstory.ingest.sources.listing import list_sources
from backstory.interfaces.agents.roots import list_named
from backstory.settings.paths import WorkspacePaths


class RefusedError(BackstoryError):
    """A request that the service refuses.

    Attributes:
        status: The status of the answer.
        retry_after: Seconds after which the client may try again; None if it should not.
    """

    def __init__(self, message: str, *, status: int, code: str, retry_after: float | None = None) -> None:
        super().__init__(message, code=code)
        self.status = status
        self.retry_after = retry_after


def hide_paths(text: str, root: Path, others: Mapping[Path, str] = MappingProxyType({})) -> str:
    """Cut the folder of the tenants or of one, and other places on this machine, out of a text."""
    begins = {root: "", **others}
    for place in sorted(begins, key=lambda each: -len(str(each))):
        text = _hide(text, place, begins[place])
    return text


def _hide(text: str, place: Path, begin: str) -> str:
    alone = begin.rstrip(":/") or "the service"
    # A folder whose name only begins like that of the other stays whole.
    pattern = rf"(?<![\w.-]){re.escape(str(place))}(?:(/)|(?![\w-]|\.\w))"
    return re.sub(pattern, lambda found: begin if found[1] else alone, text)


def list_places(workspace: WorkspacePaths) -> dict[Path, str]:
    """List the places outside of a workspace that its settings name, and what clients elsewhere see of each.

    Returns the beginning of paths below each, by its path as it is written and with links resolved. The workspace is
    among them with the empty text, as its place may be a link.
    """
    named = {root: f"{root.name}/" for root in list_named(workspace)}
    sources = {source.root: f"{source.name}{SOURCE_MARK}" for source in list_sources(workspace)}
    root = workspace.root.resolve()
    outside = {
        place: begin
        for place, begin in {**named, **sources}.items()
        if not place.resolve().is_relative_to(root)
    }
    return {place.resolve(): begin for place, begin in outside.items()} | outside | {root: ""}
