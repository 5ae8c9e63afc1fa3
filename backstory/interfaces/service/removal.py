"""Removes what a tenant has, and proves by a search of all files of the service that it is gone."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from backstory.interfaces.service.account_rows import count_rows, forget_tenant, read_sealed
from backstory.interfaces.service.tenant_places import Emptied
from backstory.storage.state import State

_BYTES_AT_ONCE: Final = 1 << 20
_SECRET: Final = Path(".backstory", "secret.key")


@dataclass(frozen=True, slots=True)
class RemovalProof:
    """What was removed, and what a search of all files of the service found of it.

    Attributes:
        tenant: Name of the tenant.
        removed_files: Number of files in its folder.
        removed_rows: Number of its roles, keys and quota.
        searched_files: Number of files that are left, each of which was searched.
        left: Files that still hold something of the tenant, relative to the folder of the service, sorted; then objects
            of the store that are left of it.
        left_rows: Number of its roles, keys and quota that are left.
        removed_state: Number of rows in the database.
        removed_objects: Number of objects in the store.
    """

    tenant: str
    removed_files: int
    removed_rows: int
    searched_files: int
    left: tuple[str, ...]
    left_rows: int
    removed_state: int = 0
    removed_objects: int = 0

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left."""
        return not self.left and not self.left_rows

    def join(self, emptied: Emptied) -> RemovalProof:
        """Add what was found outside of the folder of the service."""
        left = (*self.left, *emptied.left)
        return replace(self, left=left, removed_state=emptied.rows, removed_objects=emptied.objects)


@dataclass(frozen=True, slots=True)
class _Marks:
    """What only the files of one tenant have: their identities on the disk, and byte strings in what they hold."""

    files: frozenset[tuple[int, ...]]
    texts: tuple[bytes, ...]


def remove_files(root: Path, tenant: str, folder: Path, aside: Path, accounts: State) -> RemovalProof:
    """Remove what a tenant has, and search for what is left.

    The search goes through every file of the service. It looks for files of the tenant that have another name as well,
    and for the path of the tenant's folder, its secret and its sealed keys in the bytes of all others. It follows no
    link. The folder lies aside, so that nobody enters it; one that something made again is removed as well.
    """
    with accounts.begin() as session:
        marks = _find_marks(folder, aside, read_sealed(session, tenant))
        removed_rows = count_rows(session, tenant)
        forget_tenant(session, tenant)
    accounts.compact()
    shutil.rmtree(aside)
    if folder.is_dir():
        shutil.rmtree(folder)
    searched = list(list_files(root))
    left = sorted(path.relative_to(root).as_posix() for path in searched if _holds(path, marks))
    with accounts.reading() as session:
        left_rows = count_rows(session, tenant)
    return RemovalProof(tenant, len(marks.files), removed_rows, len(searched), tuple(left), left_rows)


def list_files(folder: Path) -> Iterator[Path]:
    """Yield every regular file below a folder, without following links."""
    for place, _, names in os.walk(folder, onerror=_fail):
        for name in names:
            path = Path(place, name)
            if stat.S_ISREG(path.lstat().st_mode):
                yield path


def _fail(error: OSError) -> None:
    raise error


def _find_marks(folder: Path, aside: Path, sealed: list[bytes]) -> _Marks:
    texts = [os.fsencode(f"{folder}/"), os.fsencode(f"{aside}/"), *sealed]
    secret = aside / _SECRET
    if secret.is_file() and (text := secret.read_bytes().strip()):
        texts.append(text)
    return _Marks(frozenset(_identify(path.lstat()) for path in list_files(aside)), tuple(texts))


def _identify(found: os.stat_result) -> tuple[int, ...]:
    # The number of a removed file may be that of the next one that is made, which has another time.
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def _holds(path: Path, marks: _Marks) -> bool:
    with path.open("rb") as file:
        if _identify(os.fstat(file.fileno())) in marks.files:
            return True
        overlap = max(map(len, marks.texts)) - 1
        end = b""
        while block := file.read(_BYTES_AT_ONCE):
            searched = end + block
            if any(text in searched for text in marks.texts):
                return True
            end = searched[-overlap:]
    return False
