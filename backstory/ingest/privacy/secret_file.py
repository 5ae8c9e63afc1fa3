"""The secret key of the pseudonyms, and the check that it has not changed."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import logging
import os
import secrets
import tempfile
from pathlib import Path
from typing import Final

from backstory.base.errors import WorkspaceError
from backstory.ingest.privacy.pseudonyms import PSEUDONYM
from backstory.storage.tables.catalog import Entry
from backstory.storage.tables.tables import Tables

_SECRET_BYTES = 32
_FINGERPRINT_DIGITS = 16
_FINGERPRINT_OF: Final = b"\0fingerprint of the secret"  # no name holds a NUL, so it equals no pseudonym
_CATALOG_TABLE: Final = "secret"
_CATALOG_KEY: Final = "fingerprint"

_logger = logging.getLogger(__name__)


def load_secret(path: Path, tables: Tables) -> bytes:
    """Read the secret of a workspace, and create it in the first run.

    The file is created atomically, and only its owner can read it. Processes that call this at the same time get the
    same secret. The catalog stores a fingerprint, from which the secret cannot be computed, so that the tables never
    mix pseudonyms of two secrets.

    It raises ``WorkspaceError`` if the file is not a valid secret, or the tables hold pseudonyms of another secret or
    of a lost one.
    """
    recorded = read_fingerprint(tables)
    try:
        secret = _read_secret(path)
    except FileNotFoundError:
        if recorded or _hold_pseudonyms(tables):
            raise WorkspaceError(f"{path} is lost, but {_remedy(path, tables)}", code="lost_secret") from None
        _create_secret(path)
        secret = _read_secret(path)
    fingerprint = fingerprint_key(secret)
    if not recorded:
        tables.catalog.record(_CATALOG_TABLE, {_CATALOG_KEY: Entry("", fingerprint, 0)})
    elif not hmac.compare_digest(recorded, fingerprint):
        raise WorkspaceError(
            f"{path} is not the secret of the last run, but {_remedy(path, tables)}",
            code="other_secret",
        )
    return secret


def is_unmade(path: Path, tables: Tables) -> bool:
    """Check whether the next run makes the secret: there is no file, and nothing shows that there ever was one."""
    return not path.is_file() and not read_fingerprint(tables) and not _hold_pseudonyms(tables)


def read_fingerprint(tables: Tables) -> str:
    """Return the fingerprint of the secret that the tables were made with; empty before the first run."""
    recorded = tables.catalog.read(_CATALOG_TABLE).get(_CATALOG_KEY)
    return "" if recorded is None else recorded.content


def fingerprint_key(key: bytes) -> str:
    """Return a text by which a key is known again, and from which it cannot be computed."""
    return hmac.digest(key, _FINGERPRINT_OF, hashlib.sha256).hex()[:_FINGERPRINT_DIGITS]


def parse_key(text: str) -> bytes | None:
    """Return the 32 bytes that 64 hexadecimal digits stand for; None for any other text."""
    try:
        key = bytes.fromhex(text.strip())
    except ValueError:
        return None
    return key if len(key) == _SECRET_BYTES else None


def _remedy(path: Path, tables: Tables) -> str:
    return (
        f"the tables hold pseudonyms of the former secret. Restore {path.name} from a backup or another worker. To "
        f"give everyone another pseudonym instead, remove everything in {tables.store.locate('')} except cache.sqlite, "
        "and run `backstory run`: it then rebuilds every table"
    )


def _hold_pseudonyms(tables: Tables) -> bool:
    """Return whether stored messages hold pseudonyms, for workspaces whose catalog has no fingerprint."""
    return any(
        bool(tables.read("messages", [key])["author"].str.contains(f"^{PSEUDONYM}$").any())
        for key in tables.keys("messages")
    )


def _read_secret(path: Path) -> bytes:
    secret = parse_key(path.read_text(encoding="ascii", errors="replace"))
    if secret is None:
        raise WorkspaceError(
            f"{path} is not a secret of {2 * _SECRET_BYTES} hexadecimal digits; restore it from a backup",
            code="no_secret",
        )
    if path.stat().st_mode & 0o077:
        _logger.warning("%s is readable by other users; run `chmod 600 %s`", path, path)
    return secret


def _create_secret(path: Path) -> None:
    """Write a new secret, unless another process was first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{secrets.token_hex(_SECRET_BYTES)}\n")
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        Path(temporary).unlink()
