"""The key file of a service, which opens the sealed keys of tenants. It lies outside of the service's folder."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import Final

from backstory.base.errors import StateError

KEY_BYTES: Final = 32
_FILE_NAME: Final = "service.key"
_OWNER_ONLY: Final = 0o600
_OTHERS: Final = 0o077


def default_key_file(folder: Path) -> Path:
    """Return the path of the key file if none is named."""
    return folder / _FILE_NAME


def require_outside(path: Path, root: Path) -> None:
    """Raise if the key file would be copied, backed up or lost together with what it opens."""
    if path.resolve().is_relative_to(root.resolve()):
        raise StateError(
            f"the key file {path} lies in {root}, whose keys it opens: whoever copies the folder would have both; "
            "name a place outside by --key-file",
            code="key_file_inside",
        )


def make_key_file(path: Path) -> None:
    """Make a key file with a random key, which only its owner may read; one that is there is left alone."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
        try:
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(f"{secrets.token_hex(KEY_BYTES)}\n")
                file.flush()
                os.fsync(file.fileno())
            # A link does not replace what another process has made meanwhile.
            os.link(temporary, path)
        except FileExistsError:
            pass
        finally:
            temporary.unlink()
    except OSError as error:
        raise StateError(
            f"the key file {path} cannot be made ({error.strerror}); name another place by --key-file",
            code="unusable_key_file",
        ) from error


def read_key_file(path: Path) -> bytes:
    """Read the key of a file that nobody but its owner may read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise StateError(
            f"the key file {path} is absent, and without it no stored key of a tenant can be read; restore it, or "
            "remove the keys by `backstory serve key remove` and store them again",
            code="no_key_file",
        ) from error
    except OSError as error:
        raise StateError(
            f"the key file {path} cannot be read ({error.strerror}); permit it to the user of the service",
            code="unusable_key_file",
        ) from error
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise StateError(f"{path} is no file; name the key file", code="unusable_key_file")
        if stat.S_IMODE(found.st_mode) & _OTHERS or found.st_uid not in (os.geteuid(), 0):
            raise StateError(
                f"the key file {path} is open to other users of the machine; close it by `chmod 600 {path}`, as its "
                "owner, who must be the user of the service",
                code="exposed_key_file",
            )
        text = file.read(4 * KEY_BYTES)
    try:
        key = bytes.fromhex(text.decode("ascii"))
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise StateError(
            f"the key file {path} holds no key of {KEY_BYTES} bytes; restore it from a copy",
            code="damaged_key_file",
        )
    return key
