"""Writes a backup: one tar file, consistent with the catalog even while a run writes tables."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Final

from backstory.base import VERSION
from backstory.base.errors import InputError
from backstory.base.files.atomic import lock, publish, temporary_path
from backstory.ingest.sources.roots import list_sources
from backstory.operations.backup.contents import CONTENTS_FILE, FORMAT, Contents
from backstory.operations.backup.members import Members
from backstory.operations.backup.state import add_index, add_state
from backstory.pipeline.workspace import Workspace

TIME: Final = "%Y-%m-%dT%H-%M-%SZ"
# Tables and vectors are compressed already or hardly compressible; more effort would only cost time.
_COMPRESSION = 1


@dataclass(frozen=True)
class Backup:
    """A written backup.

    Attributes:
        path: The file.
        size: Its size in bytes.
        files: Number of files in it.
        holds_secret: Whether it holds the key of the pseudonyms.
        holds_inputs: Whether it holds chats and posts.
        left_out: What is missing and why, one sentence each.
    """

    path: Path
    size: int
    files: int
    holds_secret: bool
    holds_inputs: bool
    left_out: tuple[str, ...]


def write_backup(
    workspace: Workspace,
    destination: Path,
    *,
    inputs: bool = True,
    keys: bool = True,
) -> Backup:
    """Write a backup that only its owner can read. Runs may continue meanwhile.

    It holds the settings, the folder ``.backstory`` (key of the pseudonyms, archive, forgotten list), the tables with
    their catalog, the cache of vectors, the current snapshot, and the inputs if wanted, with any secrets among them.
    Reports, views and Dagster's history are left out. The tables are those of one moment. A damaged file of a table is
    left out with its entry in the catalog; the first run after a restore rebuilds it.

    Args:
        workspace: An open workspace.
        destination: A file that does not exist, ending in ``.tar.gz`` or ``.tar``; or a folder, in which the file is
            named for the workspace and the time.
        inputs: Whether to include chats and posts.
        keys: Whether to include the keys of pseudonyms and forgotten things.

    Returns:
        What was written.

    Raises:
        InputError: The destination exists, lies in the workspace, or has another ending; or an input was cut while
            it was read.
        BackstoryError: The tables' catalog is damaged, or the documents, which hold what nothing else holds.
        OSError: The file cannot be written.
    """
    path = _choose_path(workspace, destination)
    with _private_temporary(path) as temporary:
        mode = "w:" if path.suffix == ".tar" else "w:gz"
        options = {} if mode == "w:" else {"compresslevel": _COMPRESSION}
        with tarfile.open(fileobj=temporary, mode=mode, **options) as tar:  # type: ignore[call-overload]
            members = Members(tar, workspace.root)
            add_contents(members, workspace, inputs=inputs, keys=keys, scratch=path.parent)
            contents = Contents(
                format=FORMAT,
                version=VERSION,
                workspace=workspace.root.name,
                made_at=datetime.now(UTC).strftime(TIME),
                files=members.files,
                left_out=tuple(members.left_out),
            )
            members.add_bytes(
                CONTENTS_FILE, (contents.model_dump_json(indent=1) + "\n").encode("utf-8", "replace")
            )
        temporary.flush()
        publish(temporary_path(path), path)
    return Backup(
        path=path,
        size=path.stat().st_size,
        files=len(contents.files),
        holds_secret=workspace.secret.relative_to(workspace.root).as_posix() in contents.files,
        holds_inputs=inputs,
        left_out=contents.left_out,
    )


def add_contents(
    members: Members,
    workspace: Workspace,
    *,
    inputs: bool = True,
    keys: bool = True,
    scratch: Path,
) -> None:
    """Add what a backup holds, as :func:`write_backup` describes it.

    Args:
        members: The backup.
        workspace: An open workspace.
        inputs: Whether to include chats and posts.
        keys: Whether to include the keys of pseudonyms and forgotten things.
        scratch: Folder for copies of databases, which are deleted at the end.
    """
    members.add_file(workspace.root / "backstory.yaml")
    add_state(members, workspace, keys=keys, scratch=scratch)
    add_index(members, workspace)
    if inputs:
        _add_inputs(members, workspace)
    else:
        members.leave_out("chats and posts, by --without-inputs; put them back before the first run")


def require_outside(workspace: Workspace, path: Path) -> None:
    """Raise if the place of a backup lies in the workspace.

    Raises:
        InputError: It does (code ``inside_workspace``).
    """
    if path.resolve().is_relative_to(workspace.root.resolve()):
        raise InputError(
            f"{path} lies in the workspace, and would be lost with it; name another place",
            code="inside_workspace",
        )


def _choose_path(workspace: Workspace, destination: Path) -> Path:
    path = destination.expanduser().absolute()
    if path.is_dir():
        path /= f"{workspace.root.name}-{datetime.now(UTC).strftime(TIME)}.tar.gz"
    if not path.name.endswith((".tar.gz", ".tgz", ".tar")):
        raise InputError(
            f"{destination} does not end in .tar.gz or .tar; name such a file, or a folder that exists",
            code="other_ending",
        )
    if path.exists():
        raise InputError(
            f"{path} exists; a backup never replaces a file, so name another one, or a folder",
            code="already_there",
        )
    require_outside(workspace, path)
    if not path.parent.is_dir():
        raise InputError(f"the folder {path.parent} does not exist; create it first", code="absent_folder")
    return path


@contextmanager
def _private_temporary(path: Path) -> Iterator[IO[bytes]]:
    """Open the temporary file of a path, which only its owner can read; it is deleted unless it was renamed."""
    temporary = temporary_path(path)
    with os.fdopen(os.open(temporary, os.O_RDWR | os.O_CREAT, 0o600), "w+b") as file:
        if not lock(file, wait=False):
            raise InputError(
                f"another backup to {path} is being written; wait for it, or name another file", code="busy"
            )
        file.truncate(0)
        try:
            yield file
        finally:
            temporary.unlink(missing_ok=True)


def _add_inputs(members: Members, workspace: Workspace) -> None:
    folders = {
        "chats": workspace.chats_dir,
        "posts": workspace.documents_dir,
        "written posts": workspace.posts_dir,  # some may have been edited
    }
    for name, folder in folders.items():
        if not folder.is_relative_to(workspace.root) or folder.is_symlink():
            members.leave_out(f"{name} lie in {folder}, which is not in the workspace; back them up yourself")
        elif folder.is_dir():
            members.add_folder(folder)
    for source in list_sources(workspace):
        if source.settings.is_remote:
            members.leave_out(f"the copies of the source {source.name}; the next run fetches them")
        elif not source.root.resolve().is_relative_to(workspace.root.resolve()):
            members.leave_out(
                f"the source {source.name} lies in {source.root}, which is not in the workspace; back it up yourself"
            )
        elif source.root.is_dir() and not source.root.is_symlink():
            members.add_folder(source.root)
        elif source.root.is_file():
            members.add_file(source.root)
