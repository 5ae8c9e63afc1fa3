"""Google Drive as a remote place: picked files, and a folder with its subfolders and what shortcuts lead to."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import IO, Any, Final, NamedTuple, TypeAlias

from backstory.base.errors import ReadError
from backstory.base.extras import require_extra
from backstory.ingest.sources.addresses import copy_limited
from backstory.ingest.sources.drive_calls import GONE, DriveCalls
from backstory.ingest.sources.mirror import RemoteFile, RemoteListing

Entry: TypeAlias = Mapping[str, Any]
"""A file, folder or shortcut, as Drive describes it."""

_GOOGLE: Final = "application/vnd.google-apps."
_FOLDER: Final = f"{_GOOGLE}folder"
_SHORTCUT: Final = f"{_GOOGLE}shortcut"
_EXPORTS: Final[Mapping[str, tuple[str, str]]] = {
    f"{_GOOGLE}document": ("text/markdown", ".md"),
    f"{_GOOGLE}spreadsheet": ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", ".xlsx"),
    f"{_GOOGLE}presentation": ("application/pdf", ".pdf"),
}
"""What Google's own kinds are exported as, with the ending of the copy."""
_FIELDS: Final = "id,name,mimeType,modifiedTime,md5Checksum,size,trashed,driveId,shortcutDetails(targetId)"
_MOST_FOLDERS: Final = 10_000
_BYTES_AT_ONCE: Final = 1 << 20


class DriveRemote:
    """Picked files, or all files of a folder and its subfolders. The folders are listed at each fetch."""

    def __init__(self, files: Sequence[str], folder: str | None, calls: DriveCalls) -> None:
        """Set what is wanted; it sends no request yet.

        It raises ``MissingExtraError`` if the packages are not installed.
        """
        require_extra("drive", "a source of Google Drive", "download the files and name a local `path`")
        self._files = files
        self._folder = folder
        self._calls = calls
        self._kinds: dict[str, str] = {}

    def list_files(self) -> RemoteListing:
        """List the files; one that Drive cannot give as a document is refused.

        It raises ``ReadError`` if Drive cannot be asked, or the folder is not there, or is in the trash.
        """
        walk = _Walk(self._calls)
        if self._folder is None:
            walk.pick(self._files)
        else:
            walk.begin(self._folder)
        refused = dict(walk.refused)
        named = [(f"{place}{_name_copy(entry)}", entry) for place, entry in walk.found]
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
        for (place, entry), why in walk.ignored:
            path = f"{place}{_name_copy(entry)}"
            taken = path in files or path in refused or path in left_out
            left_out[_tell_apart(path, entry) if taken else path] = why
        return RemoteListing(files, refused, left_out)

    def download(self, file: RemoteFile, target: IO[bytes], most_bytes: int) -> None:
        """Write the content of a file, or what a file of Google's own kinds is exported as."""
        import requests

        kind = self._kinds[file.key]
        if kind in _EXPORTS:
            response = self._calls.get(f"files/{file.key}/export", {"mimeType": _EXPORTS[kind][0]})
        else:
            response = self._calls.get(f"files/{file.key}", {"alt": "media"})
        with closing(response):
            try:
                copy_limited(response.iter_content(_BYTES_AT_ONCE), target, most_bytes)
            except requests.RequestException as error:
                raise ReadError(f"the transfer was cut off ({type(error).__name__})") from error


class _Placed(NamedTuple):
    """An entry, and the folder in which it stands: empty, or the names of folders, each with a slash after it."""

    place: str
    entry: Entry


class _Walk:
    """One walk over files and folders, in which each stands once: shortcuts come after what lies in the folder."""

    def __init__(self, calls: DriveCalls) -> None:
        self.found: list[_Placed] = []
        self.ignored: list[tuple[_Placed, str]] = []
        self.refused: dict[str, str] = {}
        self._calls = calls
        self._read_as: dict[str, str] = {}
        self._folders = 0
        self._shortcuts: deque[_Placed] = deque()

    def pick(self, files: Sequence[str]) -> None:
        """Read single files, or that to which a shortcut leads."""
        for file_id in files:
            try:
                entry = self._describe(file_id)
            except ReadError as error:
                self.refused[file_id] = str(error)
                continue
            if entry["mimeType"] == _FOLDER:
                self.refused[file_id] = "it is a folder; name it as `folder`"
            elif entry["mimeType"] == _SHORTCUT:
                self._follow(_Placed("", entry))
            else:
                self._add(_Placed("", entry))
        self._follow_all()

    def begin(self, folder: str) -> None:
        """Read a folder, its subfolders, and what shortcuts in them lead to."""
        root = self._describe(folder)
        if root.get("mimeType") != _FOLDER:
            raise ReadError("`folder` names a file; name it in `files`", code="source_no_folder")
        if root.get("trashed"):
            raise ReadError(
                "the folder is in the trash of Drive; restore it, or remove the source if that is intended"
            )
        self._read_as[root["id"]] = ""
        self._descend(_Placed("", root))
        self._follow_all()

    def _describe(self, file_id: str) -> Entry:
        return self._calls.ask(f"files/{file_id}", {"fields": _FIELDS})

    def _descend(self, folder: _Placed) -> None:
        """Read a folder and its subfolders, and note the shortcuts in them."""
        waiting = deque([folder])
        shortcuts: list[_Placed] = []
        while waiting:
            place, current = waiting.popleft()
            self._folders += 1
            if self._folders > _MOST_FOLDERS:
                raise ReadError(f"it has more than {_MOST_FOLDERS:,} folders; name one that has fewer")
            for entry in sorted(self._list(current), key=lambda child: (child["name"], child["id"])):
                here = _Placed(place, entry)
                if entry["mimeType"] == _SHORTCUT:
                    shortcuts.append(here)
                elif entry["mimeType"] != _FOLDER:
                    self._add(here)
                elif self._claim(here):
                    waiting.append(_Placed(f"{place}{_clean(entry['name'])}/", entry))
        self._shortcuts += sorted(shortcuts, key=lambda one: (one.place, one.entry["name"], one.entry["id"]))

    def _list(self, folder: Entry) -> Iterator[Entry]:
        drive = str(folder.get("driveId", ""))
        query = {
            "q": f"'{folder['id']}' in parents and trashed = false",
            "fields": f"nextPageToken,files({_FIELDS})",
            "pageSize": "1000",
            "includeItemsFromAllDrives": "true",
            **({"corpora": "drive", "driveId": drive} if drive else {}),
        }
        while True:
            answer = self._calls.ask("files", query)
            yield from answer.get("files", [])
            if not answer.get("nextPageToken"):
                return
            query["pageToken"] = str(answer["nextPageToken"])

    def _follow_all(self) -> None:
        while self._shortcuts:
            self._follow(self._shortcuts.popleft())

    def _follow(self, shortcut: _Placed) -> None:
        target_id = str(shortcut.entry.get("shortcutDetails", {}).get("targetId", ""))
        if target_id in self._read_as:
            self.ignored.append((shortcut, self._say_where(target_id)))
            return
        try:
            target = _Placed(shortcut.place, self._describe(target_id))
        except ReadError as error:
            if error.code != GONE:
                raise
            target = shortcut
        kind = target.entry["mimeType"]
        if kind == _SHORTCUT:
            why = "the shortcut leads to nothing that is shared with the account which reads it"
            self.ignored.append((shortcut, why))
        elif kind != _FOLDER:
            self._add(target)
        elif target.entry.get("trashed"):
            self.ignored.append((shortcut, "the shortcut leads to the trash of Drive"))
        elif self._claim(target):
            self._descend(_Placed(f"{target.place}{_clean(target.entry['name'])}/", target.entry))

    def _add(self, file: _Placed) -> None:
        if file.entry.get("trashed"):
            self.ignored.append((file, "it is in the trash of Drive"))
        elif self._claim(file):
            self.found.append(file)

    def _claim(self, one: _Placed) -> bool:
        """Note that a file or folder is read here, unless it is read already."""
        key = one.entry["id"]
        if key in self._read_as:
            self.ignored.append((one, self._say_where(key)))
            return False
        self._read_as[key] = f"{one.place}{_clean(one.entry['name'])}"
        return True

    def _say_where(self, key: str) -> str:
        return f"it is read as {self._read_as[key] or 'the folder itself'}"


def _clean(name: str) -> str:
    """Make one part of a path of a name, which in Drive may hold anything."""
    plain = "".join(sign if sign.isprintable() and sign not in "/\\:" else "-" for sign in name).strip()
    return plain if plain.strip(".") else "unnamed"


def _name_copy(entry: Entry) -> str:
    ending = _EXPORTS.get(str(entry["mimeType"]), ("", ""))[1]
    name = _clean(str(entry["name"]))
    return name if name.lower().endswith(ending) else f"{name}{ending}"


def _tell_apart(path: str, entry: Entry) -> str:
    """Put the id of an entry before the ending of its path."""
    folder, _, name = path.rpartition("/")
    stem, dot, ending = name.rpartition(".")
    mark = f"-{_clean(str(entry['id']))}"
    return "/".join(filter(None, (folder, f"{stem}{mark}{dot}{ending}" if dot else f"{name}{mark}")))
