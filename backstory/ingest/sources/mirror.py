"""Copies of the files of a place elsewhere, which are read as if they were a folder of the workspace.

A file is fetched beside the copies and then renamed into its place, so that no part of a file is ever read. What was
fetched is recorded now and then, so that a fetch that was stopped goes on where it was.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Final, Protocol

from pydantic import BaseModel, ConfigDict, ValidationError

from backstory.base.errors import ReadError
from backstory.base.files.atomic import exclusive_temporary, flush, write_file
from backstory.base.progress import announce, announce_name
from backstory.ingest.documents.files import IGNORE_FILE, DocumentFolder, FileRules
from backstory.ingest.opening import require_size
from backstory.ingest.sources.roots import COPIES
from backstory.ingest.walk import Listing, Skipped

_INCOMING: Final = "incoming"
_STATE: Final = "state.json"
_FILES_BETWEEN_RECORDS: Final = 50


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

    One that cannot be fetched (``refused``) is named by its key or its path, one that is not to be (``ignored``) by its
    path.
    """

    files: Mapping[str, RemoteFile]
    refused: Mapping[str, str]
    ignored: Mapping[str, str] = {}


class Remote(Protocol):
    """A place elsewhere. It raises ``ReadError`` if its files cannot be listed, or one cannot be read."""

    def list_files(self) -> RemoteListing:
        """List its files."""
        ...

    def read(self, file: RemoteFile) -> Iterator[bytes]:
        """Read the content of a file, part by part."""
        ...


class MirrorState(BaseModel):
    """What is known of a remote place since it was last listed.

    Each copy as it was listed when it was fetched, by path; why other files are not fetched or could not be; and why
    the place itself could not be listed (``problem``), empty if it could.
    """

    model_config = ConfigDict(extra="forbid")

    origin: str = ""
    copies: dict[str, RemoteFile] = {}
    ignored: dict[str, str] = {}
    failed: dict[str, str] = {}
    problem: str = "the next run fetches it"


def update_mirror(
    folder: Path, origin: str, remote: Remote, rules: FileRules, most_bytes: int
) -> MirrorState:
    """Fetch what has changed in a place elsewhere, and drop what is gone there.

    It returns what is known now. If the place cannot be listed, the copies stay as they are.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with exclusive_temporary(folder / "update"):
        known = read_state(folder)
        if known.origin != origin:
            shutil.rmtree(folder / COPIES, ignore_errors=True)
            known = MirrorState(origin=origin)
        try:
            state = _fetch(folder, known, remote, rules, most_bytes)
        except ReadError as error:
            state = known.model_copy(update={"problem": str(error)})
        _write_state(folder, state)
        return state


def list_mirror(folder: Path, name: str, rules: FileRules) -> Listing:
    """List the copies, and what is not among them."""
    state = read_state(folder)
    if state.problem:
        reason = (
            f"the source {name} cannot be reached: {state.problem}. Its earlier documents are kept; make it "
            "available, or remove the source"
        )
        return Listing(False, (), (Skipped("", "failed", reason, hides_files=True),))
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


def read_state(folder: Path) -> MirrorState:
    """Read what is known of a mirror; if the record is absent or damaged, everything is fetched again."""
    try:
        return MirrorState.model_validate_json((folder / _STATE).read_bytes())
    except FileNotFoundError:
        return MirrorState()
    except ValidationError:
        return MirrorState(problem="the record of its copies was damaged; the next run fetches it again")


def last_update(folder: Path) -> float:
    """Return when an update of a mirror was last tried, in seconds since 1970; 0 for never."""
    try:
        return (folder / _STATE).stat().st_mtime  # each attempt writes the record
    except FileNotFoundError:
        return 0.0


def _fetch(
    folder: Path, known: MirrorState, remote: Remote, rules: FileRules, most_bytes: int
) -> MirrorState:
    listing = remote.list_files()
    if not listing.files and not listing.refused and known.copies:
        raise ReadError(
            "it no longer exists, or no longer holds a file; remove the source if that is intended"
        )
    paths = {file.key: path for path, file in known.copies.items()}
    state = MirrorState(
        origin=known.origin,
        copies={path: file for path, file in known.copies.items() if (folder / COPIES / path).is_file()},
        ignored=dict(listing.ignored),
        failed={paths.get(name, name): why for name, why in listing.refused.items()},
        problem="",
    )
    wanted: dict[str, RemoteFile] = {}
    for path, file in sorted(listing.files.items()):
        why = None if PurePosixPath(path).name == IGNORE_FILE else rules.explain_with_folders(path)
        if why is None:
            wanted[path] = file
        else:
            state.ignored[path] = why
    for path in state.copies.keys() - wanted.keys() - state.failed.keys():
        _remove(folder / COPIES, path)  # before the others come, since a file may have become a folder
        del state.copies[path]
    fetched = 0
    for path, file in wanted.items():
        if file.stamp and state.copies.get(path) == file:
            continue
        announce_name(path)
        announce("fetching files", fetched, len(listing.files))
        try:
            _download(folder, path, file, remote, most_bytes)
        except ReadError as error:
            state.failed[path] = str(error)
            continue
        state.copies[path] = file
        fetched += 1
        if fetched % _FILES_BETWEEN_RECORDS == 0:
            _write_state(folder, known.model_copy(update={"copies": state.copies}))
    return state


def _remove(copies: Path, path: str) -> None:
    """Remove a copy, and the folders that are empty without it."""
    (copies / path).unlink(missing_ok=True)
    for parent in list(PurePosixPath(path).parents)[:-1]:
        try:
            (copies / parent).rmdir()
        except OSError:  # it holds other copies
            return


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


def _write_state(folder: Path, state: MirrorState) -> None:
    write_file(folder / _STATE, state.model_dump_json(indent=1).encode())
