"""Files of Google Drive, by the calls of its API (version 3) that list, export and download.

The four calls are made by ``google-auth`` alone, since ``google-api-python-client`` brings 114 MB of descriptions of
every other API.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import IO, TYPE_CHECKING, Any, Final

from backstory.base.errors import SourceError
from backstory.base.extras import require_extra
from backstory.base.retry import TransientError
from backstory.ingest.sources.addresses import copy_limited
from backstory.ingest.sources.remote_files import RemoteFile, RemoteListing

if TYPE_CHECKING:
    import requests

ADDRESS: Final = "https://www.googleapis.com/drive/v3"

_SCOPE: Final = "https://www.googleapis.com/auth/drive.readonly"
_FOLDER: Final = "application/vnd.google-apps.folder"
_GOOGLE: Final = "application/vnd.google-apps."
_EXPORTS: Final[Mapping[str, tuple[str, str]]] = {
    f"{_GOOGLE}document": ("text/markdown", ".md"),
    f"{_GOOGLE}spreadsheet": ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", ".xlsx"),
    f"{_GOOGLE}presentation": ("application/pdf", ".pdf"),
}
"""What Google's own kinds are exported as, with the ending of the copy."""

_FIELDS: Final = "id,name,mimeType,modifiedTime,md5Checksum,size,trashed"
_TRANSIENT: Final = (408, 429, 500, 502, 503, 504)
_LIMITS: Final = ("rateLimitExceeded", "userRateLimitExceeded")
_SECONDS: Final = 60
_ATTEMPTS: Final = 5
_BYTES_AT_ONCE: Final = 1 << 20
_MOST_FOLDERS: Final = 10_000


class DriveRemote:
    """Picked files, or all files of a folder and its subfolders."""

    def __init__(
        self,
        files: Sequence[str],
        folder: str | None,
        *,
        address: str = ADDRESS,
        session: requests.Session | None = None,
    ) -> None:
        """Set what is wanted; it sends no request yet.

        Args:
            files: Ids of files.
            folder: Id of a folder.
            address: Address of the API.
            session: What makes the calls; None for one with the credentials of the environment.

        Raises:
            MissingExtraError: The packages are not installed.
            SourceError: The environment holds no credentials.
        """
        require_extra("drive", "a source of Google Drive", "download the files and name a local `path`")
        self._files = files
        self._folder = folder
        self._address = address
        self._session = session
        self._kinds: dict[str, str] = {}

    def list_files(self) -> RemoteListing:
        """List the files; one that Drive cannot give as a document is refused."""
        found: list[tuple[str, Mapping[str, Any]]] = []
        refused: dict[str, str] = {}
        for file_id in self._files:
            try:
                found.append(("", self._ask(f"files/{file_id}", {"fields": _FIELDS})))
            except SourceError as error:
                refused[file_id] = str(error)
        if self._folder is not None:
            found += self._walk(self._folder)
        named = [(f"{place}{_name_copy(entry)}", entry) for place, entry in found if not entry.get("trashed")]
        counts = Counter(path for path, _ in named)
        files: dict[str, RemoteFile] = {}
        for path, entry in named:
            # Drive allows several files of one name in one folder.
            target = path if counts[path] == 1 else _put_before_ending(path, f"-{_clean(str(entry['id']))}")
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
        return RemoteListing(files, refused)

    def download(self, file: RemoteFile, target: IO[bytes], most_bytes: int) -> None:
        """Write the content of a file, or what a file of Google's own kinds is exported as."""
        kind = self._kinds[file.key]
        if kind in _EXPORTS:
            response = self._get(f"files/{file.key}/export", {"mimeType": _EXPORTS[kind][0]})
        else:
            response = self._get(f"files/{file.key}", {"alt": "media"})
        import requests

        with closing(response):
            try:
                copy_limited(response.iter_content(_BYTES_AT_ONCE), target, most_bytes)
            except requests.RequestException as error:
                raise SourceError(f"the transfer was cut off ({type(error).__name__})") from error

    def _walk(self, folder: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        waiting = deque([("", folder)])
        known = {folder}
        while waiting:
            place, current = waiting.popleft()
            for entry in self._list_folder(current):
                if entry["mimeType"] != _FOLDER:
                    yield place, entry
                elif entry["id"] not in known:
                    known.add(entry["id"])
                    waiting.append((f"{place}{_clean(entry['name'])}/", entry["id"]))
            if len(known) > _MOST_FOLDERS:
                raise SourceError(f"it has more than {_MOST_FOLDERS:,} folders; name one that has fewer")

    def _list_folder(self, folder: str) -> Iterator[Mapping[str, Any]]:
        page = ""
        while True:
            query = {
                "q": f"'{folder}' in parents and trashed = false",
                "fields": f"nextPageToken,files({_FIELDS})",
                "pageSize": "1000",
                "orderBy": "name",
                "includeItemsFromAllDrives": "true",
                **({"pageToken": page} if page else {}),
            }
            answer = self._ask("files", query)
            yield from answer.get("files", [])
            page = str(answer.get("nextPageToken", ""))
            if not page:
                return

    def _ask(self, call: str, parameters: Mapping[str, str]) -> Mapping[str, Any]:
        with closing(self._get(call, parameters)) as response:
            try:
                answer = response.json()
            except ValueError as error:
                raise SourceError("Drive gave an answer that is not JSON; try again later") from error
        if not isinstance(answer, dict):
            raise SourceError("Drive gave an answer of another form; try again later")
        return answer

    def _get(self, call: str, parameters: Mapping[str, str]) -> requests.Response:
        """Make a call, again where a retry may succeed."""
        import tenacity

        from backstory.base.retry import choose_delay

        attempts = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(TransientError),
            wait=choose_delay,
            stop=tenacity.stop_after_attempt(_ATTEMPTS),
            reraise=True,
        )
        try:
            return attempts(self._get_once, call, parameters)
        except TransientError as error:
            raise SourceError(f"{error}, {_ATTEMPTS} times in a row") from error

    def _get_once(self, call: str, parameters: Mapping[str, str]) -> requests.Response:
        import google.auth.exceptions
        import requests

        if self._session is None:
            self._session = _open_session()
        query = {"supportsAllDrives": "true", **parameters}
        try:
            response = self._session.get(
                f"{self._address}/{call}", params=query, stream=True, timeout=_SECONDS, allow_redirects=False
            )
        except google.auth.exceptions.GoogleAuthError as error:
            raise SourceError(
                f"Google refused the credentials of the environment ({type(error).__name__}); sign in again"
            ) from error
        except requests.RequestException as error:
            raise TransientError(f"Drive could not be reached ({type(error).__name__})") from error
        if response.status_code == requests.codes.ok:
            return response
        with closing(response):
            raise _interpret(response)


def _open_session() -> requests.Session:
    import google.auth
    import google.auth.exceptions
    from google.auth.transport.requests import AuthorizedSession

    try:
        credentials, _ = google.auth.default(scopes=[_SCOPE])
    except google.auth.exceptions.GoogleAuthError as error:
        raise SourceError(
            "the environment holds no credentials of Google; set GOOGLE_APPLICATION_CREDENTIALS to the file of a "
            "service account with which the files are shared"
        ) from error
    session: requests.Session = AuthorizedSession(credentials)  # type: ignore[no-untyped-call]
    return session


def _interpret(response: requests.Response) -> Exception:
    """Interpret a refused call; what the service wrote is not repeated."""
    try:
        reasons = [str(each.get("reason")) for each in response.json()["error"]["errors"]]
    except (ValueError, KeyError, TypeError, AttributeError):
        reasons = []
    status = response.status_code
    if status in _TRANSIENT or any(reason in _LIMITS for reason in reasons):
        wait = response.headers.get("Retry-After", "")
        delay = float(wait) if wait.replace(".", "", 1).isdigit() else None
        return TransientError(f"Drive answered with status {status}", delay)
    if "exportSizeLimitExceeded" in reasons:
        return SourceError(
            "Drive exports no document of more than 10 MB; download it and name a local `path`"
        )
    if status in (401, 403):
        return SourceError(
            f"Drive refused access (status {status}); share the file with the account that reads it"
        )
    return SourceError(f"Drive answered with status {status}")


def _name_copy(entry: Mapping[str, Any]) -> str:
    ending = _EXPORTS.get(str(entry["mimeType"]), ("", ""))[1]
    name = _clean(str(entry["name"]))
    return name if name.lower().endswith(ending) else f"{name}{ending}"


def _clean(name: str) -> str:
    """Make one part of a path of a name, which in Drive may hold anything."""
    plain = "".join(sign if sign.isprintable() and sign not in "/\\:" else "-" for sign in name).strip()
    return plain if plain.strip(".") else "unnamed"


def _put_before_ending(path: str, text: str) -> str:
    folder, _, name = path.rpartition("/")
    stem, dot, ending = name.rpartition(".")
    return "/".join(filter(None, (folder, f"{stem}{text}{dot}{ending}" if dot else f"{name}{text}")))
