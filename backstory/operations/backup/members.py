"""The members of a backup that is being written, with the checksum of each."""

from __future__ import annotations

import io
import os
import stat
import tarfile
from pathlib import Path
from typing import IO, Protocol

from backstory.base.errors import InputError
from backstory.operations.backup.contents import FileRecord, HashingReader


class Archive(Protocol):
    """What takes the members: a tar file, or what behaves as one."""

    def addfile(self, tarinfo: tarfile.TarInfo, fileobj: HashingReader | None = None) -> None:
        """Take a member, and read its content to the end."""


class Members:
    """Adds files of a workspace to an archive.

    Attributes:
        files: Size and checksum of each added file by its path in the workspace.
        left_out: What was left out and why, one sentence each.

    Args:
        archive: A tar file, open for writing, or another archive.
        root: The workspace.
    """

    def __init__(self, archive: Archive, root: Path) -> None:
        self.files: dict[str, FileRecord] = {}
        self.left_out: list[str] = []
        self._archive = archive
        self._root = root
        self._known: set[str] = set()

    def leave_out(self, reason: str) -> None:
        """Note that something is missing in the backup."""
        self.left_out.append(reason)

    def add_folder(self, folder: Path) -> None:
        """Add a folder of inputs with everything in it, in order.

        A link that leads to another place in the same folder stays a link. Links out of it, and whatever is neither
        file nor folder, are left out and noted.
        """
        if self._is_known(folder):
            return
        self._archive.addfile(self._describe(folder, folder.stat()))
        for path in sorted(folder.iterdir()):
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                self._add_link(path)
            elif stat.S_ISDIR(mode):
                if not self._is_apart(path):
                    self.add_folder(path)
            elif stat.S_ISREG(mode):
                self.add_file(path)
            else:
                self.leave_out(f"{self.name_of(path)} is neither a file nor a folder")

    def add_file(self, path: Path, *, name: str | None = None) -> None:
        """Add a file if it is not in the backup yet.

        Args:
            path: The file.
            name: Path in the workspace, if the file is a copy that lies elsewhere.
        """
        if name is None and self._is_known(path):
            return
        with path.open("rb") as file:
            self.add_open_file(file, name or self.name_of(path))

    def add_database(self, path: Path, name: str) -> None:
        """Add a database of SQLite to which nobody writes, under a path in the workspace."""
        self._known.add(name)
        self.add_file(path, name=name)

    def add_open_file(self, file: IO[bytes], name: str) -> None:
        """Add a file from its present position 0 to its present end, under a path in the workspace.

        Raises:
            InputError: It became shorter meanwhile.
        """
        described = self._describe_as(name, os.fstat(file.fileno()))
        reader = HashingReader(file)
        try:
            self._archive.addfile(described, reader)
        except OSError as error:
            if error.errno is not None:
                raise
            raise InputError(
                f"{name} became shorter while it was read; start the backup again", code="changed_file"
            ) from error
        self.files[name] = FileRecord(size=described.size, sha256=reader.sha256)

    def add_bytes(self, name: str, content: bytes) -> None:
        """Add a member that is not a file of the workspace, or that was made for the backup."""
        described = tarfile.TarInfo(name)
        described.size, described.mode = len(content), 0o600
        reader = HashingReader(io.BytesIO(content))
        self._archive.addfile(described, reader)
        self.files[name] = FileRecord(size=len(content), sha256=reader.sha256)

    def holds(self, name: str) -> bool:
        """Return whether a path in the workspace was added."""
        return name in self._known or name in self.files

    def _add_link(self, path: Path) -> None:
        target = path.resolve()
        if not target.is_relative_to(path.parent.resolve()):
            self.leave_out(f"{self.name_of(path)} is a link out of its folder; links are not followed")
            return
        described = self._describe(path, path.lstat())
        described.type, described.size = tarfile.SYMTYPE, 0
        described.linkname = os.path.relpath(target, path.parent.resolve())
        self._archive.addfile(described)

    def _is_apart(self, path: Path) -> bool:
        """Return whether a folder holds what Backstory wrote, which is added on its own."""
        return path.parent == self._root and path.name in (
            "data",
            "index",
            "reports",
            ".backstory",
            ".dagster",
        )

    def _is_known(self, path: Path) -> bool:
        name = self.name_of(path)
        known = name in self._known or name in self.files
        self._known.add(name)
        return known

    def name_of(self, path: Path) -> str:
        """Return the path of a file in the workspace."""
        return path.relative_to(self._root).as_posix()

    def _describe(self, path: Path, status: os.stat_result) -> tarfile.TarInfo:
        described = self._describe_as(self.name_of(path), status)
        if stat.S_ISDIR(status.st_mode):
            described.type, described.size = tarfile.DIRTYPE, 0
        return described

    def _describe_as(self, name: str, status: os.stat_result) -> tarfile.TarInfo:
        # Without the owner, since a restore belongs to whoever makes it. The time dates a chat without years.
        described = tarfile.TarInfo(name)
        described.size, described.mode, described.mtime = (
            status.st_size,
            status.st_mode & 0o777,
            int(status.st_mtime),
        )
        return described
