"""A person permits a tenant to read their Google Drive: OAuth's authorization code flow, with PKCE (RFC 7636)."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from pydantic import SecretStr

from backstory.base.environment import DRIVE_CLIENT_VARIABLE, DRIVE_VARIABLE
from backstory.base.errors import ModelSetupError
from backstory.base.extras import require_extra
from backstory.ingest.sources.drive import READING_SCOPE
from backstory.interfaces.service.accounts import Caller
from backstory.interfaces.service.keys import KeyRing
from backstory.interfaces.service.refusals import RefusedError

PERMITTED: Final = "/drive/permitted"
"""Path to which Google sends a person back; it must stand among the redirect addresses of the client."""

_ASKING: Final = "https://accounts.google.com/o/oauth2/v2/auth"
_GIVING: Final = "https://oauth2.googleapis.com/token"
_RANDOM_BYTES: Final = 32
_SECONDS: Final = 600.0
_ANSWER_SECONDS: Final = 30


@dataclass(frozen=True, slots=True)
class _Begun:
    """What a person has begun for a tenant."""

    state: bytes
    verifier: str
    redirect: str
    ends: float


class DrivePermissions:
    """The permissions that were begun and not finished, in memory alone: after a restart, a person begins again.

    Of each person and tenant there is one, the last: nobody takes the place of another by beginning often.
    """

    def __init__(self, keys: KeyRing, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with none; the keys hold the OAuth client of each tenant, and get the credentials."""
        self._keys = keys
        self._clock = clock
        self._lock = threading.Lock()
        self._begun: dict[tuple[str, str], _Begun] = {}

    def begin(self, caller: Caller, tenant: str, address: str) -> str:
        """Begin to ask an owner of a tenant for their permission, and return the address of Google to which they go.

        It ends after ten minutes, and when they begin again. The address of the service is as the person's browser
        names it.
        """
        require_extra("drive", "Google Drive", "upload the files")
        client = self._read_client(tenant)
        state, verifier = secrets.token_urlsafe(_RANDOM_BYTES), secrets.token_urlsafe(_RANDOM_BYTES)
        now = self._clock()
        begun = _Begun(_hash(state), verifier, f"{address}{PERMITTED}", now + _SECONDS)
        with self._lock:
            self._begun = {key: each for key, each in self._begun.items() if each.ends >= now}
            self._begun[caller.user_id, tenant] = begun
        challenge = base64.urlsafe_b64encode(_hash(verifier)).rstrip(b"=").decode()
        asked = {
            "client_id": client["client_id"],
            "redirect_uri": begun.redirect,
            "response_type": "code",
            "scope": READING_SCOPE,
            "state": state,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
            "access_type": "offline",
            "prompt": "consent",
        }
        return f"{client.get('auth_uri', _ASKING)}?{urlencode(asked)}"

    def finish(self, caller: Caller, state: str, code: str, tenant: str | None = None) -> str:
        """Exchange the code that Google gave for credentials, store them sealed, and return the tenant.

        The state is what :meth:`begin` gave Google; it counts once, for its caller, and for its tenant. If it has
        ended, or they are no owner any more, the answer is 404.
        """
        hashed = _hash(state)
        with self._lock:
            # What somebody else has begun stays theirs.
            begun_for = next(
                (
                    name
                    for (user_id, name), each in self._begun.items()
                    if user_id == caller.user_id and each.state == hashed
                ),
                None,
            )
            if begun_for is None or tenant not in (None, begun_for) or not caller.may(begun_for, "owner"):
                raise _refuse_unknown()
            begun = self._begun.pop((caller.user_id, begun_for))
        if begun.ends < self._clock():
            raise _refuse_unknown()
        client = self._read_client(begun_for)
        given = _exchange(client, begun, code)
        credentials = {
            "type": "authorized_user",
            "client_id": client["client_id"],
            "client_secret": client["client_secret"],
            "refresh_token": given,
            **({"token_uri": client["token_uri"]} if "token_uri" in client else {}),
        }
        try:
            self._keys.seal(begun_for, DRIVE_VARIABLE, SecretStr(json.dumps(credentials)))
        except ModelSetupError as error:
            raise _refuse_answer() from error
        return begun_for

    def has_client(self, tenant: str) -> bool:
        """Return whether a tenant has an OAuth client, so that a permission can be begun."""
        return DRIVE_CLIENT_VARIABLE in self._keys.names(tenant)

    def _read_client(self, tenant: str) -> Mapping[str, str]:
        stored = self._keys.open(tenant).get(DRIVE_CLIENT_VARIABLE)
        if stored is None:
            raise RefusedError(
                "this tenant has no OAuth client of Google; whoever runs this service stores the JSON of one by "
                f"`backstory serve key set TENANT {DRIVE_CLIENT_VARIABLE}`",
                status=409,
                code="no_drive_client",
            )
        client: Mapping[str, str] = json.loads(stored.get_secret_value())
        return client


def _exchange(client: Mapping[str, str], begun: _Begun, code: str) -> str:
    """Exchange a code for a refresh token; what Google says is not quoted, since it may hold a part of either."""
    import requests

    form = {
        "grant_type": "authorization_code",
        "code": code,
        "client_id": client["client_id"],
        "client_secret": client["client_secret"],
        "code_verifier": begun.verifier,
        "redirect_uri": begun.redirect,
    }
    try:
        answer = requests.post(
            client.get("token_uri", _GIVING),
            data=form,
            timeout=_ANSWER_SECONDS,
            allow_redirects=False,
            auth=_send_as_it_is,
        )
        told: Any = answer.json() if answer.ok else {}
    except requests.RequestException as error:
        raise RefusedError(
            "Google does not answer; ask for the permission again in a while",
            status=503,
            code="no_answer",
            retry_after=_ANSWER_SECONDS,
        ) from error
    token = told.get("refresh_token") if isinstance(told, dict) else None
    if not isinstance(token, str) or not token:
        raise _refuse_answer()
    return token


def _send_as_it_is(request: Any) -> Any:
    """Keep the library from adding a name and password of the machine's `.netrc`."""
    return request


def _refuse_answer() -> RefusedError:
    return RefusedError(
        "Google gave no permission to read; ask for it again, and check that the OAuth client has the address of this "
        f"service with {PERMITTED} among its redirect addresses",
        status=400,
        code="permission_refused",
    )


def _refuse_unknown() -> RefusedError:
    return RefusedError(
        "you have begun no such permission, or it has ended; begin again, as an owner",
        status=404,
        code="unknown_permission",
    )


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
