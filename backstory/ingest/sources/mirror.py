"""Copies of the files of a place elsewhere, which are read as if they were a folder of the workspace.

A file is fetched beside the copies and then renamed into its place, so that no part of a file is ever read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Final, Protocol

from pydantic import BaseModel, ConfigDict, ValidationError

from backstory.base.errors import ReadError
from backstory.base.files.atomic import exclusive_temporary, flush, write_file
from backstory.base.progress import announce, announce_name
from backstory.ingest.documents.files import IGNORE_FILE, DocumentFolder, FileRules
from backstory.ingest.walk import Listing, Skipped, require_size

COPIES: Final = "files"
"""Folder of the copies in a mirror."""
_INCOMING: Final = "incoming"
_STATE: Final = "state.json"


class RemoteFile(BaseModel):
    """One file of a place elsewhere: the key by which the place names it, its stamp, size and kind if it tells them.

    The stamp changes with the content; it is empty if the place tells nothing, so that the file is fetched each time.
    """

    model_config = ConfigDict(frozen=True)

    key: str
    stamp: str
    size: int | None = None
    kind: str = ""


class RemoteListing(BaseModel):
    """The files of a place by the path under which each is kept, and why others are not fetched.

    One that cannot be fetched (``failed``) is named by its key or its path, one that is not to be (``ignored``) by its
    path.
    """

    files: dict[str, RemoteFile] = {}
    failed: dict[str, str] = {}
    ignored: dict[str, str] = {}


class Remote(Protocol):
    """A place elsewhere. It raises ``ReadError`` if its files cannot be listed, or one cannot be read."""

    def list_files(self) -> RemoteListing:
        """List its files."""
        ...

    def read(self, file: RemoteFile) -> Iterator[bytes]:
        """Read the content of a file, part by part."""
        ...


class MirrorState(RemoteListing):
    """What is known of a remote place: each copy as it was listed when it was fetched, and all others.

    ``problem`` is why the place itself could not be listed, empty if it could.
    """

    problem: str = "the next run fetches it"


def update_mirror(folder: Path, remote: Remote, rules: FileRules, most_bytes: int) -> MirrorState:
    """Fetch what has changed in a place elsewhere, and drop what is gone there.

    It returns what is known now. If the place cannot be listed, the copies stay as they are. A fetch that was stopped
    goes on where it was.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with exclusive_temporary(folder / "update"):
        state = read_state(folder)
        try:
            _fetch(folder, state, remote, rules, most_bytes)
            state.problem = ""
        except ReadError as error:
            state.problem = str(error)
        finally:
            write_file(folder / _STATE, state.model_dump_json(indent=1).encode())
        return state


def list_mirror(folder: Path, name: str, rules: FileRules) -> Listing:
    """List the copies, and what is not among them."""
    state = read_state(folder)
    if state.problem:
        return list_unreachable(f"the source {name} cannot be reached: {state.problem}")
    found = DocumentFolder(folder / COPIES, rules).list_all()
    listed = {entry.uri for entry in found.skipped}
    return Listing(
        present=True,
        # A file may be a member of a copy.
        files=tuple(
            file for file in found.files if file.path.relative_to(file.root).as_posix() not in state.failed
        ),
        skipped=(
            *found.skipped,
            *(Skipped(path, "ignored", why) for path, why in state.ignored.items() if path not in listed),
            *(Skipped(path, "failed", why, hides_files=True) for path, why in state.failed.items()),
        ),
    )


def list_unreachable(why: str) -> Listing:
    """List one failed entry in the place of the files of a source, which are unknown."""
    reason = f"{why}. Its earlier documents are kept; make it available, or remove the source"
    return Listing(False, (), (Skipped("", "failed", reason, hides_files=True),))


def read_state(folder: Path) -> MirrorState:
    """Read what is known of a mirror; if the record is absent or damaged, everything is fetched again."""
    try:
        return MirrorState.model_validate_json((folder / _STATE).read_bytes())
    except (FileNotFoundError, ValidationError):
        return MirrorState()


def last_update(folder: Path) -> float:
    """Return when an update of a mirror was last tried, in seconds since 1970; 0 for never."""
    state = folder / _STATE
    return state.stat().st_mtime if state.exists() else 0.0  # each attempt writes the record


def _fetch(folder: Path, state: MirrorState, remote: Remote, rules: FileRules, most_bytes: int) -> None:
    """Bring copies and record up to date, file by file."""
    listing = remote.list_files()
    if not listing.files and not listing.failed and state.files:
        raise ReadError(
            "it no longer exists, or no longer holds a file; remove the source if that is intended"
        )
    paths = {file.key: path for path, file in state.files.items()}
    state.failed = {paths.get(name, name): why for name, why in listing.failed.items()}
    state.ignored = dict(listing.ignored)
    wanted: dict[str, RemoteFile] = {}
    for path, file in sorted(listing.files.items()):
        why = None if PurePosixPath(path).name == IGNORE_FILE else rules.explain_with_folders(path)
        if why is None:
            wanted[path] = file
        else:
            state.ignored[path] = why
    copies = folder / COPIES
    for path in state.files.keys() - wanted.keys() - state.failed.keys():
        # Before the others come, since a file may have become a folder.
        (copies / path).unlink(missing_ok=True)
        with suppress(OSError):  # other copies lie beside it
            os.removedirs((copies / path).parent)
        del state.files[path]
    for done, (path, file) in enumerate(wanted.items()):
        if file.stamp and state.files.get(path) == file and (copies / path).is_file():
            continue
        announce_name(path)
        announce("fetching files", done, len(wanted))
        try:
            _download(folder, path, file, remote, most_bytes)
            state.files[path] = file
        except ReadError as error:
            state.failed[path] = str(error)


def _download(folder: Path, path: str, file: RemoteFile, remote: Remote, most_bytes: int) -> None:
    require_size(file.size or 0, most_bytes)
    incoming = folder / _INCOMING
    with incoming.open("wb") as target:
        for part in remote.read(file):
            require_size(target.tell() + len(part), most_bytes)
            target.write(part)
    place = folder / COPIES / path
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        flush(incoming)
        incoming.replace(place)
    except (FileExistsError, IsADirectoryError, NotADirectoryError) as error:
        raise ReadError("a file and a folder have the same name there; rename one of them") from error
