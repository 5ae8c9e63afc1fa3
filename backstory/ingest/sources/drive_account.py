"""The account that reads Google Drive, by the keys of a workspace or by the environment."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from backstory.base.environment import DRIVE_VARIABLE, Keys, find_key
from backstory.base.errors import ReadError
from backstory.base.ids import digest

if TYPE_CHECKING:
    import requests

READING_SCOPE: Final = "https://www.googleapis.com/auth/drive.readonly"
"""What an account or a person permits: to read a Drive, and nothing else."""


def open_session(keys: Keys | None) -> requests.Session:
    """Open what makes calls in the name of the account.

    It raises ``ReadError`` if there are no credentials, or Google's library cannot use them. It raises
    ``AuthenticationError`` if the variable of the environment holds no credentials.
    """
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


def name_account(session: requests.Session) -> str:
    """Return a hash that tells accounts apart; empty for a session without credentials."""
    credentials = getattr(session, "credentials", None)
    names = ("service_account_email", "client_id", "refresh_token")
    known = [str(value) for name in names if (value := getattr(credentials, name, None))]
    return digest(known, length=16) if known else ""


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
