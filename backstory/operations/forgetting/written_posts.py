"""The files of written posts that hold something forgotten."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from backstory.base.ids import WRITTEN_PREFIX
from backstory.ingest.documents.written import DRAFT_SUFFIX
from backstory.operations.forgetting.traces import Wanted, search_file
from backstory.pipeline.incremental.document_fingerprint import list_post_folders
from backstory.pipeline.workspace import Workspace
from backstory.writing.post_files import inspect_file


@dataclass(frozen=True)
class HoldingPosts:
    """The files in the folders of the posts that hold something forgotten.

    Attributes:
        made: Posts and drafts as Backstory wrote them.
        of_people: Posts that a person has edited, and files of people.
    """

    made: tuple[Path, ...]
    of_people: tuple[Path, ...]

    def list_uris(self, workspace: Workspace) -> list[str]:
        """List the files of people by their uris as documents."""
        return [f"{WRITTEN_PREFIX}{path.relative_to(workspace.root).as_posix()}" for path in self.of_people]


def find_holding_posts(workspace: Workspace, wanted: Wanted) -> HoldingPosts:
    """Find the files of written posts that hold one of the texts or ids.

    Args:
        workspace: An open workspace.
        wanted: What to search for.
    """
    made: list[Path] = []
    of_people: list[Path] = []
    paths = [path for folder in list_post_folders(workspace) for path in sorted(folder.rglob("*.md"))]
    for path in paths:
        if path.is_file() and search_file(path, wanted):
            is_made = path.name.endswith(DRAFT_SUFFIX) or inspect_file(path) == "ours"
            (made if is_made else of_people).append(path)
    return HoldingPosts(tuple(made), tuple(of_people))
