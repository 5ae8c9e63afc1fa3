"""Files of a place that an address names: a bucket, a folder or an archive by fsspec, or pages of the web by a list."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from backstory.base.environment import BUCKET_VARIABLE
from backstory.base.errors import BackstoryError, ReadError, SettingsError
from backstory.base.extras import require_extra
from backstory.base.ids import digest
from backstory.ingest.sources.mirror import RemoteFile, RemoteListing
from backstory.ingest.zips import leads_out
from backstory.settings.inputs import find_credential

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
            # Not kept by fsspec for whoever names the same place with other credentials.
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
    # fsspec tells of every refusal in the web as of a file that does not exist, and names the cause beside it.
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
