"""Reads and writes objects of a store: a bucket of S3 or of what speaks like it, or a folder that machines share."""

from __future__ import annotations

import hashlib
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from backstory.base.environment import may_reach_store_by_http
from backstory.base.errors import StoreError
from backstory.base.extras import require_extra
from backstory.base.files.atomic import flush, lock, publish, temporary_path
from backstory.base.files.disk_full import is_of_full_disk

# The client takes long to load, and a workspace of one machine never needs it.
if TYPE_CHECKING:
    from obstore.store import LocalStore, S3Store

CALLS_AT_ONCE: Final = 32
"""Objects that travel at once: a store answers many calls in the time of one."""
PATIENCE: Final = timedelta(minutes=3)
"""How long a call is tried again: a store that restarts is back within a minute or two."""

_CALL_SECONDS: Final = 60
_CONNECT_SECONDS: Final = 5
_MOST_RETRIES: Final = 10_000
"""More than the patience has time for: pauses between attempts are random, and forty of them may last 16 seconds."""
_FIRST_PAUSE_SECONDS: Final = 0.1
_LONGEST_PAUSE_SECONDS: Final = 15.0
"""Between two attempts of this module, as between those of the client."""
_PARTS_AT_ONCE: Final = 2
"""Parts of 5 MB of one object that travel at once: those of all objects are in memory together."""
_PART_BYTES: Final = 5 << 20
"""A content up to this size is written by one call; a larger one in parts of it."""
_CHUNK_BYTES: Final = 1 << 20
_ATTEMPTS: Final = 3
"""Attempts to read one object whole: a connection that is cut in the middle of a body ends it early."""
_OBJECTS: Final = "objects"
_NO_KEYS: Final = re.compile(r"/latest/(?:api/token|meta-data/)|Missing (?:AccessKeyId|SecretAccessKey)\b")
"""The address of a machine's role, which the client asks for keys only if the environment holds none; or what it says
if one of the two variables is set."""
_PATIENCE_TOLD: Final = re.compile(r" in \S+, after \d+ retries, max_retries: \d+, retry_timeout: \S+ *- *")
"""What the client says of its own attempts, in the middle of what went wrong."""


@dataclass(frozen=True)
class Found:
    """An object as the store describes it.

    Attributes:
        etag: Changes whenever the content does.
        size: Bytes.
        changed_at: When it was written, by the clock of the store.
    """

    etag: str
    size: int
    changed_at: datetime


class ObjectStore:
    """The objects below one address. Any number of threads may use it.

    Args:
        address: ``s3://bucket/prefix`` or ``file:///folder``. Keys, region and endpoint of S3 are those of the
            environment (``AWS_ACCESS_KEY_ID`` and others).
        patience: How long a call that fails by the network or the server is tried again.

    Attributes:
        address: The address.
        folder: The folder of ``file:///folder``; None for a bucket.

    Raises:
        MissingExtraError: The client of S3 is not installed.
        StoreError: The address is of another kind (code ``invalid_address``).
    """

    def __init__(self, address: str, *, patience: timedelta = PATIENCE) -> None:
        require_extra("s3", "A store of files", "leave out `storage: {files: ...}`")
        self.address = address
        self._patience = patience
        scheme = urlsplit(address).scheme
        if scheme not in ("s3", "file"):
            raise StoreError(
                f"{address} is no address of a store; write s3://bucket/prefix, or file:///folder",
                code="invalid_address",
                address=address,
            )
        self.folder = Path(unquote(urlsplit(address).path)) if scheme == "file" else None

    def locate(self, name: str) -> str:
        """Return the address or path of an object, for a program that reads it by itself."""
        return f"{self.address}/{name}" if self.folder is None else str(self.folder / name)

    def find(self, name: str) -> Found | None:
        """Describe an object without reading it; None if there is none.

        Raises:
            StoreError: The store cannot be reached, or refuses.
        """
        import obstore

        with self._explaining(name):
            try:
                found = obstore.head(self._client, name)
            except FileNotFoundError as error:
                self._require_bucket(error)
                return None
        return Found(str(found["e_tag"]), found["size"], found["last_modified"])

    def read(self, name: str) -> tuple[bytes, str] | None:
        """Read a small object; None if there is none.

        Returns:
            Its content and its etag.

        Raises:
            StoreError: The store cannot be reached, or refuses.
        """
        import obstore

        with self._explaining(name):
            try:
                found = obstore.get(self._client, name)
                return bytes(found.bytes()), str(found.meta["e_tag"])
            except FileNotFoundError as error:
                self._require_bucket(error)
                return None

    def replace(self, name: str, content: bytes, etag: str | None) -> str | None:
        """Write an object if it is still the one that was read.

        Args:
            name: Its name.
            content: Its next content.
            etag: Etag of what was read; None if there was no object.

        Returns:
            The etag of what was written; None if the object was not the one that was read, because another writer was
            first or because an earlier answer to this call was lost.

        Raises:
            StoreError: The store cannot be reached, or refuses.
        """
        import obstore
        from obstore.exceptions import AlreadyExistsError, GenericError, PreconditionError

        until = time.monotonic() + self._patience.total_seconds()
        with self._explaining(name), self._replacing(name):
            if self.folder is not None:
                found = self.find(name)
                if (found and found.etag) != etag:
                    return None
                path = self.folder / name
                temporary_path(path).write_bytes(content)
                publish(temporary_path(path), path)
                written = self.find(name)
                return None if written is None else written.etag
            mode: Any = "create" if etag is None else {"e_tag": etag}
            pause = _FIRST_PAUSE_SECONDS
            while True:
                try:
                    return obstore.put(self._client, name, content, mode=mode, use_multipart=False)["e_tag"]
                except (AlreadyExistsError, PreconditionError):
                    return None
                except FileNotFoundError as error:
                    # S3 says that there is nothing to replace, if what was read was deleted meanwhile.
                    self._require_bucket(error)
                    return None
                except GenericError:
                    # The client does not repeat a conditional call that was not answered. If it was carried out, the
                    # next one finds another etag, and the caller what it wrote.
                    if time.monotonic() + pause > until:
                        raise
                threading.Event().wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def has_content(self, sha256: str, size: int, *, since: datetime | None = None) -> bool:
        """Return whether the store holds a content.

        Args:
            sha256: Its hash.
            size: Its bytes.
            since: Only if it was written after this moment.

        Raises:
            StoreError: The store cannot be reached, or refuses.
        """
        found = self.find(name_content(sha256))
        return found is not None and found.size == size and (since is None or found.changed_at > since)

    def upload(self, path: Path, sha256: str) -> None:
        """Write a file as the object that its hash names. An upload that is cut leaves no object.

        Args:
            path: The file.
            sha256: Its hash.

        Raises:
            StoreError: The store cannot be reached, or refuses; or the file is not the one that was hashed (code
                ``changed_file``).
        """
        try:
            with path.open("rb") as file:
                self.upload_open(file, os.fstat(file.fileno()).st_size, sha256, str(path))
        except FileNotFoundError as error:
            raise _changed(str(path)) from error

    def upload_open(self, file: IO[bytes], size: int, sha256: str, name: str) -> None:
        """Write the first bytes of an open file as :meth:`upload` does, whatever was appended to them meanwhile.

        Args:
            file: The file; it is read from its beginning.
            size: Number of bytes.
            sha256: Their hash.
            name: What errors call the file.
        """
        chunks = _read_checked(file, size, sha256, name)
        self._put(b"".join(chunks) if size <= _PART_BYTES else chunks, Path(name), sha256)

    def upload_bytes(self, content: bytes) -> str:
        """Write a content, and return the hash that names its object.

        Raises:
            StoreError: The store cannot be reached, or refuses.
        """
        sha256 = hashlib.sha256(content).hexdigest()
        self._put(content, Path(name_content(sha256)), sha256)
        return sha256

    def download(self, sha256: str, path: Path) -> None:
        """Write a content beside a path, compare it with its hash, and rename it to the path.

        Args:
            sha256: Hash of the content.
            path: The file; its folder is made if absent.

        Raises:
            StoreError: There is no such object (code ``missing_object``), it holds something else (``damaged_object``),
                the file cannot be written (``unwritable_file``), or the store cannot be reached, or refuses.
            OSError: The disk of the file is full.
        """
        with naming_local_file(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = temporary_path(path)
            try:
                for _ in range(_ATTEMPTS):
                    if self._fetch(sha256, temporary) == sha256:
                        flush(temporary)
                        temporary.replace(path)
                        flush(path.parent)
                        return
            finally:
                temporary.unlink(missing_ok=True)
        raise StoreError(
            f"the object {name_content(sha256)} of {self.address} is damaged: its content has another hash; run "
            f"`backstory storage copy --to {self.address}` on a worker that has {path.name}, which writes it again",
            code="damaged_object",
            object=name_content(sha256),
            path=path,
        )

    def read_content(self, sha256: str) -> bytes:
        """Read a small content.

        Raises:
            StoreError: See :meth:`download`.
        """
        with TemporaryDirectory(prefix="backstory-") as folder:
            path = Path(folder) / sha256
            self.download(sha256, path)
            return path.read_bytes()

    def verify(self, sha256: str) -> bool:
        """Read the object of a hash, and return whether it holds that content.

        Raises:
            StoreError: The store cannot be reached, or refuses.
        """
        import obstore

        with self._explaining(name_content(sha256)):
            try:
                digest = hashlib.sha256()
                for chunk in obstore.get(self._client, name_content(sha256)):
                    digest.update(chunk)
            except FileNotFoundError as error:
                self._require_bucket(error)
                return False
        return digest.hexdigest() == sha256

    def list_names(self, folder: str) -> Iterator[str]:
        """List the names of the objects in a folder, in pages.

        Raises:
            StoreError: The store cannot be reached, or refuses.
        """
        import obstore

        with self._explaining(folder):
            for page in obstore.list(self._client, folder):
                yield from (found["path"] for found in page)

    def list_contents(self) -> Iterator[tuple[str, Found]]:
        """List the objects that are named by a hash, in pages.

        Yields:
            The hash and the description of each.

        Raises:
            StoreError: The store cannot be reached, or refuses.
        """
        import obstore

        with self._explaining(_OBJECTS):
            for page in obstore.list(self._client, _OBJECTS):
                for found in page:
                    described = Found(str(found["e_tag"]), found["size"], found["last_modified"])
                    yield found["path"].rpartition("/")[2], described

    def delete(self, names: list[str]) -> None:
        """Delete objects; those that are gone are passed over.

        Raises:
            StoreError: The store cannot be reached, or refuses.
        """
        import obstore

        if self.folder is None:
            with self._explaining(_OBJECTS):
                obstore.delete(self._client, names)
            return
        for name in names:
            with self._explaining(name):
                (self.folder / name).unlink(missing_ok=True)

    @cached_property
    def _client(self) -> S3Store | LocalStore:
        from obstore.store import LocalStore, S3Store

        if self.folder is not None:
            with self._explaining(""):
                return LocalStore(self.folder, mkdir=True)
        parts = urlsplit(self.address)
        with self._explaining(""):
            return S3Store(
                parts.netloc,
                prefix=parts.path.strip("/") or None,
                conditional_put="etag",
                checksum_algorithm="SHA256",
                client_options={
                    "allow_http": may_reach_store_by_http(),
                    "timeout": timedelta(seconds=_CALL_SECONDS),
                    "connect_timeout": timedelta(seconds=_CONNECT_SECONDS),
                },
                retry_config={"max_retries": _MOST_RETRIES, "retry_timeout": self._patience},
            )

    def _put(self, content: Iterator[bytes] | bytes, path: Path, sha256: str) -> None:
        import obstore

        with self._explaining(path.name):
            obstore.put(self._client, name_content(sha256), content, max_concurrency=_PARTS_AT_ONCE)
            if self.folder is not None:
                # The manifest names it next, and must not reach the disk before it.
                written = self.folder / name_content(sha256)
                for place in (written, written.parent, written.parent.parent, self.folder):
                    flush(place)

    def _fetch(self, sha256: str, path: Path) -> str:
        """Write the object of a hash to a file, and return the hash of what came; empty if it was cut."""
        import obstore
        from obstore.exceptions import GenericError

        name, digest = name_content(sha256), hashlib.sha256()
        with self._explaining(name):
            try:
                found = obstore.get(self._client, name)
            except FileNotFoundError as error:
                self._require_bucket(error)
                raise StoreError(
                    f"the object {name} of {self.address} is gone, which the manifest names; run `backstory storage "
                    f"copy --to {self.address}` on a worker that has it",
                    code="missing_object",
                    object=name,
                ) from error
        chunks = iter(found)
        with path.open("wb") as file:
            while True:
                # An error of the file is none of the store.
                with self._explaining(name):
                    try:
                        chunk = next(chunks, None)
                    except GenericError:
                        return ""
                if chunk is None:
                    return digest.hexdigest()
                digest.update(chunk)
                file.write(chunk)

    @contextmanager
    def _replacing(self, name: str) -> Iterator[None]:
        """In a folder, let one writer at a time compare and replace; S3 does both in one call."""
        if self.folder is None:
            yield
            return
        path = self.folder / f".{name.partition('/')[0]}.lock"
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            lock(file)
            yield

    def _require_bucket(self, error: FileNotFoundError) -> None:
        """Raise if it is the bucket that is absent. Only the text of the answer tells it from an absent object."""
        if "NoSuchBucket" in str(error):
            bucket = urlsplit(self.address).netloc
            raise StoreError(
                f"there is no bucket {bucket!r}; make it, or correct the address {self.address}",
                code="no_bucket",
                address=self.address,
            ) from error

    def _require_keys(self, error: Exception) -> None:
        """Raise if the client has found no keys. Only what it says tells it from a refusal."""
        if self.folder is None and _NO_KEYS.search(str(error)):
            raise StoreError(
                f"the keys of {self.address} are not set; set both AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the "
                "environment (the role of this machine gave none)",
                code="missing_keys",
                address=self.address,
            ) from error

    @contextmanager
    def _explaining(self, name: str) -> Iterator[None]:
        """Turn the client's errors into those of the library, without the long trace of its attempts."""
        from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

        try:
            yield
        except (PermissionDeniedError, UnauthenticatedError, PermissionError) as error:
            self._require_keys(error)
            raise StoreError(
                f"{self.address} refuses the key, or the key may not use this prefix; check AWS_ACCESS_KEY_ID, "
                "AWS_SECRET_ACCESS_KEY and the policy of the bucket",
                code="refused_by_store",
                address=self.address,
                object=name,
            ) from error
        except (BaseError, OSError) as error:
            self._require_keys(error)
            first_line = _PATIENCE_TOLD.sub(": ", str(error).partition("\n")[0])
            raise StoreError(
                f"{self.address} cannot be used ({first_line}); check AWS_ENDPOINT_URL, AWS_REGION and the network, "
                "and run the same command again: finished work is kept",
                code="unreachable_store",
                address=self.address,
                object=name,
            ) from error


@contextmanager
def naming_local_file(path: Path) -> Iterator[None]:
    """Tell that a file of this machine cannot be written, which is no error of the store.

    Raises:
        StoreError: The system refuses it (code ``unwritable_file``).
        OSError: The disk is full, which callers name with what they were about to do.
    """
    try:
        yield
    except OSError as error:
        if is_of_full_disk(error, path.parent):
            raise
        raise StoreError(
            f"{path} of this machine cannot be written ({error.strerror}); correct its owner, mode or path, and run "
            "the same command again",
            code="unwritable_file",
            path=path,
        ) from error


def name_content(sha256: str) -> str:
    """Return the name of the object that holds a content."""
    return f"{_OBJECTS}/{sha256[:2]}/{sha256}"


def hash_content(path: Path) -> str:
    """Hash a file as objects are named."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_checked(file: IO[bytes], size: int, sha256: str, name: str) -> Iterator[bytes]:
    """Read the first bytes of a file, and withhold the last of them unless their hash is as told.

    The upload is cut then, so that no object ever holds another content than its name says.

    Raises:
        StoreError: They have another hash, or the file is shorter (code ``changed_file``).
    """
    file.seek(0)
    digest, left = hashlib.sha256(), size
    while True:
        chunk = file.read(min(left, _CHUNK_BYTES))
        digest.update(chunk)
        left -= len(chunk)
        if (not chunk and left) or (not left and digest.hexdigest() != sha256):
            raise _changed(name)
        yield chunk
        if not left:
            return


def _changed(name: str) -> StoreError:
    return StoreError(
        f"{name} was changed while it was uploaded; run the same command again",
        code="changed_file",
        path=name,
    )
