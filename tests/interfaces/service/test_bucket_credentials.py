"""Each tenant reads buckets by its own sealed credentials, and never by those of the service's process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from pydantic import SecretStr

from backstory.base.environment import BUCKET_VARIABLE
from backstory.base.errors import ModelSetupError
from backstory.ingest.sources.remotes import read_state
from backstory.interfaces.service.accounts import Accounts
from backstory.interfaces.service.index_jobs import IndexJobs
from backstory.interfaces.service.keys import KeyRing
from backstory.interfaces.service.tenants import Tenants
from tests.caches import open_accounts
from tests.errors import raises
from tests.ingest.sources.drive_server import copies
from tests.interfaces.service.tenant_folders import SETTINGS

STORED = {"key": "key-of-the-garden", "secret": "secret-of-the-garden"}
ASKED: list[dict[str, Any]] = []


class Bucket(MemoryFileSystem):  # type: ignore[misc]
    """A bucket in memory that notes by which credentials it is asked, as s3fs takes them."""

    protocol = "s3"

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return "/" + path.removeprefix("s3://").strip("/")

    def __init__(self, **options: Any) -> None:
        super().__init__()
        ASKED.append({name: value for name, value in options.items() if name in ("key", "secret", "anon")})


@pytest.fixture
def tenants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tenants]:
    for name, value in {"AWS_ACCESS_KEY_ID": "of-the-operator", "AWS_SECRET_ACCESS_KEY": "x"}.items():
        monkeypatch.setenv(name, value)
    # The package calls a mapping as it calls the module that holds it.
    monkeypatch.setitem(vars(import_module("fsspec.registry"))["_registry"], "s3", Bucket)
    ASKED.clear()
    root = tmp_path / "root"
    root.mkdir()
    keys = KeyRing(Accounts(open_accounts(root)).state, tmp_path / "config" / "service.key")
    tenants = Tenants(root, keys, memory_bytes=1 << 30)
    settings = SETTINGS.replace(
        "{folder: posts}", "{folder: posts, sources: [{url: s3://wiki/pages, name: wiki}]}"
    )
    (tenants.create("garden") / "backstory.yaml").write_text(settings)
    MemoryFileSystem().pipe_file("/wiki/pages/lamps.md", b"# Lamps")
    yield tenants
    tenants.close()


def index(tenants: Tenants) -> Path:
    jobs = IndexJobs(tenants)
    jobs.start()
    jobs.submit("garden", "user-1")
    jobs.wait("garden")
    jobs.close()
    return tenants.folder("garden") / ".backstory" / "mirrors" / "wiki"


def test_a_tenant_without_credentials_asks_no_bucket(tenants: Tenants) -> None:
    assert BUCKET_VARIABLE in read_state(index(tenants)).problem
    assert ASKED == []


def test_a_tenant_asks_by_its_own_credentials(tenants: Tenants) -> None:
    tenants.keys.seal("garden", BUCKET_VARIABLE, SecretStr(json.dumps({"s3": STORED})))
    mirror = index(tenants)
    assert read_state(mirror).problem == ""
    assert copies(mirror) == {"lamps.md": b"# Lamps"}
    assert ASKED
    assert all(asked == STORED for asked in ASKED)
    written = [path.read_bytes() for path in tenants.root.rglob("*") if path.is_file()]
    assert not any(secret.encode() in content for content in written for secret in STORED.values())


@pytest.mark.parametrize(
    "told",
    [
        "[]",
        "{}",
        '{"s3": {"endpoint_url": "https://example.org"}}',
        '{"s3": {"key": "a"}}',
        '{"gs": {"token": "google_default"}}',
        '{"ftp": {"password": "x"}}',
    ],
)
def test_credentials_that_leave_something_to_the_environment_are_refused(tenants: Tenants, told: str) -> None:
    with raises(ModelSetupError, "unusable_key", BUCKET_VARIABLE):
        tenants.keys.seal("garden", BUCKET_VARIABLE, SecretStr(told))
