"""The two forms of a workspace, for tests that expect the same of both: of one machine, and shared by several."""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from backstory.storage.state import close_idle
from tests.bucket import Bucket
from tests.postgres import PostgresServer

Share: TypeAlias = Callable[[Path], None]

ONE_MACHINE = pytest.mark.parametrize("share", ["one machine"], indirect=True)
"""For a test of those over both, which is of files that only one machine has."""
BOTH_FORMS = pytest.mark.parametrize("share", ["one machine", "shared"], indirect=True)
"""For a test of those over both, which is quick enough to run over both each time."""
SHARED = "storage: "
"""How the line of the settings begins that makes a workspace a shared one."""


def is_shared(root: Path) -> bool:
    """Return whether the settings in a folder name servers."""
    return f"\n{SHARED}" in (root / "backstory.yaml").read_text(encoding="utf-8")


@pytest.fixture(params=["one machine", pytest.param("shared", marks=pytest.mark.long)])
def share(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Share]:
    """Give a function that lets the settings in a folder name a database and a bucket, the same for all of a test.

    It does nothing in the form of one machine.
    """
    if request.param == "one machine":
        yield lambda _: None
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    bucket: Bucket = request.getfixturevalue("bucket")
    address = server.make_address()
    prefix = hashlib.sha256(str(tmp_path).encode()).hexdigest()[:16]

    def name_servers(root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        with (root / "backstory.yaml").open("a", encoding="utf-8") as settings:
            settings.write(f"{SHARED}{{database: '{address}', files: '{bucket.root}/{prefix}'}}\n")

    yield name_servers
    close_idle(address)
