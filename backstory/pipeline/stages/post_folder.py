"""The files of the posts, in step with the catalog: their places, their removal, and what people did with them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import PurePosixPath
from typing import Any, Final

from backstory.base.wording import name_some
from backstory.ingest.documents.written import DRAFT_SUFFIX
from backstory.pipeline.stages.writer_material import list_homes
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.catalog import Entry
from backstory.writing.post_files import (
    draft_path,
    hash_file,
    inspect_file,
    place_post,
    read_window_id,
    remove_post,
)
from backstory.writing.posts import as_post

FILES: Final = "post_files"
"""Name in the catalog of the files of the posts, by slug: partition and hash of the file."""

_BEING_WRITTEN: Final = "being written"
_NAMED: Final = 3


def place_file(
    workspace: Workspace, partition: str, conversation_id: str, row: dict[str, Any]
) -> tuple[dict[str, Any], Entry]:
    """Write the file of a post. The row says ``edited`` and why if a person has edited the file."""
    path = workspace.posts_dir / f"{row['slug']}.md"
    # Before the file, so that a process killed here leaves no post that nobody knows and that stays a document.
    workspace.catalog.record(FILES, {row["slug"]: Entry(partition, _BEING_WRITTEN, 1)})
    if not place_post(path, as_post(row, conversation_id)):
        aside = PurePosixPath(row["path"]).with_name(draft_path(path).name)
        row = row | {
            "status": "edited",
            "reason": f"a person has edited {row['path']}, which stays; a later draft is in {aside}",
        }
    entry = Entry(partition, hash_file(path), 1)
    workspace.catalog.record(FILES, {row["slug"]: entry})
    return row, entry


def list_post_files(workspace: Workspace) -> list[str]:
    """List the files of the posts of windows, edited ones too, relative to the workspace."""
    folder = workspace.settings.writers.folder
    return [f"{folder}/{slug}.md" for slug in sorted(workspace.catalog.read(FILES))]


def list_files_of_people(workspace: Workspace) -> list[str]:
    """List what people did in the folder of the posts: files that they edited or added, by hash, and removed ones."""
    known = workspace.catalog.read(FILES)
    removed = [
        f"{slug} is removed" for slug in sorted(known) if not (workspace.posts_dir / f"{slug}.md").exists()
    ]
    changed = [
        f"{path.relative_to(workspace.posts_dir).as_posix()} {hash_file(path)}"
        for path in sorted(workspace.posts_dir.rglob("*.md"))
        if path.is_file()
        and not path.name.endswith(DRAFT_SUFFIX)
        and not (path.stem in known and inspect_file(path) == "ours")
    ]
    return [*removed, *changed]


def remove_posts_of_gone_windows(workspace: Workspace, partitions: Sequence[str]) -> str:
    """Remove the files of posts whose windows are gone, before anything reads them as documents; tell which stay.

    A letter goes, too, if its period has another last window now: no window is given the letter of its own period.
    """
    files, made = workspace.catalog.read(FILES), workspace.catalog.read("windows")
    has_letters = bool(workspace.settings.writers.letter_grains)
    looked_at = {entry.inputs for entry in files.values()}.intersection(partitions, made)
    homes = list_homes(workspace, sorted(made if has_letters else looked_at))

    def is_gone(slug: str, entry: Entry) -> bool:
        if entry.inputs not in made:
            return True
        if not has_letters:
            return entry.inputs in looked_at and slug not in homes
        path = workspace.posts_dir / f"{slug}.md"
        return slug not in homes or (inspect_file(path) == "ours" and read_window_id(path) != homes[slug])

    gone = [slug for slug, entry in files.items() if is_gone(slug, entry)]
    # If this run is killed and the messages are put back, the next run writes the files again.
    workspace.catalog.outdate("posts", {files[slug].inputs for slug in gone})
    return remove_files(workspace, gone)


def remove_files(workspace: Workspace, slugs: Collection[str]) -> str:
    """Remove the files of posts, but those that a person has edited, which are told as documents of that person."""
    edited = [f"{slug}.md" for slug in sorted(slugs) if not remove_post(workspace.posts_dir / f"{slug}.md")]
    workspace.catalog.forget(FILES, slugs)
    if not edited:
        return ""
    return (
        f"{name_some(edited, _NAMED)} in {workspace.settings.writers.folder}/ stays after its window is gone, since a "
        "person has edited it; remove it, or use it as a document of your own."
    )
