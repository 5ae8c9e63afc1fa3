"""The keys of tenants for services of models and for Google Drive, encrypted among the accounts."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from types import MappingProxyType
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pydantic import SecretStr

from backstory.base.environment import STORED_VARIABLES, Keys, read_stored
from backstory.base.errors import InputError, StateError
from backstory.interfaces.service.key_file import make_key_file, read_key_file
from backstory.interfaces.service.names import require_tenant_name
from backstory.storage.state import State

_NONCE_BYTES: Final = 12


class KeyRing:
    """Seals and opens the keys of tenants, by AES-256-GCM with the key of a file outside of the service's folder.

    What is sealed is bound to its tenant and its name: a row that somebody copies to another tenant does not open.

    Attributes:
        accounts: The accounts.
    """

    def __init__(self, accounts: State, key_file: Path) -> None:
        """Name the accounts, and the key file, which the first :meth:`seal` makes; nothing is read or written yet."""
        self.accounts = accounts
        self._key_file = key_file

    def seal(self, tenant: str, name: str, value: SecretStr) -> None:
        """Store a key in place of a former one, by the environment variable in whose place it is used."""
        require_tenant_name(tenant)
        _require_variable(name)
        key = read_stored(value.get_secret_value(), name)
        if key is None:
            raise InputError(f"no key was given for {name}; write it to standard input", code="blank_key")
        with self.accounts.begin() as session:
            # A second key file beside sealed keys would hide that the first one is lost.
            known = session.execute("SELECT tenant, name, sealed FROM sealed_keys LIMIT 1").fetchone()
            if known is None:
                make_key_file(self._key_file)
            else:  # the key file of another machine may differ
                self._unseal(self._open_cipher(), *known)
            nonce = os.urandom(_NONCE_BYTES)
            text = key.get_secret_value().encode()
            sealed = nonce + self._open_cipher().encrypt(nonce, text, _bind(tenant, name))
            session.execute(
                "INSERT INTO sealed_keys VALUES (?, ?, ?) "
                "ON CONFLICT (tenant, name) DO UPDATE SET sealed = excluded.sealed",
                (tenant, name, sealed),
            )

    def open(self, tenant: str) -> Keys:
        """Open all keys of a tenant; without any, no key file is needed."""
        rows = self._read(tenant)
        if not rows:
            return MappingProxyType({})
        cipher = self._open_cipher()
        return MappingProxyType(
            {name: SecretStr(self._unseal(cipher, tenant, name, sealed).decode()) for name, sealed in rows}
        )

    def names(self, tenant: str) -> tuple[str, ...]:
        """Return the names of the keys of a tenant, sorted."""
        return tuple(name for name, _ in self._read(tenant))

    def remove(self, tenant: str, name: str) -> None:
        """Remove a key."""
        with self.accounts.begin() as session:
            row = (tenant, name)
            removed = session.execute("DELETE FROM sealed_keys WHERE tenant = ? AND name = ?", row).rowcount
        if not removed:
            raise InputError(
                f"the tenant {tenant!r} has no key {name!r}; `backstory serve key list` shows all",
                code="unknown_key",
            )
        self.accounts.compact()

    def stamp(self, tenant: str) -> str:
        """Return a text that changes whenever a key of the tenant does. It tells nothing about the keys."""
        hashed = hashlib.sha256()
        for name, sealed in self._read(tenant):
            hashed.update(name.encode() + b"\0" + hashlib.sha256(sealed).digest())
        return hashed.hexdigest()

    def _read(self, tenant: str) -> list[tuple[str, bytes]]:
        with self.accounts.reading() as session:
            query = "SELECT name, sealed FROM sealed_keys WHERE tenant = ? ORDER BY name"
            return list(session.execute(query, (tenant,)))

    def _unseal(self, cipher: AESGCM, tenant: str, name: str, sealed: bytes) -> bytes:
        try:
            return cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], _bind(tenant, name))
        except (InvalidTag, ValueError) as error:
            raise StateError(
                f"{name} of the tenant {tenant} cannot be opened by the key file {self._key_file}: it was sealed "
                "with another one, or was altered; restore the file, or store the key again",
                code="unopened_key",
            ) from error

    def _open_cipher(self) -> AESGCM:
        return AESGCM(read_key_file(self._key_file))


def _require_variable(name: str) -> None:
    if name not in STORED_VARIABLES:
        raise InputError(
            f"{name!r} is no key that Backstory reads; name one of {', '.join(STORED_VARIABLES)}",
            code="unknown_variable",
        )


def _bind(tenant: str, name: str) -> bytes:
    return f"{tenant}\0{name}".encode()
