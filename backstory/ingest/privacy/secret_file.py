"""The secret key of the pseudonyms, and the check that it has not changed."""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import secrets
from pathlib import Path
from typing import Final

from backstory.base.errors import WorkspaceError
from backstory.base.files.atomic import exclusive_temporary, publish, temporary_path
from backstory.storage.tables.catalog import Entry
from backstory.storage.tables.tables import Tables

_SECRET_BYTES: Final = 32
_FINGERPRINT_OF: Final = b"\0fingerprint of the secret"  # no name holds a NUL, so it equals no pseudonym
_CATALOG_TABLE: Final = "secret"
_CATALOG_KEY: Final = "fingerprint"

_logger = logging.getLogger(__name__)


def load_secret(path: Path, tables: Tables) -> bytes:
    """Read the secret of a workspace, and create it in the first run, the same for processes that do so together.

    The catalog stores a fingerprint, so that the tables never mix pseudonyms of two secrets: it raises
    ``WorkspaceError`` if the file is no secret, or the tables hold pseudonyms of another secret or of a lost one.
    """
    recorded = read_fingerprint(tables)
    remedy = (
        f"the tables hold pseudonyms of the former secret. Restore {path.name} from a backup or another worker. To "
        f"give everyone another pseudonym instead, remove everything in {tables.store.locate('')} except cache.sqlite, "
        "and run `backstory run`: it then rebuilds every table"
    )
    if not path.is_file():
        if recorded:
            raise WorkspaceError(f"{path} is lost, but {remedy}", code="lost_secret")
        _create_secret(path)
    secret = parse_key(path.read_text(encoding="ascii", errors="replace"))
    if secret is None:
        raise WorkspaceError(
            f"{path} is not a secret of {2 * _SECRET_BYTES} hexadecimal digits; restore it from a backup",
            code="no_secret",
        )
    if path.stat().st_mode & 0o077:
        _logger.warning("%s is readable by other users; run `chmod 600 %s`", path, path)
    fingerprint = fingerprint_key(secret)
    if not recorded:
        tables.catalog.record(_CATALOG_TABLE, {_CATALOG_KEY: Entry("", fingerprint, 0)})
    elif not hmac.compare_digest(recorded, fingerprint):
        raise WorkspaceError(f"{path} is not the secret of the last run, but {remedy}", code="other_secret")
    return secret


def is_unmade(path: Path, tables: Tables) -> bool:
    """Check whether the next run makes the secret: there is no file, and nothing shows that there ever was one."""
    return not path.is_file() and not read_fingerprint(tables)


def read_fingerprint(tables: Tables) -> str:
    """Return the fingerprint of the secret that the tables were made with; empty before the first run."""
    recorded = tables.catalog.read(_CATALOG_TABLE).get(_CATALOG_KEY)
    return "" if recorded is None else recorded.content


def fingerprint_key(key: bytes) -> str:
    """Return a text by which a key is known again, and from which it cannot be computed."""
    return hmac.digest(key, _FINGERPRINT_OF, hashlib.sha256).hex()[:16]


def parse_key(text: str) -> bytes | None:
    """Return the 32 bytes that 64 hexadecimal digits stand for; None for any other text."""
    try:
        key = bytes.fromhex(text.strip())
    except ValueError:
        return None
    return key if len(key) == _SECRET_BYTES else None


def _create_secret(path: Path) -> None:
    """Write a new secret, unless another process was first."""
    with exclusive_temporary(path) as file:
        if not path.exists():
            os.fchmod(file.fileno(), 0o600)
            file.write(f"{secrets.token_hex(_SECRET_BYTES)}\n".encode())
            file.flush()
            publish(temporary_path(path), path)
