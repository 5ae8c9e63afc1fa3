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
_LIMITS: Final = ("rateLimitExceeded", "userRateLimitExceeded")
_SECONDS: Final = 60
_ATTEMPTS: Final = 5


class DriveCalls:
    """Makes calls in the name of one account."""

    def __init__(
        self,
        address: str | None = None,
        session: requests.Session | None = None,
        keys: Keys | None = None,
    ) -> None:
        """Set the place of the API; it sends no request yet."""
        self._address = ADDRESS if address is None else address
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
            except ValueError as error:
                raise ReadError("Drive gave an answer that is not JSON; try again later") from error
        if not isinstance(answer, dict):
            raise ReadError("Drive's answer has an unexpected form; try again later")
        return answer

    def get(self, call: str, parameters: Mapping[str, str]) -> requests.Response:
        """Make a call, again where a retry may succeed; it raises as :meth:`ask`. The caller closes the response."""
        try:
            return retry(partial(self._get_once, call, parameters), _ATTEMPTS)
        except TransientError as error:
            raise ReadError(f"{error}, {_ATTEMPTS} times in a row") from error

    def _get_once(self, call: str, parameters: Mapping[str, str]) -> requests.Response:
        import google.auth.exceptions
        import requests

        self._session = self._session or _open_session(self._keys)
        query = {"supportsAllDrives": "true", **parameters}
        try:
            response = self._session.get(
                f"{self._address}/{call}", params=query, stream=True, timeout=_SECONDS, allow_redirects=False
            )
        except google.auth.exceptions.TransportError as error:
            raise TransientError(
                f"Google could not be reached to sign in ({type(error).__name__})"
            ) from error
        except google.auth.exceptions.GoogleAuthError as error:
            raise ReadError(
                f"Google refused the credentials ({type(error).__name__}); sign in or store them again"
            ) from error
        except requests.RequestException as error:
            raise TransientError(f"Drive could not be reached ({type(error).__name__})") from error
        if response.status_code == requests.codes.ok:
            return response
        with closing(response):
            raise _interpret(response)


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
        return ReadError("Drive exports no document of more than 10 MB; download it and name a local `path`")
    if status in (401, 403):
        return ReadError(
            f"Drive refused access (status {status}); share the file with the account that reads it"
        )
    return ReadError(f"Drive answered with status {status}", code=GONE if status in (404, 410) else None)


def _open_session(keys: Keys | None) -> requests.Session:
    """Open what makes calls, with the credentials of a workspace or of the environment."""
    from google.auth.transport.requests import AuthorizedSession

    stored = find_key(DRIVE_VARIABLE, keys)
    if stored is not None:
        credentials = _make_credentials(json.loads(stored.get_secret_value()))
    elif keys is not None:
        raise ReadError(
            "this tenant has no credentials of Google; store the JSON of a service account with which the files are "
            f"shared by `backstory serve key set TENANT {DRIVE_VARIABLE}`"
        )
    else:
        credentials = _find_credentials()
    session: requests.Session = AuthorizedSession(credentials)  # type: ignore[no-untyped-call]
    return session


def _make_credentials(stored: dict[str, Any]) -> Any:
    import google.auth.exceptions
    from google.oauth2 import credentials, service_account

    try:
        if stored["type"] == "service_account":
            return service_account.Credentials.from_service_account_info(  # type: ignore[no-untyped-call]
                stored, scopes=[READING_SCOPE]
            )
        user = credentials.Credentials.from_authorized_user_info(  # type: ignore[no-untyped-call]
            stored, scopes=[READING_SCOPE]
        )
        # The library reads only Google's own address from such an object.
        return user.with_token_uri(stored["token_uri"]) if "token_uri" in stored else user
    except (ValueError, google.auth.exceptions.GoogleAuthError) as error:
        raise ReadError(
            f"the stored credentials of Google are damaged ({type(error).__name__}); store them again"
        ) from None  # whose message may quote the key


def _find_credentials() -> Any:
    import google.auth
    import google.auth.exceptions

    try:
        found, _ = google.auth.default(scopes=[READING_SCOPE])
    except google.auth.exceptions.GoogleAuthError as error:
        raise ReadError(
            "the environment holds no credentials of Google; set GOOGLE_APPLICATION_CREDENTIALS to the file of a "
            "service account with which the files are shared"
        ) from error
    return found
