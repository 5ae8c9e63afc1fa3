"""Each tenant reads Google Drive by its own sealed credentials, and never by those of the service's process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from backstory.base.environment import DRIVE_VARIABLE, hook_environment
from backstory.base.errors import InputError, ModelSetupError
from backstory.ingest.sources import drive as google_drive
from backstory.ingest.sources.remotes import read_state
from backstory.interfaces.service.accounts import Accounts
from backstory.interfaces.service.index_jobs import IndexJobs
from backstory.interfaces.service.keys import KeyRing
from backstory.interfaces.service.tenants import Tenants
from tests.caches import open_accounts
from tests.errors import raises
from tests.ingest.sources.drive_server import (
    FOLDER,
    MARKDOWN,
    Drive,
    copies,
    make_service_account,
    make_user,
    serve_drive,
)
from tests.interfaces.service.tenant_folders import SETTINGS

OPERATOR = "operator@service.example"
GARDEN = "garden@service.example"
KITCHEN = "refresh-token-of-the-kitchen"


@pytest.fixture
def drive(monkeypatch: pytest.MonkeyPatch) -> Iterator[Drive]:
    with serve_drive() as drive:
        monkeypatch.setattr(google_drive, "ADDRESS", drive.address)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        for name in ("garden", "kitchen"):
            drive.put(name, name, FOLDER, below="")
            drive.put(
                f"{name}-page", f"{name}.md", MARKDOWN, f"# {name}\n\nOf {name}.\n".encode(), below=name
            )
        yield drive


@pytest.fixture
def operator(drive: Drive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put credentials into the environment of the process, in both of the ways that a workspace alone reads."""
    path = tmp_path / "operator.json"
    path.write_text(make_service_account(drive, OPERATOR))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    monkeypatch.setenv(DRIVE_VARIABLE, path.read_text())


@pytest.fixture
def tenants(tmp_path: Path) -> Iterator[Tenants]:
    root = tmp_path / "root"
    root.mkdir()
    keys = KeyRing(Accounts(open_accounts(root)).state, tmp_path / "config" / "service.key")
    tenants = Tenants(root, keys, memory_bytes=1 << 30)
    for name in ("garden", "kitchen"):
        source = f"{{drive: {{folder: {name}}}, name: team}}"
        settings = SETTINGS.replace("{folder: posts}", f"{{folder: posts, sources: [{source}]}}")
        (tenants.create(name) / "backstory.yaml").write_text(settings)
    yield tenants
    tenants.close()


@pytest.fixture
def jobs(tenants: Tenants) -> Iterator[IndexJobs]:
    jobs = IndexJobs(tenants)
    jobs.start()
    yield jobs
    jobs.close()


def index(jobs: IndexJobs, tenants: Tenants, tenant: str) -> Path:
    """Index a tenant, and return the mirror of its source."""
    jobs.submit(tenant, "user-1")
    jobs.wait(tenant)
    return tenants.folder(tenant) / ".backstory" / "mirrors" / "team"


def list_accounts(drive: Drive) -> set[str]:
    """List who has asked since the last time."""
    asked = {value.removeprefix("Bearer token-of-") for value in drive.authorizations}
    drive.authorizations.clear()
    return asked


@pytest.mark.usefixtures("operator")
def test_each_tenant_reads_by_its_own_account(drive: Drive, tenants: Tenants, jobs: IndexJobs) -> None:
    tenants.keys.seal("garden", DRIVE_VARIABLE, SecretStr(make_service_account(drive, GARDEN)))
    tenants.keys.seal("kitchen", DRIVE_VARIABLE, SecretStr(make_user(drive, KITCHEN)))
    assert copies(index(jobs, tenants, "garden")) == {"garden.md": b"# garden\n\nOf garden.\n"}
    assert list_accounts(drive) == {GARDEN}
    assert copies(index(jobs, tenants, "kitchen")) == {"kitchen.md": b"# kitchen\n\nOf kitchen.\n"}
    assert list_accounts(drive) == {KITCHEN}
    tenants.keys.seal("kitchen", DRIVE_VARIABLE, SecretStr(make_user(drive, "later")))
    index(jobs, tenants, "kitchen")
    assert list_accounts(drive) == {"later"}


@pytest.mark.usefixtures("operator")
def test_a_tenant_without_credentials_asks_nothing_and_says_so(
    drive: Drive, tenants: Tenants, jobs: IndexJobs
) -> None:
    mirror = index(jobs, tenants, "garden")
    assert DRIVE_VARIABLE in read_state(mirror).problem
    assert (drive.asked, drive.authorizations) == ([], [])


def test_credentials_that_google_refuses_remove_nothing(
    drive: Drive, tenants: Tenants, jobs: IndexJobs, caplog: pytest.LogCaptureFixture
) -> None:
    tenants.keys.seal("kitchen", DRIVE_VARIABLE, SecretStr(make_user(drive, KITCHEN)))
    before = copies(index(jobs, tenants, "kitchen"))
    drive.refused.add("revoked")
    tenants.keys.seal("kitchen", DRIVE_VARIABLE, SecretStr(make_user(drive, "revoked")))
    mirror = index(jobs, tenants, "kitchen")
    assert read_state(mirror).problem
    assert copies(mirror) == before
    with tenants.entering("kitchen") as library:
        assert [file.state for file in library.files() if file.uri == "team://kitchen.md"] == ["read"]
    written = [path.read_bytes() for path in tenants.root.rglob("*") if path.is_file()]
    for secret in (KITCHEN, "revoked", "token-of-"):
        assert secret not in caplog.text
        assert not any(secret.encode() in content for content in written)


@pytest.mark.usefixtures("operator")
def test_commands_that_settings_name_get_no_credentials() -> None:
    assert DRIVE_VARIABLE not in hook_environment()


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "external_account"},
        {"type": ["service_account"]},
        {"refresh_token": ""},
        {"client_secret": None},
        {"token_uri": "http://elsewhere.example/token"},
    ],
)
def test_what_is_no_safe_credential_is_refused_and_not_quoted(
    drive: Drive, tenants: Tenants, fields: dict[str, object]
) -> None:
    text = json.dumps({**json.loads(make_user(drive, KITCHEN)), **fields})
    for value in (text, "[]", "no JSON", '"text"'):
        with raises(ModelSetupError, "unusable_key", DRIVE_VARIABLE) as caught:
            tenants.keys.seal("kitchen", DRIVE_VARIABLE, SecretStr(value))
        assert value not in str(caught.value)
    with raises(InputError, "blank_key"):
        tenants.keys.seal("kitchen", DRIVE_VARIABLE, SecretStr(" \n"))
    assert tenants.keys.names("kitchen") == ()


def test_a_key_that_is_damaged_is_said_and_not_quoted(
    drive: Drive, tenants: Tenants, jobs: IndexJobs
) -> None:
    account = json.loads(make_service_account(drive, GARDEN))
    text = json.dumps({**account, "private_key": "-----BEGIN PRIVATE KEY-----\nsecret\n"})
    tenants.keys.seal("garden", DRIVE_VARIABLE, SecretStr(text))
    problem = read_state(index(jobs, tenants, "garden")).problem
    assert problem
    assert "secret" not in problem
    assert drive.asked == []
