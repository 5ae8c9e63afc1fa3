"""Keys and credentials as a person writes them: values of environment variables, or what is stored in their place."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, TypeAlias

from pydantic import SecretStr

from backstory.base.addresses import is_protected
from backstory.base.errors import AuthenticationError

Keys: TypeAlias = Mapping[str, SecretStr]
"""The keys of one workspace by their variables. Where they are given, the environment is asked for no key."""

DRIVE_VARIABLE: Final = "BACKSTORY_DRIVE_CREDENTIALS"
DRIVE_CLIENT_VARIABLE: Final = "BACKSTORY_DRIVE_CLIENT"
BUCKET_VARIABLE: Final = "BACKSTORY_BUCKET_CREDENTIALS"

_BUCKET_FIELDS = {
    "s3": (("key", "secret"), ("anon",)),
    "gs": (("token",),),
    "abfs": (("account_name", "account_key"), ("account_name", "sas_token"), ("connection_string",)),
}
"""What credentials of each kind of bucket need at least, in one of the ways."""
_CLIENT_FIELDS = ("client_id", "client_secret", "auth_uri", "token_uri")
_DRIVE_FIELDS = {
    "service_account": ("client_email", "private_key", "token_uri"),
    "authorized_user": ("client_id", "client_secret", "refresh_token"),
}


def read_key(text: str, variable: str) -> SecretStr | None:
    """Read a key from a text, without the space around it; None if there is no other character.

    Args:
        text: Such as the value of an environment variable.
        variable: The variable, which the error names.

    Raises:
        AuthenticationError: The text is no key.
    """
    value = text.strip()
    # No header can hold such a value, and an HTTP client's error would quote it escaped, where redaction misses it.
    if not value.isascii() or not value.isprintable() or " " in value:
        raise _unusable(
            variable, "holds a line break, a space or a character that no key has; set it to the key alone"
        )
    return SecretStr(value) if value else None


def read_stored(text: str, variable: str) -> SecretStr | None:
    """Read what a person stores in the place of a variable: a key, or credentials of Google Drive.

    Args:
        text: The value. Space around it does not matter.
        variable: The variable.

    Returns:
        The value as it is stored, credentials without space in them; None if the text is blank.

    Raises:
        AuthenticationError: The text is no key, or no credentials.
    """
    if variable not in (DRIVE_VARIABLE, DRIVE_CLIENT_VARIABLE, BUCKET_VARIABLE):
        return read_key(text, variable)
    if not text.strip():
        return None
    if variable == BUCKET_VARIABLE:
        return _read_buckets(text)
    if variable == DRIVE_CLIENT_VARIABLE:
        return _read_client(text)
    try:
        credentials = json.loads(text)
        fields = _DRIVE_FIELDS[credentials["type"]]
        is_whole = all(isinstance(credentials[name], str) and credentials[name] for name in fields)
        is_safe = is_protected(str(credentials.get("token_uri", "https://")))
    except (ValueError, KeyError, TypeError):
        is_whole = is_safe = False
    if not (is_whole and is_safe):
        raise _unusable(
            variable,
            "holds no credentials that can read Drive; set it to the JSON of a service account's key, or of an "
            "authorized user with client_id, client_secret and refresh_token",
        ) from None
    return SecretStr(json.dumps(credentials, separators=(",", ":")))


def _read_buckets(text: str) -> SecretStr:
    """Read the credentials of buckets by kind of address, each whole, so that no tool looks for the rest elsewhere."""
    try:
        told = json.loads(text)
        is_whole = bool(told) and all(
            any(all(options.get(name) for name in fields) for fields in _BUCKET_FIELDS[kind])
            # A text in the place of such a token names a file of the machine, or a way to find other credentials.
            and isinstance(options.get("token", {}), dict if kind == "gs" else str | dict)
            for kind, options in told.items()
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        is_whole = False
    if not is_whole:
        raise _unusable(
            BUCKET_VARIABLE,
            'holds no whole credentials of buckets; set it to JSON such as {"s3": {"key": ..., "secret": ...}}, with '
            "`token` for gs, and `account_name` and `account_key` for abfs",
        ) from None
    return SecretStr(json.dumps(told, separators=(",", ":")))


def read_bucket_credentials(keys: Keys | None) -> Mapping[str, Mapping[str, object]] | None:
    """Read the credentials of buckets by kind of address, as the packages of fsspec take them.

    Args:
        keys: The keys of the workspace.

    Returns:
        The credentials, none of them where none are stored; None without keys of its own, so that each package finds
        its credentials in the environment.
    """
    if keys is None:
        return None
    stored = keys.get(BUCKET_VARIABLE)
    found: Mapping[str, Mapping[str, object]] = (
        {} if stored is None else json.loads(stored.get_secret_value())
    )
    return found


def _read_client(text: str) -> SecretStr:
    """Read the JSON of an OAuth client as Google gives it out, of which what is used is kept."""
    try:
        told = json.loads(text)
        client = told.get("web", told)
        kept = {name: client[name] for name in _CLIENT_FIELDS if name in client}
        is_whole = all(isinstance(kept[name], str) and kept[name] for name in _CLIENT_FIELDS[:2])
        is_safe = all(is_protected(str(kept[name])) for name in _CLIENT_FIELDS[2:] if name in kept)
    except (ValueError, KeyError, TypeError, AttributeError):
        is_whole = is_safe = False
    if not (is_whole and is_safe):
        raise _unusable(
            DRIVE_CLIENT_VARIABLE,
            "holds no OAuth client of a web application; set it to the JSON that Google's console gives out, with "
            "client_id and client_secret",
        ) from None
    return SecretStr(json.dumps(kept, separators=(",", ":")))


def _unusable(variable: str, problem: str) -> AuthenticationError:
    return AuthenticationError(f"{variable} {problem}", code="unusable_key")
