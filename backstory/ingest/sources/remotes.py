"""Places elsewhere, and copies of their files, which are read as if they were a folder of the workspace.

fsspec reads buckets, folders, archives and pages of the web. A file is fetched beside the copies and then renamed into
its place, so that no part of a file is ever read.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any, Final, Protocol
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, ValidationError

from backstory.base.environment import BUCKET_VARIABLE
from backstory.base.errors import BackstoryError, ReadError, SettingsError
from backstory.base.extras import require_extra
from backstory.base.files.atomic import exclusive_temporary, flush, write_file
from backstory.base.ids import digest
from backstory.base.progress import announce, announce_name
from backstory.ingest.documents.files import IGNORE_FILE, DocumentFolder, FileRules
from backstory.ingest.walk import Listing, Skipped, require_size
from backstory.ingest.zips import leads_out
from backstory.settings.inputs import find_credential

COPIES: Final = "files"
"""Folder of the copies in a mirror."""
_INCOMING: Final = "incoming"
_STATE: Final = "state.json"
BYTES_AT_ONCE: Final = 1 << 20
_MOST_LIST_BYTES: Final = 1 << 20
_SECONDS: Final = 60
_OPEN_KINDS: Final = frozenset(["file", "local", "memory", "zip", "tar", "http", "https"])
"""Kinds of addresses, as fsspec calls them, that need no credentials."""
_STAMPS: Final = (
    "ETag", "etag", "e_tag", "md5Hash", "Content-MD5", "content_md5", "Digest", "generation",
    "LastModified", "last_modified", "Last-Modified", "updated", "mtime", "modified", "created",
)  # fmt: skip
_ENDINGS: Final = {
    "text/html": ".html", "text/markdown": ".md", "text/plain": ".txt", "application/pdf": ".pdf",
}  # fmt: skip
_ERRORS: Final = (
    "aiohttp.ClientError", "azure.core.exceptions.AzureError", "botocore.exceptions.BotoCoreError",
    "botocore.exceptions.ClientError", "gcsfs.retry.HttpError", "google.auth.exceptions.GoogleAuthError",
)  # fmt: skip
"""Errors of the packages behind fsspec that are no ``OSError``."""


class RemoteFile(BaseModel, frozen=True):
    """One file of a place elsewhere: the key by which the place names it, its stamp, size and kind if it tells them.

    The stamp changes with the content; it is empty if the place tells nothing, so that the file is fetched each time.
    """

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


def update_mirror(folder: Path, remote: Remote, rules: FileRules, most_bytes: int) -> None:
    """Fetch what has changed in a place elsewhere, and drop what is gone there.

    If the place cannot be listed, the copies stay as they are. A fetch that was stopped goes on where it was.
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
    kept = {copies / path for path in (*wanted, *state.failed)}
    # A fetch that was killed, or a record that was lost, leaves copies that no record names.
    for copy in {copy for copy in copies.rglob("*") if copy.is_file()} - kept:
        # Before the others come, since a file may have become a folder.
        copy.unlink()
        with suppress(OSError):  # other copies lie beside it
            os.removedirs(copy.parent)
    state.files = {path: file for path, file in state.files.items() if copies / path in kept}
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


class AddressRemote:
    """A bucket, a folder or an archive that fsspec can list. It sends no request before its files are listed."""

    def __init__(self, address: str, credentials: Mapping[str, Mapping[str, object]] | None = None) -> None:
        require_extra("remote", "a source by `url`", "name a local `path`")
        self._address = address
        self._credentials = credentials
        self._files: Any = None

    def list_files(self) -> RemoteListing:
        """List all files below the address, or the one file that it names.

        It raises ``SettingsError`` if no installed package knows this kind of address.
        """
        import fsspec

        options = self._choose_options()
        with naming_failures():
            try:
                self._files, root = fsspec.core.url_to_fs(self._address, **options)
            except ImportError as error:
                raise SettingsError(
                    f"documents.sources: the address of a source needs a package that is not installed ({error})"
                ) from error
            self._files.invalidate_cache()
            found: dict[str, dict[str, Any]] = self._files.find(root, detail=True)
        if not found:
            raise ReadError("it does not exist, or holds no file; check the address")
        files: dict[str, RemoteFile] = {}
        failed: dict[str, str] = {}
        for key, info in found.items():
            path = key.removeprefix(root).strip("/") or PurePosixPath(key).name
            if leads_out(path):
                why = "its name points elsewhere or cannot be displayed; rename it"
                failed[digest([path], length=16)] = why
            else:
                files[path] = _describe(key, info)
        return RemoteListing(files=files, failed=failed)

    def _choose_options(self) -> dict[str, dict[str, object]]:
        """Return the options of each part of the address.

        It raises ``ReadError`` if a part needs credentials, and there are none for it.
        """
        options: dict[str, dict[str, object]] = {}
        for kind in [part.partition("://")[0] for part in self._address.split("::")]:
            if self._credentials is None or kind in _OPEN_KINDS:
                continue
            if kind not in self._credentials:
                raise ReadError(
                    f"this tenant has no credentials for {kind}:// addresses; store them by "
                    f"`backstory serve key set TENANT {BUCKET_VARIABLE}`"
                )
            # Else fsspec reuses the connection for whoever names the same place with other credentials.
            options[kind] = {**self._credentials[kind], "skip_instance_cache": True}
        return options

    def read(self, file: RemoteFile) -> Iterator[bytes]:
        """Read the content of a file."""
        return _read(self._files, file.key)


class PagesRemote:
    """Single files of the web, each by its address."""

    def __init__(self, addresses: Sequence[str], list_address: str | None = None) -> None:
        require_extra("remote", "a source by `urls` or `url_list`", "name a local `path`")
        import aiohttp
        import fsspec

        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_SECONDS, sock_read=_SECONDS)
        self._web = fsspec.filesystem(
            "http", client_kwargs={"timeout": timeout}, skip_instance_cache=True, use_listings_cache=False
        )
        self._addresses = addresses
        self._list_address = list_address

    def list_files(self) -> RemoteListing:
        """Ask for the state of each address; one that does not answer is refused."""
        files: dict[str, RemoteFile] = {}
        failed: dict[str, str] = {}
        for address in dict.fromkeys((*self._addresses, *self._read_list())):
            try:
                with naming_failures():
                    info: dict[str, Any] = self._web.info(address)
            except ReadError as error:
                failed[address] = str(error)
                continue
            path = name_page(address, str(info.get("mimetype", "")))
            if path in files:
                why = "another address of the source is kept under the same name; name one of the two"
                failed[f"{path}-{digest([address], length=8)}"] = why
            else:
                files[path] = _describe(address, info)
        return RemoteListing(files=files, failed=failed)

    def read(self, file: RemoteFile) -> Iterator[bytes]:
        """Read the content of an address."""
        return _read(self._web, file.key, block_size=0)

    def _read_list(self) -> list[str]:
        if self._list_address is None:
            return []
        with naming_failures("the list of addresses: "):
            with self._web.open(self._list_address, "rb", block_size=0) as opened:
                text: bytes = opened.read(_MOST_LIST_BYTES + 1)
            if len(text) > _MOST_LIST_BYTES:
                raise ReadError("the list of addresses has more than 1 MiB; shorten it")
        lines = [line.strip() for line in text.decode("utf-8", "replace").splitlines()]
        addresses = [line for line in lines if line and not line.startswith("#")]
        for number, line in enumerate(addresses, 1):
            if urlsplit(line).scheme not in ("http", "https") or find_credential(line):
                raise ReadError(
                    f"entry {number} of the list of addresses is no address of the web without a key"
                )
        return addresses


def name_page(address: str, kind: str) -> str:
    """Return the path under which a page is kept: its host and path, with the ending of its kind."""
    parts = urlsplit(address)
    inner = [part for part in unquote(parts.path).split("/") if part not in ("", ".", "..")]
    clean = ["".join(sign for sign in part if sign.isprintable()).lstrip(".") for part in inner]
    path = PurePosixPath(parts.netloc.replace(":", "-") or "-", *filter(None, clean))
    if parts.path.endswith("/") or not clean:
        path /= "index"
    query = f"-{digest([parts.query], length=8)}" if parts.query else ""
    return str(path.with_name(f"{path.stem}{query}{path.suffix or _ENDINGS.get(kind, '')}"))


def _describe(key: str, info: Mapping[str, Any]) -> RemoteFile:
    """Describe a file; it has no stamp if nothing but perhaps its size is known."""
    stamp = " ".join(f"{name}={info[name]}" for name in _STAMPS if info.get(name) not in (None, ""))
    return RemoteFile(key=key, stamp=stamp, size=info.get("size"))


def _read(files: Any, key: str, **options: int) -> Iterator[bytes]:
    with naming_failures(), files.open(key, "rb", **options) as opened:
        while part := opened.read(BYTES_AT_ONCE):
            yield part


@contextmanager
def naming_failures(what: str = "") -> Iterator[None]:
    """Raise ``ReadError`` with the reason for what fetching may raise, by whatever packages are loaded."""
    named = [error.rpartition(".") for error in _ERRORS]
    loaded = [getattr(sys.modules[module], name) for module, _, name in named if module in sys.modules]
    try:
        yield
    except BackstoryError:
        raise
    except (OSError, EOFError, NotImplementedError, ValueError, *loaded) as error:
        raise ReadError(f"{what}{describe_failure(error)}") from error


def describe_failure(error: Exception) -> str:
    """Return why something could not be fetched, without addresses, which may hold keys."""
    # fsspec reports every refusal in the web as a file that does not exist, caused by the actual error.
    for one in (error.__cause__, error):
        status = getattr(one, "status", None) or getattr(one, "code", None)
        if isinstance(status, int):
            return f"the service answered with status {status}"
        if isinstance(one, TimeoutError):
            return f"the service did not answer within {_SECONDS} seconds"
    known = error.__cause__ or error
    if isinstance(known, FileNotFoundError):
        return "it is not there"
    if isinstance(known, PermissionError):
        return "access is refused; check the credentials of the tool"
    return f"{getattr(known, 'strerror', None) or 'no further reason'} ({type(known).__name__})"
