"""The key of the pseudonyms, and the guard against going on with another one."""

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

from backstory.errors import WorkspaceError
from backstory.privacy.pseudonyms import PSEUDONYM
from backstory.tables import list_partitions, read_table
from backstory.tables.ledger import Entry, Ledger

_SECRET_BYTES = 32
_FINGERPRINT_DIGITS = 16
_FINGERPRINT_OF: Final = b"\0fingerprint of the secret"  # no name holds a NUL, so no pseudonym equals it
_LEDGER_TABLE: Final = "secret"
_LEDGER_KEY: Final = "fingerprint"

_logger = logging.getLogger(__name__)


def load_secret(path: Path, ledger: Ledger, tables: Path) -> bytes:
    """Read the secret of a workspace; the first run makes it.

    The file appears at once and complete, readable by its owner only. Processes that call this at the same
    time agree on one secret. Its fingerprint, from which the secret cannot be computed, is kept with the tables,
    so that pseudonyms of two secrets never stand beside each other.

    Args:
        path: Where the secret lies.
        ledger: Keeps the fingerprint.
        tables: Folder of the tables.

    Returns:
        32 bytes.

    Raises:
        WorkspaceError: The file is not a secret that this function wrote, or the tables hold pseudonyms of a
            secret that is lost or another one.
    """
    recorded = ledger.read(_LEDGER_TABLE).get(_LEDGER_KEY)
    try:
        secret = _read_secret(path)
    except FileNotFoundError:
        if recorded or _hold_pseudonyms(tables):
            raise WorkspaceError(f"{path} is lost, but {_remedy(path, tables)}") from None
        _create_secret(path)
        secret = _read_secret(path)
    fingerprint = hmac.digest(secret, _FINGERPRINT_OF, hashlib.sha256).hex()[:_FINGERPRINT_DIGITS]
    if recorded is None:
        ledger.record(_LEDGER_TABLE, {_LEDGER_KEY: Entry("", fingerprint, 0)})
    elif not hmac.compare_digest(recorded.content, fingerprint):
        raise WorkspaceError(f"{path} is another secret than before, but {_remedy(path, tables)}")
    return secret


def _remedy(path: Path, tables: Path) -> str:
    return (
        f"the tables hold pseudonyms that were made with it. Restore {path.name} from a backup. To give everyone "
        f"another pseudonym instead, remove all of {tables} but embeddings.sqlite, and run again: every table is "
        "then made anew"
    )


def _hold_pseudonyms(tables: Path) -> bool:
    """Say whether stored messages hold pseudonyms, for workspaces whose ledger keeps no fingerprint."""
    return any(
        bool(read_table(tables, "messages", [key])["author"].str.contains(f"^{PSEUDONYM}$").any())
        for key in list_partitions(tables, "messages")
    )


def _read_secret(path: Path) -> bytes:
    text = path.read_text(encoding="ascii", errors="replace").strip()
    try:
        secret = bytes.fromhex(text)
    except ValueError:
        secret = b""
    if len(secret) != _SECRET_BYTES:
        raise WorkspaceError(
            f"{path} is not a secret of {2 * _SECRET_BYTES} hexadecimal digits; restore it from a backup"
        )
    if path.stat().st_mode & 0o077:
        _logger.warning("%s can be read by others; run `chmod 600 %s`", path, path)
    return secret


def _create_secret(path: Path) -> None:
    """Publish a secret under its name unless another process was first."""
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
