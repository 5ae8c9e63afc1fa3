"""A service on several machines, which share nothing but a database: each is a folder of its own here."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from backstory.base.environment import ANSWER_KEY_VARIABLE
from backstory.base.errors import SettingsError, StateError
from backstory.interfaces.service.opening import ServiceFolder, open_service_folder
from backstory.storage.state import close_idle
from tests.errors import raises
from tests.postgres import PostgresServer


@pytest.fixture
def database(postgres_server: PostgresServer) -> Iterator[str]:
    """The address of an empty database."""
    address = postgres_server.make_address()
    yield address
    close_idle(address)


@pytest.fixture
def roots(tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The folders of a service on two machines."""
    monkeypatch.setenv("BACKSTORY_CACHE_DIR", str(tmp_path / "cache"))
    roots = tmp_path / "one" / "service", tmp_path / "two" / "service"
    for root in roots:
        root.mkdir(parents=True)
        shared = f"storage: {{database: '{database}', files: '{(tmp_path / 'shared').as_uri()}'}}\n"
        (root / "service.yaml").write_text(shared, encoding="utf-8")
    return roots


def open_one(root: Path) -> ServiceFolder:
    """Open a service with a key file of its own."""
    return open_service_folder(root, root.with_name("service.key"), makes=True)


def test_a_token_that_one_machine_revokes_is_refused_by_the_other_at_once(roots: tuple[Path, Path]) -> None:
    one, two = map(open_one, roots)
    one.accounts.add_user("anna")
    one.accounts.grant("anna", "garden", "reader")
    token = two.accounts.make_token("anna")
    caller = one.accounts.authenticate(token)
    assert caller is not None
    assert dict(caller.roles) == {"garden": "reader"}
    opened = one.accounts.open_session(token)
    assert opened is not None
    assert two.accounts.find_session(opened) == caller
    two.accounts.revoke("anna", "garden")
    found = one.accounts.find_session(opened)
    assert found is not None
    assert dict(found.roles) == {}
    two.accounts.revoke_token(caller.token_id)
    assert one.accounts.authenticate(token) is None
    assert one.accounts.find_session(opened) is None
    one.tenants.quotas.set("garden", 7)
    assert two.tenants.quotas.read("garden") == 7
    assert not any((root / "service.sqlite").exists() for root in roots)


def test_a_stored_key_opens_on_every_machine_that_has_the_key_file(roots: tuple[Path, Path]) -> None:
    one, two = map(open_one, roots)
    key = SecretStr("sk-of-the-garden")
    one.keys.seal("garden", ANSWER_KEY_VARIABLE, key)
    with raises(StateError, "no_key_file"):
        two.keys.open("garden")
    shutil.copy(roots[0].with_name("service.key"), roots[1].with_name("service.key"))
    assert two.keys.open("garden") == {ANSWER_KEY_VARIABLE: key}


def test_accounts_of_a_file_go_on_in_the_database(roots: tuple[Path, Path]) -> None:
    one, settings = roots[0], roots[0] / "service.yaml"
    said = settings.read_text(encoding="utf-8")
    settings.unlink()
    before = open_one(one)
    before.accounts.add_user("anna")
    before.accounts.grant("anna", "garden", "owner")
    token = before.accounts.make_token("anna")
    before.keys.seal("garden", ANSWER_KEY_VARIABLE, SecretStr("sk"))
    caller = before.accounts.authenticate(token)
    assert caller is not None
    settings.write_text(said, encoding="utf-8")
    for _ in range(2):
        after = open_one(one)
        assert after.accounts.authenticate(token) == caller
        assert after.keys.names("garden") == (ANSWER_KEY_VARIABLE,)
    assert [path.name for path in one.glob("service.sqlite*")] == ["service.sqlite.moved"]
    # Another machine had accounts of its own, of which one has the same name.
    (roots[1] / "service.yaml").unlink()
    open_one(roots[1]).accounts.add_user("anna")
    (roots[1] / "service.yaml").write_text(said, encoding="utf-8")
    with raises(StateError, "other_rows"):
        open_one(roots[1])
    assert (roots[1] / "service.sqlite").exists()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("storage: {files: 's3://bucket/prefix'}", "other_setting"),
        ("storage: {database: 'postgresql:///it'}", "other_setting"),
        ("rag: {top_k: 3}", "other_setting"),
        ("storage: {database: 'mysql://here/it'}", "invalid_setting"),
        ("storage: {databases: 1}", "unknown_setting"),
    ],
)
def test_settings_of_a_service_name_its_database_and_store_alone(
    tmp_path: Path, text: str, code: str
) -> None:
    (tmp_path / "service.yaml").write_text(text, encoding="utf-8")
    with raises(SettingsError, code):
        open_one(tmp_path)
