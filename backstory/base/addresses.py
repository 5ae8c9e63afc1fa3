"""Addresses of services, as settings may name them."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from backstory.base.errors import SettingsError

OPENAI_ADDRESS: Final = "https://api.openai.com/v1"
"""Address of `provider: openai` if the settings name none."""


def clean_address(value: str) -> str:
    """Return an address without a slash at its end, or raise ``SettingsError`` if it is none or may hold a key."""
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingsError(
            "this must be an address that begins with https:// or http://", code="invalid_address"
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise SettingsError(
            "this must be an address without user, password, ? or #; keys are read from the environment",
            code="secret_in_address",
        )
    return value.rstrip("/")


def require_protected(address: str | None, *, allow_http: bool, sent: str, name: str = "base_url") -> None:
    """Raise ``SettingsError`` if what is sent to an address could be read on a network, unless that is allowed."""
    if address and not allow_http and not is_protected(address):
        raise SettingsError(
            f"{name} is http:// of another machine, so {sent} would travel unencrypted; write https://, or "
            "`allow_http: true` if the network between is yours",
            code="unencrypted",
        )


def is_openai(address: str) -> bool:
    """Return whether an address is OpenAI's own."""
    return urlsplit(address).hostname == urlsplit(OPENAI_ADDRESS).hostname


def name_service(address: str) -> str:
    """Return what tells a service from others: host, port and path, since a gateway has several services."""
    parts = urlsplit(address)
    return f"{parts.netloc}{parts.path}"


def is_protected(address: str) -> bool:
    """Return whether nobody on a network can read what is sent to an address."""
    parts = urlsplit(address)
    return parts.scheme == "https" or is_local(parts.hostname or "")


def is_local(host: str) -> bool:
    """Return whether a host is this machine, by its name or its address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
