"""Tenants that are plain workspaces in a folder, and a worker over them that can be a process of its own.

``python -m tests.interfaces.service.tenant_folders ROOT MOMENT`` works on all jobs under a root, and kills itself when
it touches the disk for the given time; a moment of -1 lets it live, and prints how often it did. With ``processes`` for
the moment, each job has a process of its own.
"""

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from backstory.interfaces.library.library import Library
from backstory.interfaces.service import indexing_pass
from backstory.interfaces.service.index_jobs import IndexJobs
from backstory.interfaces.service.job_process import JobProcesses
from tests.interfaces.library.conftest import write_documents

SETTINGS: Final = "embedding: {provider: hashing}\ndocuments: {folder: posts}\n"
KEY: Final = "5e" * 32

_TOUCHES: Final = {
    "open",
    "os.rename",
    "os.remove",
    "os.mkdir",
    "os.link",
    "shutil.rmtree",
    "sqlite3.connect",
}


class TenantFolders:
    """The tenants of a root, each of which is opened once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._libraries: dict[str, Library] = {}

    def names(self) -> Sequence[str]:
        return sorted(path.name for path in self.root.iterdir())

    def folder(self, name: str) -> Path:
        return self.root / name

    def state_folder(self, name: str) -> Path:
        return self.root / name

    def share_files(self, name: str) -> None:
        assert self.folder(name).is_dir()

    def follow_removals(self) -> None:
        assert self.root.is_dir()

    @contextmanager
    def holding(self, name: str) -> Iterator[int]:
        descriptor = os.open(self.folder(name), os.O_RDONLY)
        yield descriptor
        os.close(descriptor)

    @contextmanager
    def entering(self, name: str) -> Iterator[Library]:
        if name not in self._libraries:
            self._libraries[name] = Library.open(self.folder(name))
        yield self._libraries[name]

    def open_keys(self, name: str) -> None:
        assert self.folder(name).is_dir()

    def read_quota(self, name: str) -> None:
        assert self.folder(name).is_dir()

    def close(self) -> None:
        for library in self._libraries.values():
            library.close()


def write_tenant(root: Path, name: str, *, more: int = 0) -> Path:
    """Write a tenant with six documents, and more of them, of which nothing is indexed."""
    folder = write_documents(root / name, SETTINGS)
    for number in range(more):
        text = f"# Page {number}\n\nThe page {number} is about lamp {number % 7} and moth {number % 5}.\n"
        (folder / "posts" / f"page-{number:04}.md").write_text(text, encoding="utf-8")
    return folder


def main() -> None:
    root, in_processes = Path(sys.argv[1]), sys.argv[2] == "processes"
    moment = -1 if in_processes else int(sys.argv[2])
    touched = 0

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal touched
        if event in _TOUCHES and str(root) in str(arguments):
            if touched == moment:
                os.kill(os.getpid(), signal.SIGKILL)
            touched += 1

    # So that it touches the disk as often on any machine.
    vars(indexing_pass)["_SECONDS_BETWEEN_RECORDS"] = 0.0
    sys.addaudithook(count)
    tenants = TenantFolders(root)
    jobs = IndexJobs(tenants, processes=JobProcesses() if in_processes else None)
    jobs.start()
    for name in tenants.names():
        jobs.wait(name)
    jobs.close()
    print(touched)


if __name__ == "__main__":
    main()
