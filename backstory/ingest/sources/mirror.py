"""Copies of the files of a place elsewhere, which are read as if they were a folder of the workspace.

A file is fetched beside the copies and then renamed into its place, so that no part of a file is ever read. What was
fetched is recorded now and then, so that a fetch that was stopped goes on where it was.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import IO, Final, Protocol

from backstory.base.errors import ReadError
from backstory.base.files.atomic import exclusive_temporary, flush, write_file
from backstory.base.progress import announce, announce_name
from backstory.ingest.documents.file_rules import IGNORE_FILE, FileRules
from backstory.ingest.documents.files import DocumentFile, FolderListing, LeftOut, explain_path, list_files
from backstory.ingest.documents.opening import require_size
from backstory.ingest.sources.roots import COPIES

_INCOMING: Final = "incoming"
_STATE: Final = "state.json"
_FILES_BETWEEN_RECORDS: Final = 50


@dataclass(frozen=True)
class MirrorState:
    """What is known of a remote place since it was last listed.

    Of each copy its stamp and the key by which the place names it, by path; why other files are not fetched or could
    not be; and why the place itself could not be listed (``problem``), empty if it could.
    """

    origin: str = ""
    stamps: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
    ignored: Mapping[str, str] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
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
            known = MirrorState(origin)
        try:
            state = _fetch(folder, known, remote, rules, most_bytes)
        except ReadError as error:
            state = replace(known, problem=str(error))
        _write_state(folder, state)
        return state


def list_mirror(folder: Path, name: str, rules: FileRules) -> FolderListing:
    """List the copies, and what is not among them."""
    state = read_state(folder)
    if state.problem:
        reason = (
            f"the source {name} cannot be reached: {state.problem}. Its earlier documents are kept; make it "
            "available, or remove the source"
        )
        return FolderListing(False, (), (LeftOut("", "failed", reason, hides_files=True),))
    found = list_files(folder / COPIES, "**/*", (), rules)
    failed = state.failed
    listed = {entry.uri for entry in found.left_out}
    return FolderListing(
        present=True,
        files=tuple(file for file in found.files if _copy_of(file) not in failed),
        left_out=(
            *found.left_out,
            *(LeftOut(path, "ignored", why) for path, why in state.ignored.items() if path not in listed),
            *(LeftOut(path, "failed", why, hides_files=True) for path, why in failed.items()),
        ),
    )


def read_state(folder: Path) -> MirrorState:
    """Read what is known of a mirror; if the record is absent or damaged, everything is fetched again."""
    try:
        return MirrorState(**json.loads((folder / _STATE).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return MirrorState()
    except (ValueError, TypeError):
        return MirrorState(problem="the record of its copies was damaged; the next run fetches it again")


def last_update(folder: Path) -> float:
    """Return when an update of a mirror was last tried, in seconds since 1970; 0 for never."""
    try:
        return (folder / _STATE).stat().st_mtime  # each attempt writes the record
    except FileNotFoundError:
        return 0.0


def _copy_of(file: DocumentFile) -> str:
    """Return the path of the copy that holds a file, which may be a member of it."""
    return file.path.relative_to(file.folder).as_posix()


def _fetch(
    folder: Path, known: MirrorState, remote: Remote, rules: FileRules, most_bytes: int
) -> MirrorState:
    listing = remote.list_files()
    if not listing.files and not listing.refused and known.stamps:
        raise ReadError(
            "it no longer exists, or no longer holds a file; remove the source if that is intended"
        )
    ignored = dict(listing.ignored)
    paths = {key: path for path, key in known.keys.items()}
    failed = {paths.get(name, name): why for name, why in listing.refused.items()}
    stamps = _list_copied(folder, known)
    left_out = {path: why for path in listing.files if (why := _explain_left_out(path, rules)) is not None}
    ignored |= left_out
    wanted = {path: file for path, file in sorted(listing.files.items()) if path not in left_out}
    for path in stamps.keys() - wanted.keys() - failed.keys():
        _remove(folder / COPIES, path)  # before the others come, since a file may have become a folder
        del stamps[path]
    fetched = 0
    for path, file in wanted.items():
        if not _is_changed(path, file, stamps):
            continue
        announce_name(path)
        announce("fetching files", fetched, len(listing.files))
        try:
            _download(folder, path, file, remote, most_bytes)
        except ReadError as error:
            failed[path] = str(error)
            continue
        stamps[path] = file.stamp
        fetched += 1
        if fetched % _FILES_BETWEEN_RECORDS == 0:
            _write_state(folder, replace(known, stamps=stamps, keys=_list_keys(known, listing, stamps)))
    keys = _list_keys(known, listing, stamps)
    return MirrorState(known.origin, stamps, keys, ignored, failed, problem="")


def _remove(copies: Path, path: str) -> None:
    """Remove a copy, and the folders that are empty without it."""
    (copies / path).unlink(missing_ok=True)
    for parent in list(PurePosixPath(path).parents)[:-1]:
        try:
            (copies / parent).rmdir()
        except OSError:  # it holds other copies
            return


def _list_copied(folder: Path, known: MirrorState) -> dict[str, str]:
    """Return the stamp of each copy that is there."""
    return {path: stamp for path, stamp in known.stamps.items() if (folder / COPIES / path).is_file()}


def _explain_left_out(path: str, rules: FileRules) -> str | None:
    return None if PurePosixPath(path).name == IGNORE_FILE else explain_path(path, rules)


def _is_changed(path: str, file: RemoteFile, stamps: Mapping[str, str]) -> bool:
    return not file.stamp or stamps.get(path) != file.stamp


def _list_keys(known: MirrorState, listing: RemoteListing, stamps: Collection[str]) -> dict[str, str]:
    """Return the key of each copy; that of a file that was not listed now is remembered."""
    keys = {**known.keys, **{path: file.key for path, file in listing.files.items()}}
    return {path: key for path, key in keys.items() if path in stamps}


def _download(folder: Path, path: str, file: RemoteFile, remote: Remote, most_bytes: int) -> None:
    require_size(file.size or 0, most_bytes)
    incoming = folder / _INCOMING
    with incoming.open("wb") as target:
        remote.download(file, target, most_bytes)
    place = folder / COPIES / path
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        flush(incoming)
        incoming.replace(place)
    except (FileExistsError, IsADirectoryError, NotADirectoryError) as error:
        raise ReadError("a file and a folder have the same name there; rename one of them") from error


def _write_state(folder: Path, state: MirrorState) -> None:
    path = folder / _STATE
    write_file(path, json.dumps(asdict(state), indent=1, sort_keys=True).encode())


@dataclass(frozen=True)
class RemoteFile:
    """One file of a place elsewhere: the key by which the place names it, its stamp, and its size if it is known.

    The stamp changes with the content; it is empty if the place tells nothing, so that the file is fetched each time.
    """

    key: str
    stamp: str
    size: int | None = None


@dataclass(frozen=True)
class RemoteListing:
    """The files of a place by the path under which each is kept, and why others cannot be or are not to be fetched."""

    files: Mapping[str, RemoteFile]
    refused: Mapping[str, str]
    ignored: Mapping[str, str] = field(default_factory=dict)


class Remote(Protocol):
    """A place elsewhere."""

    def list_files(self) -> RemoteListing:
        """List its files.

        It raises ``ReadError`` if it cannot be listed.
        """
        ...

    def download(self, file: RemoteFile, target: IO[bytes], most_bytes: int) -> None:
        """Write the content of a file.

        It raises ``ReadError`` if the file cannot be fetched, or has more bytes than that.
        """
        ...
