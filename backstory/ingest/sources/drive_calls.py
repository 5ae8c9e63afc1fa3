"""Calls of the API of Google Drive (version 3), repeated where that may help.

They are made by ``google-auth`` alone, since ``google-api-python-client`` brings 114 MB of descriptions of every other
API.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from backstory.base.environment import Keys
from backstory.base.errors import ReadError, TransientError, retry
from backstory.ingest.sources.drive_account import name_account, open_session

if TYPE_CHECKING:
    import requests

ADDRESS: Final = "https://www.googleapis.com/drive/v3"

GONE: Final = "source_gone"
"""Code of the error of a call for what is not there or not shared, which Drive does not tell apart."""

INVALID: Final = "source_call_invalid"
"""Code of the error of a call that Drive calls invalid, such as one with a page token that it does not know."""

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

    @property
    def account(self) -> str:
        """A hash that tells accounts apart; empty for a session without credentials.

        It raises ``ReadError`` if there are no credentials.
        """
        return name_account(self._open())

    def ask(self, call: str, parameters: Mapping[str, str]) -> Mapping[str, Any]:
        """Make a call whose answer is an object of JSON.

        It raises ``ReadError`` if Drive refuses it, cannot be reached or gives another answer. The code is
        :data:`GONE` or :data:`INVALID` where these fit.
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
        """Make a call, again where a retry may succeed. The caller closes the response.

        It raises ``ReadError`` as :meth:`ask` does.
        """
        try:
            return retry(partial(self._get_once, call, parameters), _ATTEMPTS)
        except TransientError as error:
            raise ReadError(f"{error}, {_ATTEMPTS} times in a row") from error

    def _get_once(self, call: str, parameters: Mapping[str, str]) -> requests.Response:
        import google.auth.exceptions
        import requests

        session = self._open()
        query = {"supportsAllDrives": "true", **parameters}
        try:
            response = session.get(
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

    def _open(self) -> requests.Session:
        if self._session is None:
            self._session = open_session(self._keys)
        return self._session


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
    code = {400: INVALID, 404: GONE, 410: GONE}.get(status)
    return ReadError(f"Drive answered with status {status}", code=code)
