"""What picked files and a folder of Google Drive hold, from what is known of it and what has changed since.

A folder is walked in memory. Only what the walk needs and nobody knows is asked for: everything at first, and later
the folders that came to it. So a walk after changes finds what a first walk would find.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from backstory.base.errors import ReadError
from backstory.ingest.sources.drive_calls import GONE, INVALID, DriveCalls
from backstory.ingest.sources.drive_memory import DriveMemory, Entry, read_memory, write_memory

logger = logging.getLogger(__name__)

FOLDER: Final = "application/vnd.google-apps.folder"
_SHORTCUT: Final = "application/vnd.google-apps.shortcut"
_FIELDS: Final = (
    "id,name,mimeType,modifiedTime,md5Checksum,size,trashed,parents,driveId,shortcutDetails(targetId)"
)
_PAGE: Final = "1000"
_MOST_FOLDERS: Final = 10_000


class Placed(NamedTuple):
    """An entry, and the folder in which it stands: empty, or the names of folders, each with a slash after it."""

    place: str
    entry: Entry


class DriveContent(NamedTuple):
    """What was found.

    Attributes:
        found: The files.
        ignored: Shortcuts and files that are not read here, and why.
        refused: Why a picked file cannot be read, by its id.
    """

    found: Sequence[Placed]
    ignored: Sequence[tuple[Placed, str]]
    refused: Mapping[str, str]


class DriveTree:
    """The picked files, and a folder with its subfolders and what shortcuts lead to. Each file stands in it once."""

    def __init__(self, calls: DriveCalls, memory: Path) -> None:
        """Set what makes the calls; it sends no request yet."""
        self._calls = calls
        self._memory = memory

    def read(self, files: Sequence[str], folder: str | None) -> DriveContent:
        """Find all files. A folder without changes costs two calls: for itself, and for its changes.

        It raises ``ReadError`` if Drive cannot be asked, or the folder is not there, or is in the trash.
        """
        walk = _Walk(self._calls)
        if folder is None:
            walk.pick(files)
            return walk.content()
        root = self._calls.ask(f"files/{folder}", {"fields": _FIELDS})
        if root.get("mimeType") != FOLDER:
            raise ReadError("`folder` names a file; name it in `files`", code="source_no_folder")
        if root.get("trashed"):
            raise ReadError(
                "the folder is in the trash of Drive; restore it, or remove the source if that is intended"
            )
        memory = self._learn(str(root["id"]), str(root.get("driveId", "")))
        walk.know(memory)
        walk.pick(files)
        walk.begin(root)
        write_memory(self._memory, walk.remember(memory))
        return walk.content()

    def _learn(self, folder: str, drive: str) -> DriveMemory:
        """Bring what is known up to date, or begin with nothing and the token of the changes from now on."""
        place = (folder, drive, self._calls.account)
        memory = read_memory(self._memory)
        if memory.token and memory.place == place:
            try:
                return _apply_changes(self._calls, memory, drive)
            except ReadError as error:
                if error.code not in (GONE, INVALID):
                    raise
                logger.warning("listing a folder of Drive as a whole: its page token is gone (%s)", error)
        # The token comes first: what changes during the listing is then listed, or among the changes, or both.
        answer = self._calls.ask("changes/startPageToken", _name_drive(drive))
        return DriveMemory(place, _require_text(answer, "startPageToken"))


class _Walk:
    """One walk over what is known, which asks for what is missing."""

    def __init__(self, calls: DriveCalls) -> None:
        self._calls = calls
        self._drive: str | None = None
        self._entries: dict[str, Entry] = {}
        self._children: dict[str, list[Entry]] = {}
        self._listed: set[str] = set()
        self._read_as: dict[str, str] = {}
        self._met: dict[str, Entry] = {}
        self._folders: set[str] = set()
        self._shortcuts: deque[Placed] = deque()
        self._found: list[Placed] = []
        self._ignored: list[tuple[Placed, str]] = []
        self._refused: dict[str, str] = {}

    def know(self, memory: DriveMemory) -> None:
        """Take over what is known."""
        self._drive = memory.place[1]
        self._entries.update(memory.entries)
        self._listed.update(memory.listed)
        for entry in memory.entries.values():
            for parent in entry.get("parents", ()):
                self._children.setdefault(parent, []).append(entry)

    def remember(self, memory: DriveMemory) -> DriveMemory:
        """Return what the changes keep up to date: what the walk met, and lies in the drive of the folder."""
        entries = {key: entry for key, entry in self._met.items() if self._is_followed(entry)}
        return DriveMemory(
            memory.place, memory.token, entries, tuple(sorted(self._folders & self._listed & entries.keys()))
        )

    def content(self) -> DriveContent:
        """Return what was found."""
        return DriveContent(self._found, self._ignored, self._refused)

    def pick(self, files: Sequence[str]) -> None:
        """Read single files, or that to which a shortcut leads."""
        for file_id in files:
            try:
                entry = self._calls.ask(f"files/{file_id}", {"fields": _FIELDS})
            except ReadError as error:
                self._refused[file_id] = str(error)
                continue
            if entry["mimeType"] == FOLDER:
                self._refused[file_id] = "it is a folder; name it as `folder`"
            elif entry["mimeType"] == _SHORTCUT:
                self._follow(Placed("", entry))
            else:
                self._add(Placed("", entry))
        self._follow_all()

    def begin(self, root: Entry) -> None:
        """Read a folder, its subfolders, and what shortcuts in them lead to."""
        self._met[root["id"]] = root
        self._read_as[root["id"]] = ""
        self._descend("", root)
        self._follow_all()

    def _descend(self, place: str, folder: Entry) -> None:
        """Read a folder and its subfolders, and note the shortcuts in them."""
        waiting = deque([Placed(place, folder)])
        shortcuts: list[Placed] = []
        while waiting:
            place, current = waiting.popleft()
            self._folders.add(current["id"])
            if len(self._folders) > _MOST_FOLDERS:
                raise ReadError(f"it has more than {_MOST_FOLDERS:,} folders; name one that has fewer")
            for entry in self._list(current):
                self._met[entry["id"]] = entry
                if entry["mimeType"] == _SHORTCUT:
                    shortcuts.append(Placed(place, entry))
                elif entry["mimeType"] != FOLDER:
                    self._add(Placed(place, entry))
                elif self._claim(Placed(place, entry)):
                    waiting.append(Placed(f"{place}{clean(entry['name'])}/", entry))
        self._shortcuts += sorted(shortcuts, key=lambda one: (one.place, one.entry["name"], one.entry["id"]))

    def _follow_all(self) -> None:
        """Read what shortcuts lead to, after everything that lies in the folder itself."""
        while self._shortcuts:
            self._follow(self._shortcuts.popleft())

    def _follow(self, shortcut: Placed) -> None:
        place, entry = shortcut
        target_id = str(entry.get("shortcutDetails", {}).get("targetId", ""))
        if target_id in self._read_as:
            self._ignored.append((shortcut, self._say_where(target_id)))
            return
        target = self._find(target_id)
        if target is None or target["mimeType"] == _SHORTCUT:
            why = "the shortcut leads to nothing that is shared with the account which reads it"
            self._ignored.append((shortcut, why))
            return
        here = Placed(place, target)
        if target["mimeType"] != FOLDER:
            self._add(here)
        elif not target.get("trashed") and self._claim(here):
            self._descend(f"{place}{clean(target['name'])}/", target)
        else:
            self._ignored.append((shortcut, "the shortcut leads to the trash of Drive"))

    def _find(self, target: str) -> Entry | None:
        """Find the target of a shortcut; None if it is gone, or not shared."""
        entry = self._entries.get(target)
        if entry is None:
            try:
                entry = self._calls.ask(f"files/{target}", {"fields": _FIELDS})
            except ReadError as error:
                if error.code != GONE:
                    raise
                return None
        if not entry.get("trashed"):
            self._met[target] = entry
        return entry

    def _add(self, file: Placed) -> None:
        if file.entry.get("trashed"):
            self._ignored.append((file, "it is in the trash of Drive"))
        elif self._claim(file):
            self._found.append(file)

    def _claim(self, one: Placed) -> bool:
        """Note that a file or folder is read here, unless it is read already."""
        key = one.entry["id"]
        if key in self._read_as:
            self._ignored.append((one, self._say_where(key)))
            return False
        self._read_as[key] = f"{one.place}{clean(one.entry['name'])}"
        return True

    def _say_where(self, key: str) -> str:
        return f"it is read as {self._read_as[key] or 'the folder itself'}"

    def _is_followed(self, entry: Entry) -> bool:
        return str(entry.get("driveId", "")) == self._drive

    def _list(self, entry: Entry) -> list[Entry]:
        """Return the children of a folder, sorted."""
        folder = entry["id"]
        if folder not in self._listed:
            self._children[folder] = list(_list_folder(self._calls, folder, str(entry.get("driveId", ""))))
            self._listed.add(folder)
            self._entries |= {child["id"]: child for child in self._children[folder]}
        return sorted(self._children.get(folder, ()), key=lambda child: (child["name"], child["id"]))


def clean(name: str) -> str:
    """Make one part of a path of a name, which in Drive may hold anything."""
    plain = "".join(sign if sign.isprintable() and sign not in "/\\:" else "-" for sign in name).strip()
    return plain if plain.strip(".") else "unnamed"


def _apply_changes(calls: DriveCalls, memory: DriveMemory, drive: str) -> DriveMemory:
    """Apply what has changed since the token. What the folder does not hold any more is left to the walk."""
    entries, listed = dict(memory.entries), frozenset(memory.listed)
    token = memory.token
    while True:
        answer = calls.ask(
            "changes",
            {
                "pageToken": token,
                "pageSize": _PAGE,
                "includeItemsFromAllDrives": "true",
                "includeRemoved": "true",
                "fields": f"nextPageToken,newStartPageToken,changes(fileId,removed,file({_FIELDS}))",
                **_name_drive(drive),
            },
        )
        for change in answer.get("changes", ()):
            key, entry = change.get("fileId"), change.get("file") or {}
            if change.get("removed") or entry.get("trashed"):
                entries.pop(key, None)
            elif entry and (key in entries or not listed.isdisjoint(entry.get("parents", ()))):
                entries[key] = entry
        if "nextPageToken" not in answer:
            return DriveMemory(
                memory.place, _require_text(answer, "newStartPageToken"), entries, tuple(listed)
            )
        token = str(answer["nextPageToken"])


def _list_folder(calls: DriveCalls, folder: str, drive: str) -> Iterator[Entry]:
    page: dict[str, str] = {}
    while True:
        query = {
            "q": f"'{folder}' in parents and trashed = false",
            "fields": f"nextPageToken,files({_FIELDS})",
            "pageSize": _PAGE,
            "includeItemsFromAllDrives": "true",
            **({"corpora": "drive", **_name_drive(drive)} if drive else {}),
            **page,
        }
        answer = calls.ask("files", query)
        yield from answer.get("files", [])
        if not answer.get("nextPageToken"):
            return
        page = {"pageToken": str(answer["nextPageToken"])}


def _name_drive(drive: str) -> dict[str, str]:
    return {"driveId": drive} if drive else {}


def _require_text(answer: Mapping[str, Any], name: str) -> str:
    text = answer.get(name)
    if not isinstance(text, str) or not text:
        raise ReadError("Drive's answer has an unexpected form; try again later")
    return text
