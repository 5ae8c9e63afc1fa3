"""Interface of a remote place whose files a mirror copies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO, Protocol


@dataclass(frozen=True)
class RemoteFile:
    """One file of a place elsewhere.

    Attributes:
        key: What the place calls it.
        stamp: Changes when its content does; empty if the place tells nothing, so that it is fetched each time.
        size: Its size in bytes, if it is known.
    """

    key: str
    stamp: str
    size: int | None = None


@dataclass(frozen=True)
class RemoteListing:
    """The files of a place.

    Attributes:
        files: By the path under which each is kept.
        refused: Why an entry cannot be fetched, by path, or by key if its name is not known.
        ignored: Why an entry is not to be fetched, by path.
    """

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
