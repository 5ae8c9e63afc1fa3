"""Google Drive as a remote place: picked files, and a folder with its subfolders and what shortcuts lead to.

Calls are made by ``google-auth`` alone, since ``google-api-python-client`` brings 114 MB of descriptions of every other
API.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cached_property, partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from backstory.base.environment import DRIVE_VARIABLE, Keys, find_key
from backstory.base.errors import ReadError, TransientError, retry
from backstory.base.extras import require_extra
from backstory.ingest.sources.remotes import BYTES_AT_ONCE, RemoteFile, RemoteListing, naming_failures

if TYPE_CHECKING:
    import requests

Entry: TypeAlias = Mapping[str, Any]
"""A file, folder or shortcut, as Drive describes it."""

ADDRESS: Final = "https://www.googleapis.com/drive/v3"
READING_SCOPE: Final = "https://www.googleapis.com/auth/drive.readonly"
"""What an account or a person permits: to read a Drive, and nothing else."""
_GONE: Final = "source_gone"
"""Code of the error of a call for what is not there or not shared, which Drive does not tell apart."""
_TRANSIENT: Final = (408, 429, 500, 502, 503, 504)
_LIMITS: Final = frozenset(["rateLimitExceeded", "userRateLimitExceeded"])
_SECONDS: Final = 60
_ATTEMPTS: Final = 5

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


class DriveRemote:
    """Picked files, and all files of a folder and its subfolders. The folders are listed at each fetch."""

    def __init__(self, files: Sequence[str], folder: str | None, keys: Keys | None) -> None:
        require_extra("drive", "a source of Google Drive", "download the files and name a local `path`")
        self._files = files
        self._folder = folder
        self._keys = keys

    def list_files(self) -> RemoteListing:
        """List the files; one that Drive cannot give as a document is refused."""
        walk = _Walk(self._ask)
        failed = walk.go(self._files, self._folder)
        files: dict[str, RemoteFile] = {}
        ignored: dict[str, str] = {}
        counts = Counter(path for path, _, why in walk.found if not why)
        for path, entry, why in walk.found:
            kind, whole = str(entry["mimeType"]), PurePosixPath(path)
            # Drive allows several files of one name in one folder.
            is_alone = path not in counts and path not in ignored if why else counts[path] == 1
            apart = whole.with_name(f"{whole.stem}-{_clean(entry['id'])}{whole.suffix}")
            target = path if is_alone else str(apart)
            if why:
                ignored[target] = why
            elif kind.startswith(_GOOGLE) and kind not in _EXPORTS:
                what = kind.removeprefix(_GOOGLE)
                failed[target] = f"Drive gives no document of this kind ({what}); save it as one"
            else:
                stamp = f"{entry['modifiedTime']} {entry.get('md5Checksum', '')}"
                files[target] = RemoteFile(key=entry["id"], stamp=stamp, size=entry.get("size"), kind=kind)
        return RemoteListing(files=files, failed=failed, ignored=ignored)

    def read(self, file: RemoteFile) -> Iterator[bytes]:
        """Read the content of a file, or what a file of Google's own kinds is exported as."""
        if file.kind in _EXPORTS:
            response = self._get(f"files/{file.key}/export", {"mimeType": _EXPORTS[file.kind][0]})
        else:
            response = self._get(f"files/{file.key}", {"alt": "media"})
        with closing(response), naming_failures():
            yield from response.iter_content(BYTES_AT_ONCE)

    def _ask(self, call: str, parameters: Mapping[str, str]) -> Entry:
        """Make a call whose answer is an object of JSON."""
        with closing(self._get(call, parameters)) as response, naming_failures("Drive gave no JSON: "):
            answer = response.json()
            if not isinstance(answer, dict):
                raise ReadError("Drive gave an answer that is no object of JSON")
            return answer

    def _get(self, call: str, parameters: Mapping[str, str]) -> requests.Response:
        """Make a call, again where that may help. The caller closes the response."""
        try:
            return retry(partial(self._get_once, call, parameters), _ATTEMPTS)
        except TransientError as error:
            raise ReadError(f"{error}, {_ATTEMPTS} times in a row") from error

    def _get_once(self, call: str, parameters: Mapping[str, str]) -> requests.Response:
        import requests
        from google.auth.exceptions import GoogleAuthError, TransportError

        query = {"supportsAllDrives": "true", **parameters}
        try:
            response = self._session.get(
                f"{ADDRESS}/{call}", params=query, stream=True, timeout=_SECONDS, allow_redirects=False
            )
        except (TransportError, requests.RequestException) as error:
            raise TransientError(f"Google could not be reached ({type(error).__name__})") from error
        except ReadError:
            raise
        except (ValueError, GoogleAuthError) as error:
            raise ReadError(
                f"there are no credentials of Google, or it refused them ({type(error).__name__}); sign in or store "
                "them again, or set GOOGLE_APPLICATION_CREDENTIALS to the file of a service account with which the "
                "files are shared"
            ) from None  # the message may quote the key
        if response.status_code == requests.codes.ok:
            return response
        with closing(response):
            raise _interpret(response)

    @cached_property
    def _session(self) -> requests.Session:
        """What makes calls, with the credentials of a workspace or of the environment."""
        import google.auth
        from google.auth.transport.requests import AuthorizedSession
        from google.oauth2.credentials import Credentials
        from google.oauth2.service_account import Credentials as ServiceAccount

        stored = find_key(DRIVE_VARIABLE, self._keys)
        known = {} if stored is None else json.loads(stored.get_secret_value())
        credentials: Any
        if known.get("type") == "service_account":
            credentials = ServiceAccount.from_service_account_info(known, scopes=[READING_SCOPE])  # type: ignore[no-untyped-call]
        elif known:
            credentials = Credentials.from_authorized_user_info(known, scopes=[READING_SCOPE])  # type: ignore[no-untyped-call]
            # The library reads only Google's own address from such an object.
            if "token_uri" in known:
                credentials = credentials.with_token_uri(known["token_uri"])
        elif self._keys is not None:
            raise ReadError(
                "this tenant has no credentials of Google; store the JSON of a service account with which the files "
                f"are shared by `backstory serve key set TENANT {DRIVE_VARIABLE}`"
            )
        else:
            credentials, _ = google.auth.default(scopes=[READING_SCOPE])
        session: requests.Session = AuthorizedSession(credentials)  # type: ignore[no-untyped-call]
        return session


class _Walk:
    """One walk over files and folders, in which each stands once: shortcuts come after what lies in the folder.

    The place of an entry is the folder in which it stands: empty, or the names of folders, each with a slash after it.
    """

    def __init__(self, ask: Callable[[str, Mapping[str, str]], Entry]) -> None:
        self.found: list[tuple[str, Entry, str]] = []
        """Each file by the path of its copy, and why it is not read there; empty if it is."""
        self._ask = ask
        self._read_as: dict[str, str] = {}
        self._folders: deque[tuple[str, Entry]] = deque()
        self._shortcuts: deque[tuple[str, Entry]] = deque()

    def go(self, files: Sequence[str], folder: str | None) -> dict[str, str]:
        """Walk over a folder, picked files, and what shortcuts lead to; return the picked files that cannot be read."""
        failed: dict[str, str] = {}
        if folder is not None:
            root = self._describe(folder)
            if root["mimeType"] != _FOLDER:
                raise ReadError("`folder` names a file; name it in `files`", code="source_no_folder")
            if root.get("trashed"):
                raise ReadError(
                    "the folder is in the trash of Drive; restore it, or remove the source if that is intended"
                )
            self._read_as[root["id"]] = "the folder itself"
            self._folders.append(("", root))
        for file_id in files:
            try:
                self._take("", self._describe(file_id))
            except ReadError as error:
                failed[file_id] = str(error)
        while self._folders or self._shortcuts:
            if self._folders:
                place, below = self._folders.popleft()
                for entry in sorted(self._list(below), key=lambda child: (child["name"], child["id"])):
                    self._take(place, entry)
            else:
                self._follow(*self._shortcuts.popleft())
        return failed

    def _describe(self, file_id: str) -> Entry:
        return self._ask(f"files/{file_id}", {"fields": _FIELDS})

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
            answer = self._ask("files", query)
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
            self._note(place, entry, "it is in the trash of Drive")
        elif entry["id"] in self._read_as:
            self._note(place, entry, f"it is read as {self._read_as[entry['id']]}")
        else:
            self._read_as[entry["id"]] = path
            if entry["mimeType"] == _FOLDER:
                self._folders.append((f"{path}/", entry))
            else:
                self._note(place, entry)

    def _follow(self, place: str, shortcut: Entry) -> None:
        target_id = str(shortcut.get("shortcutDetails", {}).get("targetId", ""))
        if target_id in self._read_as:
            self._note(place, shortcut, f"it is read as {self._read_as[target_id]}")
            return
        try:
            target = self._describe(target_id)
        except ReadError as error:
            if error.code != _GONE:
                raise
            target = shortcut
        if target["mimeType"] == _SHORTCUT:
            why = "the shortcut leads to nothing that is shared with the account which reads it"
            self._note(place, shortcut, why)
        else:
            self._take(place, target)

    def _note(self, place: str, entry: Entry, why: str = "") -> None:
        name, ending = _clean(entry["name"]), _EXPORTS.get(entry["mimeType"], ("", ""))[1]
        path = f"{place}{name}" if name.lower().endswith(ending) else f"{place}{name}{ending}"
        self.found.append((path, entry, why))


def _clean(name: str) -> str:
    """Make one part of a path of a name, which in Drive may hold anything."""
    plain = "".join(sign if sign.isprintable() and sign not in "/\\:" else "-" for sign in name).strip()
    return plain if plain.strip(".") else "unnamed"


def _interpret(response: requests.Response) -> Exception:
    """Interpret a refused call; what the service wrote is not repeated."""
    try:
        reasons = {str(each.get("reason")) for each in response.json()["error"]["errors"]}
    except (ValueError, KeyError, TypeError, AttributeError):
        reasons = set()
    status = response.status_code
    if status in _TRANSIENT or reasons & _LIMITS:
        wait = response.headers.get("Retry-After", "")
        delay = float(wait) if wait.replace(".", "", 1).isdigit() else None
        return TransientError(f"Drive answered with status {status}", delay)
    if "exportSizeLimitExceeded" in reasons:
        return ReadError("Drive exports no document of more than 10 MB; download it and name a local `path`")
    if status in (401, 403):
        return ReadError(
            f"Drive refused access (status {status}); share the file with the account that reads it"
        )
    return ReadError(f"Drive answered with status {status}", code=_GONE if status in (404, 410) else None)
