"""The files of the posts, in step with the catalog: their places, their removal, and what people did with them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import PurePosixPath
from typing import Any, Final

from backstory.base.wording import name_some
from backstory.ingest.documents.written import DRAFT_SUFFIX
from backstory.pipeline.chats.copies import POST_FOLDERS
from backstory.pipeline.stages.letters import list_homes
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


def remove_posts_of_gone_windows(workspace: Workspace, partitions: Sequence[str]) -> None:
    """Remove the files of posts whose windows are gone, before anything reads them as documents.

    A letter goes, too, if its period has another last window now: no window is given the letter of its own period. A
    file that a person has edited stays, as a document of that person. The stage of the posts names it.
    """
    files = workspace.catalog.read(FILES)
    made = workspace.catalog.read("windows")
    has_letters = bool(workspace.settings.writers.letter_grains)
    looked_at = (
        set(made)
        if has_letters
        else {entry.inputs for entry in files.values()}.intersection(partitions, made)
    )
    homes = list_homes(workspace, sorted(looked_at))

    def is_old(slug: str) -> bool:
        """Return whether a letter was written before its period had the windows that it has now."""
        path = workspace.posts_dir / f"{slug}.md"
        return has_letters and inspect_file(path) == "ours" and read_window_id(path) != homes[slug]

    gone = [
        slug
        for slug, entry in files.items()
        if entry.inputs not in made or (entry.inputs in looked_at and (slug not in homes or is_old(slug)))
    ]
    # If this run is killed and the messages are put back, the next run writes the files again.
    workspace.catalog.outdate("posts", {files[slug].inputs for slug in gone})
    workspace.catalog.forget(
        FILES, [slug for slug in gone if remove_post(workspace.posts_dir / f"{slug}.md")]
    )


def remove_files(workspace: Workspace, slugs: Collection[str]) -> list[str]:
    """Remove the files of posts, but those that a person has edited.

    A sentence names those that stay, if there are any.
    """
    edited = [f"{slug}.md" for slug in sorted(slugs) if not remove_post(workspace.posts_dir / f"{slug}.md")]
    workspace.catalog.forget(FILES, slugs)
    if not edited:
        return []
    sentence = (
        f"{name_some(edited, _NAMED)} in {workspace.settings.writers.folder}/ stays after its window is gone, since a "
        "person has edited it; remove it, or use it as a document of your own."
    )
    return [sentence]


def describe_other_files(workspace: Workspace) -> list[str]:
    """Return which files of posts are not kept in step with the windows any more, and what to do.

    They are those that were written before ``writers.provider`` was set to ``none``, and those in a folder that
    ``writers.folder`` named before.
    """
    folder = workspace.settings.writers.folder
    if workspace.writer is not None:
        workspace.catalog.record(POST_FOLDERS, {folder: Entry("", "", 0)})
    said = []
    for name in sorted(workspace.catalog.read(POST_FOLDERS)):
        count = sum(1 for _ in (workspace.root / name).glob("*.md"))
        if name != folder and count:
            said.append(
                f"{count} files in {name}/, the former writers.folder, are no longer posts; move those that a "
                f"person has edited to {folder}/, and remove the others."
            )
    if workspace.writer is None and (files := workspace.catalog.read(FILES)):
        use = "stay documents of later windows" if workspace.feeds_back else "stay as they are"
        said.append(
            f"{len(files)} posts in {folder}/ were written before writers.provider was none: they {use}; remove them "
            "if you do not need them."
        )
    return said
