"""The tenants of a service without users, and a worker over them that can be a process of its own.

``python -m tests.interfaces.service.tenant_folders ROOT MOMENT`` works on all jobs under a root, and kills itself when
it touches the disk for the given time; a moment of -1 lets it live, and prints how often it did. With ``processes`` for
the moment, each job has a process of its own.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any, Final

from backstory.interfaces.service import indexing_pass
from backstory.interfaces.service.accounts import Accounts
from backstory.interfaces.service.index_jobs import IndexJobs
from backstory.interfaces.service.job_process import JobProcesses
from backstory.interfaces.service.keys import KeyRing
from backstory.interfaces.service.tenants import Tenants
from tests.caches import open_accounts
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


def open_tenants(root: Path) -> Tenants:
    """Open the tenants of a service, whose folders lie in ``root``."""
    accounts = Accounts(open_accounts(root.parent))
    keys = KeyRing(accounts.state, root.with_name(f"{root.parent.name}.key"))
    return Tenants(root.parent, keys, memory_bytes=1 << 30)


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
    tenants = open_tenants(root)
    jobs = IndexJobs(tenants, processes=JobProcesses() if in_processes else None)
    jobs.start()
    for name in tenants.names():
        jobs.wait(name)
    jobs.close()
    tenants.close()
    print(touched)


if __name__ == "__main__":
    main()
