"""Google Drive as a remote place: picked files, and a folder with its subfolders and what shortcuts lead to."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Final, TypeAlias

from backstory.base.errors import ReadError
from backstory.base.extras import require_extra
from backstory.ingest.sources.addresses import BYTES_AT_ONCE, naming_failures
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


class DriveRemote:
    """Picked files, or all files of a folder and its subfolders. The folders are listed at each fetch."""

    def __init__(self, files: Sequence[str], folder: str | None, calls: DriveCalls) -> None:
        require_extra("drive", "a source of Google Drive", "download the files and name a local `path`")
        self._files = files
        self._folder = folder
        self._calls = calls

    def list_files(self) -> RemoteListing:
        """List the files; one that Drive cannot give as a document is refused."""
        walk = _Walk(self._calls)
        refused = walk.pick(self._files) if self._folder is None else walk.begin(self._folder)
        walk.go_on()
        named = [(f"{place}{_name_copy(entry)}", entry) for place, entry in walk.found]
        counts = Counter(path for path, _ in named)
        files: dict[str, RemoteFile] = {}
        for path, entry in named:
            # Drive allows several files of one name in one folder.
            target = path if counts[path] == 1 else _tell_apart(path, entry)
            kind = str(entry["mimeType"])
            if kind.startswith(_GOOGLE) and kind not in _EXPORTS:
                what = kind.removeprefix(_GOOGLE)
                refused[target] = f"Drive gives no document of this kind ({what}); save it as one"
                continue
            stamp = f"{entry['modifiedTime']} {entry.get('md5Checksum', '')}"
            files[target] = RemoteFile(key=entry["id"], stamp=stamp, size=entry.get("size"), kind=kind)
        ignored: dict[str, str] = {}
        for place, entry, why in walk.ignored:
            path = f"{place}{_name_copy(entry)}"
            is_taken = path in files or path in refused or path in ignored
            ignored[_tell_apart(path, entry) if is_taken else path] = why
        return RemoteListing(files=files, refused=refused, ignored=ignored)

    def read(self, file: RemoteFile) -> Iterator[bytes]:
        """Read the content of a file, or what a file of Google's own kinds is exported as."""
        if file.kind in _EXPORTS:
            response = self._calls.get(f"files/{file.key}/export", {"mimeType": _EXPORTS[file.kind][0]})
        else:
            response = self._calls.get(f"files/{file.key}", {"alt": "media"})
        with closing(response), naming_failures():
            yield from response.iter_content(BYTES_AT_ONCE)


class _Walk:
    """One walk over files and folders, in which each stands once: shortcuts come after what lies in the folder.

    The place of an entry is the folder in which it stands: empty, or the names of folders, each with a slash after it.
    """

    def __init__(self, calls: DriveCalls) -> None:
        self.found: list[tuple[str, Entry]] = []
        self.ignored: list[tuple[str, Entry, str]] = []
        self._calls = calls
        self._read_as: dict[str, str] = {}
        self._folders: deque[tuple[str, Entry]] = deque()
        self._shortcuts: deque[tuple[str, Entry]] = deque()

    def pick(self, files: Sequence[str]) -> dict[str, str]:
        """Begin with single files; return those that cannot be read."""
        refused: dict[str, str] = {}
        for file_id in files:
            try:
                entry = self._describe(file_id)
            except ReadError as error:
                refused[file_id] = str(error)
                continue
            if entry["mimeType"] == _FOLDER:
                refused[file_id] = "it is a folder; name it as `folder`"
            else:
                self._take("", entry)
        return refused

    def begin(self, folder: str) -> dict[str, str]:
        """Begin with a folder."""
        root = self._describe(folder)
        if root["mimeType"] != _FOLDER:
            raise ReadError("`folder` names a file; name it in `files`", code="source_no_folder")
        if root.get("trashed"):
            raise ReadError(
                "the folder is in the trash of Drive; restore it, or remove the source if that is intended"
            )
        self._read_as[root["id"]] = "the folder itself"
        self._folders.append(("", root))
        return {}

    def go_on(self) -> None:
        """Read the folders, their subfolders, and what shortcuts lead to."""
        listed = 0
        while self._folders or self._shortcuts:
            if not self._folders:
                self._follow(*self._shortcuts.popleft())
                continue
            place, folder = self._folders.popleft()
            listed += 1
            if listed > _MOST_FOLDERS:
                raise ReadError(f"it has more than {_MOST_FOLDERS:,} folders; name one that has fewer")
            for entry in sorted(self._list(folder), key=lambda child: (child["name"], child["id"])):
                self._take(place, entry)

    def _describe(self, file_id: str) -> Entry:
        return self._calls.ask(f"files/{file_id}", {"fields": _FIELDS})

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

    def _take(self, place: str, entry: Entry) -> None:
        """Note an entry where it stands, unless it is read already."""
        path = f"{place}{_clean(entry['name'])}"
        if entry["mimeType"] == _SHORTCUT:
            self._shortcuts.append((place, entry))
        elif entry.get("trashed"):
            self.ignored.append((place, entry, "it is in the trash of Drive"))
        elif entry["id"] in self._read_as:
            self.ignored.append((place, entry, f"it is read as {self._read_as[entry['id']]}"))
        else:
            self._read_as[entry["id"]] = path
            if entry["mimeType"] == _FOLDER:
                self._folders.append((f"{path}/", entry))
            else:
                self.found.append((place, entry))

    def _follow(self, place: str, shortcut: Entry) -> None:
        target_id = str(shortcut.get("shortcutDetails", {}).get("targetId", ""))
        if target_id in self._read_as:
            self.ignored.append((place, shortcut, f"it is read as {self._read_as[target_id]}"))
            return
        try:
            target = self._describe(target_id)
        except ReadError as error:
            if error.code != GONE:
                raise
            target = shortcut
        if target["mimeType"] == _SHORTCUT:
            why = "the shortcut leads to nothing that is shared with the account which reads it"
            self.ignored.append((place, shortcut, why))
        else:
            self._take(place, target)


def _clean(name: str) -> str:
    """Make one part of a path of a name, which in Drive may hold anything."""
    plain = "".join(sign if sign.isprintable() and sign not in "/\\:" else "-" for sign in name).strip()
    return plain if plain.strip(".") else "unnamed"


def _name_copy(entry: Entry) -> str:
    ending = _EXPORTS.get(entry["mimeType"], ("", ""))[1]
    name = _clean(entry["name"])
    return name if name.lower().endswith(ending) else f"{name}{ending}"


def _tell_apart(path: str, entry: Entry) -> str:
    """Put the id of an entry before the ending of its path."""
    folder, slash, name = path.rpartition("/")
    stem, dot, ending = name.rpartition(".")
    mark = f"-{_clean(entry['id'])}"
    return f"{folder}{slash}{stem}{mark}{dot}{ending}" if dot else f"{path}{mark}"
