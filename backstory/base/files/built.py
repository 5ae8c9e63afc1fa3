"""Files that are built from those of a package, such as the graph of a model, and cached in the user's cache folder."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable
from pathlib import Path

from backstory.base.environment import CACHE_VARIABLE
from backstory.base.errors import ModelFileError
from backstory.base.files.atomic import exclusive_temporary, publish, temporary_path
from backstory.base.telemetry.logs import log_event

logger = logging.getLogger(__name__)


def checksum_path(path: Path) -> Path:
    """Return the path of a built file's checksum, next to the file."""
    return path.with_name(f"{path.name}.sha256")


def require_built_file(path: Path, build: Callable[[], bytes]) -> None:
    """Build a file unless it exists and matches its recorded checksum.

    If several processes need it at once, one builds it and the rest wait. The file gets its name only when it is
    complete and on disk.

    Args:
        path: The file; its checksum is recorded beside it.
        build: Makes the content of the file.

    Raises:
        ModelFileError: The file cannot be written.
    """
    try:
        if _is_intact(path):
            return
        with exclusive_temporary(path) as file:
            if _is_intact(path):
                return
            if path.exists():
                logger.warning("%s differs from its checksum, and is built again", path)
            started = time.perf_counter()
            content = build()
            # The checksum is written first: a file that does not match it counts as incomplete.
            _replace(checksum_path(path), hashlib.sha256(content).hexdigest())
            file.write(content)
            file.flush()
            publish(temporary_path(path), path)
    except OSError as error:
        raise ModelFileError(
            f"what a model needs cannot be written to {path} ({error}); make room there, or set "
            f"{CACHE_VARIABLE} to a folder that can be written to",
            code="unwritable_folder",
        ) from error
    log_event(logger, "built", path=path, bytes=len(content), seconds=time.perf_counter() - started)


def _is_intact(path: Path) -> bool:
    try:
        recorded = checksum_path(path).read_text(encoding="ascii")
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == recorded
    except (FileNotFoundError, UnicodeDecodeError):
        return False


def _replace(path: Path, text: str) -> None:
    temporary_path(path).write_text(text, encoding="ascii")
    publish(temporary_path(path), path)
