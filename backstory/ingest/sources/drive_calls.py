"""Calls of the API of Google Drive (version 3) in the name of one account, repeated where that may help.

They are made by ``google-auth`` alone, since ``google-api-python-client`` brings 114 MB of descriptions of every other
API.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from backstory.base.environment import DRIVE_VARIABLE, Keys, find_key
from backstory.base.errors import ReadError, TransientError, retry

if TYPE_CHECKING:
    import requests

ADDRESS: Final = "https://www.googleapis.com/drive/v3"
READING_SCOPE: Final = "https://www.googleapis.com/auth/drive.readonly"
"""What an account or a person permits: to read a Drive, and nothing else."""
GONE: Final = "source_gone"
"""Code of the error of a call for what is not there or not shared, which Drive does not tell apart."""
_TRANSIENT: Final = (408, 429, 500, 502, 503, 504)
_LIMITS: Final = frozenset(["rateLimitExceeded", "userRateLimitExceeded"])
_SECONDS: Final = 60
_ATTEMPTS: Final = 5


class DriveCalls:
    """Makes calls in the name of one account. It sends no request before the first."""

    def __init__(
        self,
        address: str | None = None,
        session: requests.Session | None = None,
        keys: Keys | None = None,
    ) -> None:
        self._address = address or ADDRESS
        self._session = session
        self._keys = keys

    def ask(self, call: str, parameters: Mapping[str, str]) -> Mapping[str, Any]:
        """Make a call whose answer is an object of JSON.

        It raises ``ReadError`` if Drive refuses it, cannot be reached or gives another answer; the code is
        :data:`GONE` for what is not there.
        """
        with closing(self.get(call, parameters)) as response:
            try:
                answer = response.json()
            except ValueError:
                answer = None
        if not isinstance(answer, dict):
            raise ReadError("Drive gave an answer that is no object of JSON; try again later")
        return answer

    def get(self, call: str, parameters: Mapping[str, str]) -> requests.Response:
        """Make a call, again where a retry may succeed; it raises as :meth:`ask`. The caller closes the response."""
        try:
            return retry(partial(self._get_once, call, parameters), _ATTEMPTS)
        except TransientError as error:
            raise ReadError(f"{error}, {_ATTEMPTS} times in a row") from error

    def _get_once(self, call: str, parameters: Mapping[str, str]) -> requests.Response:
        import requests
        from google.auth.exceptions import GoogleAuthError, TransportError

        query = {"supportsAllDrives": "true", **parameters}
        try:
            self._session = self._session or _open_session(self._keys)
            response = self._session.get(
                f"{self._address}/{call}", params=query, stream=True, timeout=_SECONDS, allow_redirects=False
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
    return ReadError(f"Drive answered with status {status}", code=GONE if status in (404, 410) else None)


def _open_session(keys: Keys | None) -> requests.Session:
    """Open what makes calls, with the credentials of a workspace or of the environment."""
    import google.auth
    from google.auth.transport.requests import AuthorizedSession
    from google.oauth2.credentials import Credentials
    from google.oauth2.service_account import Credentials as ServiceAccount

    stored = find_key(DRIVE_VARIABLE, keys)
    known = {} if stored is None else json.loads(stored.get_secret_value())
    credentials: Any
    if known.get("type") == "service_account":
        credentials = ServiceAccount.from_service_account_info(known, scopes=[READING_SCOPE])  # type: ignore[no-untyped-call]
    elif known:
        credentials = Credentials.from_authorized_user_info(known, scopes=[READING_SCOPE])  # type: ignore[no-untyped-call]
        # The library reads only Google's own address from such an object.
        if "token_uri" in known:
            credentials = credentials.with_token_uri(known["token_uri"])
    elif keys is not None:
        raise ReadError(
            "this tenant has no credentials of Google; store the JSON of a service account with which the files are "
            f"shared by `backstory serve key set TENANT {DRIVE_VARIABLE}`"
        )
    else:
        credentials, _ = google.auth.default(scopes=[READING_SCOPE])
    session: requests.Session = AuthorizedSession(credentials)  # type: ignore[no-untyped-call]
    return session
