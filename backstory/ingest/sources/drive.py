"""Files of Google Drive as a remote place: what each is kept as, and how it is fetched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import IO, Any, Final

from backstory.base.errors import ReadError
from backstory.base.extras import require_extra
from backstory.ingest.sources.addresses import copy_limited
from backstory.ingest.sources.drive_calls import DriveCalls
from backstory.ingest.sources.drive_memory import MEMORY
from backstory.ingest.sources.drive_tree import DriveTree, clean
from backstory.ingest.sources.remote_files import RemoteFile, RemoteListing

_GOOGLE: Final = "application/vnd.google-apps."
_EXPORTS: Final[Mapping[str, tuple[str, str]]] = {
    f"{_GOOGLE}document": ("text/markdown", ".md"),
    f"{_GOOGLE}spreadsheet": ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", ".xlsx"),
    f"{_GOOGLE}presentation": ("application/pdf", ".pdf"),
}
"""What Google's own kinds are exported as, with the ending of the copy."""

_BYTES_AT_ONCE: Final = 1 << 20


class DriveRemote:
    """Picked files, or all files of a folder and its subfolders."""

    def __init__(self, files: Sequence[str], folder: str | None, mirror: Path, calls: DriveCalls) -> None:
        """Set what is wanted; it sends no request yet.

        It raises ``MissingExtraError`` if the packages are not installed.
        """
        require_extra("drive", "a source of Google Drive", "download the files and name a local `path`")
        self._files = files
        self._folder = folder
        self._calls = calls
        self._tree = DriveTree(calls, mirror / MEMORY)
        self._kinds: dict[str, str] = {}

    def list_files(self) -> RemoteListing:
        """List the files; one that Drive cannot give as a document is refused."""
        found, ignored, refused_ids = self._tree.read(self._files, self._folder)
        refused = dict(refused_ids)
        named = [(f"{place}{_name_copy(entry)}", entry) for place, entry in found]
        counts = Counter(path for path, _ in named)
        files: dict[str, RemoteFile] = {}
        for path, entry in named:
            # Drive allows several files of one name in one folder.
            target = path if counts[path] == 1 else _tell_apart(path, entry)
            kind = str(entry["mimeType"])
            if kind.startswith(_GOOGLE) and kind not in _EXPORTS:
                refused[target] = (
                    f"Drive gives no document of this kind ({kind.removeprefix(_GOOGLE)}); save it as one"
                )
                continue
            size = entry.get("size")
            stamp = f"{entry['modifiedTime']} {entry.get('md5Checksum', '')} {kind}"
            files[target] = RemoteFile(str(entry["id"]), stamp, None if size is None else int(size))
            self._kinds[str(entry["id"])] = kind
        left_out: dict[str, str] = {}
        for (place, entry), why in ignored:
            path = f"{place}{_name_copy(entry)}"
            taken = path in files or path in refused or path in left_out
            left_out[_tell_apart(path, entry) if taken else path] = why
        return RemoteListing(files, refused, left_out)

    def download(self, file: RemoteFile, target: IO[bytes], most_bytes: int) -> None:
        """Write the content of a file, or what a file of Google's own kinds is exported as."""
        kind = self._kinds[file.key]
        if kind in _EXPORTS:
            response = self._calls.get(f"files/{file.key}/export", {"mimeType": _EXPORTS[kind][0]})
        else:
            response = self._calls.get(f"files/{file.key}", {"alt": "media"})
        import requests

        with closing(response):
            try:
                copy_limited(response.iter_content(_BYTES_AT_ONCE), target, most_bytes)
            except requests.RequestException as error:
                raise ReadError(f"the transfer was cut off ({type(error).__name__})") from error


def _name_copy(entry: Mapping[str, Any]) -> str:
    ending = _EXPORTS.get(str(entry["mimeType"]), ("", ""))[1]
    name = clean(str(entry["name"]))
    return name if name.lower().endswith(ending) else f"{name}{ending}"


def _tell_apart(path: str, entry: Mapping[str, Any]) -> str:
    """Put the id of an entry before the ending of its path."""
    folder, _, name = path.rpartition("/")
    stem, dot, ending = name.rpartition(".")
    mark = f"-{clean(str(entry['id']))}"
    return "/".join(filter(None, (folder, f"{stem}{mark}{dot}{ending}" if dot else f"{name}{mark}")))
