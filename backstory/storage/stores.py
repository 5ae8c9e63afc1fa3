"""Where files lie that never change once they are written: a folder, or a bucket of S3 or of what speaks like it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar
from urllib.parse import unquote, urlsplit

from backstory.base.environment import may_reach_store_by_http
from backstory.base.errors import StateError
from backstory.base.extras import require_extra
from backstory.base.files.atomic import exclusive_temporary, flush, temporary_path

# The client takes long to load, and a workspace of one machine never needs it.
if TYPE_CHECKING:
    from obstore.store import S3Store

PATIENCE: Final = timedelta(minutes=3)
"""How long a call is tried again: a store that restarts is back within a minute or two."""

_THREADS: Final = 16
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_CALL_SECONDS: Final = 60
_CONNECT_SECONDS: Final = 5
_MOST_RETRIES: Final = 10_000
"""More than the patience has time for."""
_NO_KEYS: Final = re.compile(r"/latest/(?:api/token|meta-data/)|Missing (?:AccessKeyId|SecretAccessKey)\b")
"""The address of a machine's role, which the client asks for keys only if the environment holds none; or what it says
if one of the two variables is set."""
_ALLOW: Final = (
    "make the bucket, correct its address, set both AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment, or "
    "let its policy allow this key and prefix"
)
_REPEAT: Final = (
    "check AWS_ENDPOINT_URL, AWS_REGION and the network, and run the same command again to resume"
)
_PATIENCE_TOLD: Final = re.compile(r" in \S+, after \d+ retries, max_retries: \d+, retry_timeout: \S+ *- *")
"""What the client says of its own attempts, in the middle of what went wrong."""


@dataclass(frozen=True)
class Folder:
    """A folder of this machine, or one that machines share. A file is named by a relative path with slashes.

    A file is written beside its place, and renamed when it is whole. A killed writer leaves a hidden one.
    """

    path: Path

    def locate(self, name: str) -> str:
        """Return the path of a file, for a program that reads it by itself."""
        return str(self.path / name)

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if there is none."""
        with suppress(FileNotFoundError, NotADirectoryError):
            return (self.path / name).read_bytes()
        return None

    def write(self, name: str, content: bytes | Path) -> None:
        """Write a content, or that of a file of this machine, which is on the disk before it has its name.

        A cut of power may undo the renaming of a content: a partition whose file is absent is made again.
        """
        path = self.path / name
        with exclusive_temporary(path) as file:
            if isinstance(content, Path):
                with content.open("rb") as copied:
                    shutil.copyfileobj(copied, file)
            else:
                file.write(content)
            file.flush()
            flush(temporary_path(path))
            temporary_path(path).replace(path)
        if isinstance(content, Path):
            flush(path.parent)

    def fetch(self, name: str, path: Path) -> None:
        """Copy a file, of any size, to a path of this machine."""
        shutil.copyfile(self.path / name, path)

    def stamp(self, name: str) -> Hashable:
        """Return what changes if a file is damaged or replaced, as far as that is seen without reading it."""
        with suppress(FileNotFoundError, NotADirectoryError):
            found = (self.path / name).stat()
            return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino
        return None

    def has(self, name: str, content: bytes) -> bool:
        """Return whether a file has this content."""
        return self.read(name) == content

    def list_names(self, folder: str) -> Iterator[str]:
        """List the names of all files in a folder and below it."""
        for path in sorted((self.path / folder).rglob("*")):
            if path.is_file():
                yield path.relative_to(self.path).as_posix()

    def delete(self, names: Iterable[str]) -> None:
        """Delete files; those that are gone are passed over."""
        paths = [self.path / name for name in names]
        for path in paths:
            path.unlink(missing_ok=True)
        for folder in filter(Path.is_dir, {path.parent for path in paths}):
            flush(folder)


@dataclass(frozen=True)
class Bucket:
    """The objects below an address such as ``s3://bucket/prefix``, with the methods of :class:`Folder`.

    Keys, region and endpoint are those of the environment (``AWS_ACCESS_KEY_ID`` and others). A call that fails by the
    network or the server is tried again for as long as ``patience`` says, before it is a :class:`StateError`.
    """

    address: str
    patience: timedelta = PATIENCE

    def __post_init__(self) -> None:
        require_extra("s3", "A store of files", "leave out `storage: {files: ...}`")

    def locate(self, name: str) -> str:
        """Return the address of an object, for a program that reads it by itself."""
        return f"{self.address}/{name}"

    def read(self, name: str) -> bytes | None:
        """Return the content of an object; None if there is none."""
        with suppress(FileNotFoundError), self._explaining():
            return bytes(self._client.get(name).bytes())
        return None

    def write(self, name: str, content: bytes | Path) -> None:
        """Write an object, from a file in parts if that is large."""
        with self._explaining():
            self._client.put(name, content)

    def fetch(self, name: str, path: Path) -> None:
        """Copy an object to a path, piece by piece."""
        with self._explaining(), path.open("wb") as file:
            for chunk in self._client.get(name):
                file.write(chunk)

    def stamp(self, name: str) -> Hashable:
        """Return the same for whatever an object holds, since its store compares it with a checksum."""
        return name

    def has(self, name: str, content: bytes) -> bool:
        """Return whether an object has the size of this content: its name holds the hash, and no upload is half."""
        with suppress(FileNotFoundError), self._explaining():
            return self._client.head(name)["size"] == len(content)
        return False

    def list_names(self, folder: str) -> Iterator[str]:
        """List the names of all objects in a folder and below it."""
        with self._explaining():
            for page in self._client.list(folder or None):
                yield from (found["path"] for found in page)

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects; those that are gone are passed over."""
        wanted = list(names)
        if wanted:
            with self._explaining():
                self._client.delete(wanted)

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

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        """Turn the client's errors into those of the library, without the long trace of its attempts."""
        from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

        try:
            yield
        except (BaseError, OSError) as error:
            said = str(error)
            # Only the text of the answer tells an absent bucket from an absent object.
            if isinstance(error, FileNotFoundError) and "NoSuchBucket" not in said:
                raise
            refusals = FileNotFoundError, PermissionDeniedError, UnauthenticatedError, PermissionError
            is_refusal = isinstance(error, refusals) or _NO_KEYS.search(said)
            code, remedy = ("refused_by_store", _ALLOW) if is_refusal else ("unreachable_store", _REPEAT)
            first_line = _PATIENCE_TOLD.sub(": ", said.partition("\n")[0])
            raise StateError(f"{self.address} cannot be used ({first_line}); {remedy}", code=code) from error


Store: TypeAlias = Folder | Bucket


def open_store(address: Path | str, *, patience: timedelta = PATIENCE) -> Store:
    """Open a folder, by its path or as ``file:///folder``, or a bucket, where a call is tried again for a while."""
    if not isinstance(address, str) or "://" not in address:
        return Folder(Path(address))
    parts = urlsplit(address)
    return (
        Folder(Path(unquote(parts.path))) if parts.scheme == "file" else Bucket(address.rstrip("/"), patience)
    )


def in_threads(work: Callable[[_Item], _Result], items: Collection[_Item]) -> list[_Result]:
    """Do the same with several items in threads, since each waits for the disk or the store."""
    if len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(_THREADS) as threads:
        return list(threads.map(work, items))
