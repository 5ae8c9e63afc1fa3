"""Where files lie that never change once they are written: a folder, or a bucket of S3 or of what speaks like it."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, Protocol
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from backstory.base.environment import may_reach_store_by_http
from backstory.base.errors import StateError, WorkspaceError
from backstory.base.extras import require_extra
from backstory.base.files.atomic import flush, lock
from backstory.base.files.disk_full import is_of_full_disk

# The client takes long to load, and a workspace of one machine never needs it.
if TYPE_CHECKING:
    from obstore.store import S3Store

PATIENCE: Final = timedelta(minutes=3)
"""How long a call is tried again: a store that restarts is back within a minute or two."""

_THREADS: Final = 16
_CALL_SECONDS: Final = 60
_CONNECT_SECONDS: Final = 5
_MOST_RETRIES: Final = 10_000
"""More than the patience has time for."""
_NO_KEYS: Final = re.compile(r"/latest/(?:api/token|meta-data/)|Missing (?:AccessKeyId|SecretAccessKey)\b")
"""The address of a machine's role, which the client asks for keys only if the environment holds none; or what it says
if one of the two variables is set."""
_PATIENCE_TOLD: Final = re.compile(r" in \S+, after \d+ retries, max_retries: \d+, retry_timeout: \S+ *- *")
"""What the client says of its own attempts, in the middle of what went wrong."""


class Store(Protocol):
    """Files by name. A name is a relative path with slashes."""

    def locate(self, name: str) -> str:
        """Return the path or the address of a file, for a program that reads it by itself."""

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if there is none."""

    def open(self, name: str) -> IO[bytes] | None:
        """Open a file for reading; None if there is none."""

    def write(self, contents: Mapping[str, bytes]) -> None:
        """Write files, each whole: readers see its earlier content or this one."""

    def claim(self, name: str, content: bytes) -> None:
        """Write a file unless there is one."""

    def send(self, path: Path, name: str) -> None:
        """Copy a file of this machine, of any size, to a name."""

    def fetch(self, name: str, path: Path) -> None:
        """Copy a file, of any size, to a path of this machine."""

    def stamp(self, name: str) -> Hashable:
        """Return what changes if a file is damaged or replaced, as far as that can be seen without reading it."""

    def has(self, name: str, content: bytes) -> bool:
        """Return whether a file has this content, as far as the store tells without sending it."""

    def list_names(self, folder: str) -> Iterator[str]:
        """List the names of all files in a folder and below it."""

    def delete(self, names: Iterable[str]) -> None:
        """Delete files; those that are gone are passed over."""

    def clear(self, folder: str) -> None:
        """Delete what killed writers have left in a folder."""


@dataclass(frozen=True)
class Folder:
    """A folder of this machine, or one that machines share.

    Attributes:
        path: The folder; made when the first file is written.
    """

    path: Path

    def locate(self, name: str) -> str:
        """Return the path of a file."""
        return str(self.path / name)

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if there is none."""
        try:
            return (self.path / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def open(self, name: str) -> IO[bytes] | None:
        """Open a file for reading; None if there is none."""
        try:
            return (self.path / name).open("rb")
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write(self, contents: Mapping[str, bytes]) -> None:
        """Write files beside their places, wait until they are on the disk, and rename them.

        Raises:
            WorkspaceError: The folder may not be written (code ``unwritable``).
            OSError: The disk is full.
        """
        for folder in {(self.path / name).parent for name in contents}:
            with naming_refusal(folder):
                folder.mkdir(parents=True, exist_ok=True)
        _at_once(self._write, contents.items())
        for folder in {(self.path / name).parent for name in contents}:
            flush(folder)

    def claim(self, name: str, content: bytes) -> None:
        """Write a file unless there is one."""
        path = self.path / name
        with naming_refusal(path), suppress(FileExistsError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as file:
                file.write(content)

    def send(self, path: Path, name: str) -> None:
        """Copy a file to a name, beside its place, and rename it."""
        temporary = (self.path / name).with_name(f".{uuid4().hex}.tmp")
        with naming_refusal(temporary):
            temporary.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, temporary)
            temporary.replace(self.path / name)

    def fetch(self, name: str, path: Path) -> None:
        """Copy a file to a path."""
        shutil.copyfile(self.path / name, path)

    def stamp(self, name: str) -> Hashable:
        """Return size, time of change and number of a file; None if there is none."""
        try:
            found = (self.path / name).stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino

    def has(self, name: str, content: bytes) -> bool:
        """Return whether a file has this content."""
        return self.read(name) == content

    def list_names(self, folder: str) -> Iterator[str]:
        """List the names of all files in a folder and below it, but for hidden ones."""
        for path in sorted((self.path / folder).rglob("[!.]*")):
            if path.is_file():
                yield path.relative_to(self.path).as_posix()

    def delete(self, names: Iterable[str]) -> None:
        """Delete files; those that are gone are passed over."""
        folders = set()
        for name in names:
            path = self.path / name
            with naming_refusal(path):
                path.unlink(missing_ok=True)
            folders.add(path.parent)
        for folder in filter(Path.is_dir, folders):
            flush(folder)

    def clear(self, folder: str) -> None:
        """Delete what killed writers have left in a folder: their files are not locked any more."""
        for path in (self.path / folder).glob(".*.tmp"):
            with suppress(FileNotFoundError), path.open("rb") as file:
                if lock(file, wait=False):
                    path.unlink()

    def _write(self, file: tuple[str, bytes]) -> None:
        path = self.path / file[0]
        temporary = path.with_name(f".{uuid4().hex}.tmp")
        with naming_refusal(path):
            try:
                with temporary.open("xb") as opened:
                    lock(opened)
                    opened.write(file[1])
                    opened.flush()
                    os.fsync(opened.fileno())
                    temporary.replace(path)
            finally:
                temporary.unlink(missing_ok=True)


@dataclass(frozen=True)
class Bucket:
    """The objects below an address such as ``s3://bucket/prefix``. Any number of threads may use it.

    Keys, region and endpoint are those of the environment (``AWS_ACCESS_KEY_ID`` and others).

    Attributes:
        address: The address, without a slash at its end.
        patience: How long a call that fails by the network or the server is tried again.

    Raises:
        MissingExtraError: The client of S3 is not installed.
    """

    address: str
    patience: timedelta = PATIENCE

    def __post_init__(self) -> None:
        require_extra("s3", "A store of files", "leave out `storage: {files: ...}`")

    def locate(self, name: str) -> str:
        """Return the address of an object."""
        return f"{self.address}/{name}"

    def read(self, name: str) -> bytes | None:
        """Return the content of an object; None if there is none.

        Raises:
            StateError: The store cannot be reached, or refuses.
        """
        import obstore

        with self._explaining():
            try:
                return bytes(obstore.get(self._client, name).bytes())
            except FileNotFoundError as error:
                self._require_bucket(error)
                return None

    def open(self, name: str) -> IO[bytes] | None:
        """Fetch an object whole, and open what came; None if there is none.

        Raises:
            StateError: The store cannot be reached, or refuses.
        """
        content = self.read(name)
        return None if content is None else BytesIO(content)

    def write(self, contents: Mapping[str, bytes]) -> None:
        """Write objects. An upload that is cut leaves nothing.

        Raises:
            StateError: The store cannot be reached, or refuses.
        """
        _at_once(self._write, contents.items())

    def claim(self, name: str, content: bytes) -> None:
        """Write an object unless there is one.

        Raises:
            StateError: The store cannot be reached, or refuses.
        """
        import obstore
        from obstore.exceptions import AlreadyExistsError

        with self._explaining(), suppress(AlreadyExistsError):
            obstore.put(self._client, name, content, mode="create", use_multipart=False)

    def send(self, path: Path, name: str) -> None:
        """Copy a file to an object, in parts if it is large.

        Raises:
            StateError: The store cannot be reached, or refuses.
        """
        import obstore

        with self._explaining():
            obstore.put(self._client, name, path)

    def fetch(self, name: str, path: Path) -> None:
        """Copy an object to a path, piece by piece.

        Raises:
            StateError: The store cannot be reached, or refuses; or the object is gone.
        """
        import obstore

        with self._explaining():
            found = obstore.get(self._client, name)
            with path.open("wb") as file:
                for chunk in found:
                    file.write(chunk)

    def stamp(self, name: str) -> Hashable:
        """Return the same for whatever an object holds, since its store compares it with a checksum."""
        return name

    def has(self, name: str, content: bytes) -> bool:
        """Return whether an object has the size of this content: its name holds the hash, and no upload is half.

        Raises:
            StateError: The store cannot be reached, or refuses.
        """
        import obstore

        with self._explaining():
            try:
                return int(obstore.head(self._client, name)["size"]) == len(content)
            except FileNotFoundError as error:
                self._require_bucket(error)
                return False

    def list_names(self, folder: str) -> Iterator[str]:
        """List the names of all objects in a folder and below it.

        Raises:
            StateError: The store cannot be reached, or refuses.
        """
        import obstore

        with self._explaining():
            for page in obstore.list(self._client, folder or None):
                yield from (found["path"] for found in page)

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects; those that are gone are passed over.

        Raises:
            StateError: The store cannot be reached, or refuses.
        """
        import obstore

        wanted = list(names)
        if wanted:
            with self._explaining():
                obstore.delete(self._client, wanted)

    def clear(self, folder: str) -> None:
        """Do nothing: an upload that is cut leaves nothing."""

    def _write(self, file: tuple[str, bytes]) -> None:
        import obstore

        with self._explaining():
            try:
                obstore.put(self._client, *file)
            except FileNotFoundError as error:
                self._require_bucket(error)
                raise

    @cached_property
    def _client(self) -> S3Store:
        from obstore.store import S3Store

        parts = urlsplit(self.address)
        with self._explaining():
            return S3Store(
                parts.netloc,
                prefix=parts.path.strip("/") or None,
                checksum_algorithm="SHA256",
                client_options={
                    "allow_http": may_reach_store_by_http(),
                    "timeout": timedelta(seconds=_CALL_SECONDS),
                    "connect_timeout": timedelta(seconds=_CONNECT_SECONDS),
                },
                retry_config={"max_retries": _MOST_RETRIES, "retry_timeout": self.patience},
            )

    def _require_bucket(self, error: FileNotFoundError) -> None:
        """Raise if it is the bucket that is absent. Only the text of the answer tells it from an absent object."""
        if "NoSuchBucket" in str(error):
            bucket = urlsplit(self.address).netloc
            raise StateError(
                f"there is no bucket {bucket!r}; make it, or correct the address {self.address}",
                code="no_bucket",
            ) from error

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        """Turn the client's errors into those of the library, without the long trace of its attempts."""
        from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

        try:
            yield
        except (BaseError, OSError) as error:
            if _NO_KEYS.search(str(error)):
                raise StateError(
                    f"the keys of {self.address} are not set; set both AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in "
                    "the environment (the role of this machine gave none)",
                    code="missing_keys",
                ) from error
            if isinstance(error, PermissionDeniedError | UnauthenticatedError | PermissionError):
                raise StateError(
                    f"{self.address} refuses the key, or the key may not use this prefix; check AWS_ACCESS_KEY_ID, "
                    "AWS_SECRET_ACCESS_KEY and the policy of the bucket",
                    code="refused_by_store",
                ) from error
            first_line = _PATIENCE_TOLD.sub(": ", str(error).partition("\n")[0])
            raise StateError(
                f"{self.address} cannot be used ({first_line}); check AWS_ENDPOINT_URL, AWS_REGION and the network, "
                "and run the same command again: finished work is kept",
                code="unreachable_store",
            ) from error


def open_store(address: Path | str, *, patience: timedelta = PATIENCE) -> Store:
    """Open a folder, by its path or as ``file:///folder``, or a bucket.

    Args:
        address: The path or the address.
        patience: How long a call of a bucket that fails is tried again.

    Raises:
        MissingExtraError: The client of S3 is not installed.
    """
    if isinstance(address, str) and "://" in address:
        parts = urlsplit(address)
        return (
            Folder(Path(unquote(parts.path)))
            if parts.scheme == "file"
            else Bucket(address.rstrip("/"), patience)
        )
    return Folder(Path(address))


def _at_once(work: Callable[[tuple[str, bytes]], None], files: Collection[tuple[str, bytes]]) -> None:
    """Do the same with several files in threads, since each waits for the disk or the store."""
    if len(files) == 1:
        work(*files)
        return
    with ThreadPoolExecutor(_THREADS) as threads:
        list(threads.map(work, files))


@contextmanager
def naming_refusal(path: Path) -> Iterator[None]:
    """Say in one sentence which file may not be written, and what to do.

    Raises:
        WorkspaceError: The system refuses it (code ``unwritable``).
        OSError: The disk is full, which callers name with what they were about to do.
    """
    try:
        yield
    except OSError as error:
        if is_of_full_disk(error, path.parent):
            raise
        raise WorkspaceError(
            f"{path} cannot be written ({os.strerror(error.errno or 0)}); correct the owner or the mode of its folder, "
            "or copy the workspace to where this user may write",
            code="unwritable",
        ) from error
