"""Settings of where state and files are kept: in the workspace folder, or on servers that several machines share."""

from __future__ import annotations

import re
from typing import Annotated, Final
from urllib.parse import parse_qs, unquote, urlsplit

from pydantic import AfterValidator

from backstory.base.addresses import is_local
from backstory.base.errors import SettingsError
from backstory.settings.groups import SettingsGroup

DATABASE_SCHEMES: Final = ("postgresql", "postgres")
"""How the address of a database begins."""

_SECRET: Final = re.compile(r":[^/@?]*@|password\s*=|_secret_|token\s*=", re.IGNORECASE)
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_FOLDER: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9!_.*'()=-]+")


def clean_store_address(value: str) -> str:
    """Return the address of a store of files without a slash at its end, or raise ``SettingsError``.

    No message repeats an address, which may hold a key (code ``secret_in_address``).
    """
    _refuse_secrets(value, "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
    scheme, _, rest = value.rstrip("/").partition("://")
    if scheme == "file" and rest.startswith("/") and ".." not in rest.split("/"):
        return value.rstrip("/")
    bucket, *folders = rest.split("/")
    if scheme != "s3" or not _BUCKET.fullmatch(bucket) or not all(map(_FOLDER.fullmatch, folders)):
        raise SettingsError(
            "this must be a bucket and a prefix, such as s3://bucket/prefix; the address of another service than "
            "AWS is AWS_ENDPOINT_URL in the environment",
            code="invalid_address",
        )
    return value.rstrip("/")


def require_database_address(value: str) -> str:
    """Return the address of a Postgres database, or raise ``SettingsError``.

    One of another machine must say whether the connection is encrypted (code ``unencrypted``).
    """
    _refuse_secrets(value, "PGPASSWORD or PGPASSFILE")
    try:
        parts = urlsplit(value)
        options = parse_qs(parts.query, strict_parsing=bool(parts.query))
    except ValueError:
        parts, options = urlsplit(""), {}
    if parts.scheme not in DATABASE_SCHEMES or parts.fragment or not re.fullmatch("/[^/]+", parts.path):
        raise SettingsError(
            "this must be the address of a Postgres database, such as postgresql://user@host:5432/name",
            code="invalid_address",
        )
    named = [parts.netloc.rpartition("@")[2], *options.get("host", []), *options.get("hostaddr", [])]
    if "sslmode" not in options and not all(_is_here(place) for names in named for place in names.split(",")):
        raise SettingsError(
            "another machine is named without sslmode, so texts could travel unencrypted; add "
            "?sslmode=verify-full, or ?sslmode=disable if the network between is yours",
            code="unencrypted",
        )
    return value


def _refuse_secrets(value: str, variables: str) -> None:
    if _SECRET.search(unquote(value)):
        raise SettingsError(
            f"this must be an address without a password; set {variables} in the environment",
            code="secret_in_address",
        )


def _is_here(place: str) -> bool:
    """Return whether a host, with its port, is this machine: none, a folder of sockets, or a loopback address."""
    if not place or unquote(place).startswith("/"):
        return True
    host = re.sub(r":\d*$", "", place).strip("[]")
    return not host or is_local(host)


class StorageSettings(SettingsGroup):
    """Where state and files are kept. Without these, a workspace is one folder on one machine."""

    database: Annotated[str, AfterValidator(require_database_address)] | None = None
    """Postgres, `postgresql://user@host/name`; null for files. The password: `PGPASSWORD` or `PGPASSFILE`."""
    files: Annotated[str, AfterValidator(clean_store_address)] | None = None
    """S3, `s3://bucket/prefix`, or a shared folder, `file:///folder`; null for the workspace folder. Keys: `AWS_*`."""
