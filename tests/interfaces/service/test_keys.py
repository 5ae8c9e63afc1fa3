"""Keys of tenants: sealed in the file of accounts, opened by a file outside, and used by one workspace alone."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import SecretStr

from backstory.base.environment import (
    ANSWER_KEY_VARIABLE,
    OPENAI_KEY_VARIABLE,
    WEBHOOK_VARIABLE,
    WRITER_KEY_VARIABLE,
    find_key,
    read_api_key,
    read_service_key,
)
from backstory.base.errors import InputError, ModelSetupError, StateError
from backstory.interfaces.service.accounts import Accounts
from backstory.interfaces.service.key_file import default_key_file, make_key_file, require_outside
from backstory.interfaces.service.keys import KeyRing
from tests.caches import open_accounts
from tests.errors import raises

OF_GARDEN = SecretStr("sk-of-the-garden")
OF_KITCHEN = SecretStr("sk-of-the-kitchen")


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    return tmp_path / "config" / "service.key"


@pytest.fixture
def ring(tmp_path: Path, key_file: Path) -> KeyRing:
    """Keys of the tenants garden and kitchen."""
    ring = KeyRing(Accounts(open_accounts(tmp_path / "root")).state, key_file)
    (tmp_path / "root").mkdir()
    ring.seal("garden", ANSWER_KEY_VARIABLE, OF_GARDEN)
    ring.seal("kitchen", ANSWER_KEY_VARIABLE, OF_KITCHEN)
    return ring


@pytest.mark.usefixtures("either_storage")
def test_each_tenant_opens_its_own_keys(ring: KeyRing) -> None:
    assert ring.open("garden") == {ANSWER_KEY_VARIABLE: OF_GARDEN}
    assert ring.open("kitchen") == {ANSWER_KEY_VARIABLE: OF_KITCHEN}
    assert ring.open("cellar") == {}
    assert ring.names("garden") == (ANSWER_KEY_VARIABLE,)


@pytest.mark.usefixtures("either_storage")
def test_a_key_is_replaced_and_removed(ring: KeyRing) -> None:
    before = ring.stamp("garden")
    ring.seal("garden", ANSWER_KEY_VARIABLE, SecretStr("sk-later"))
    assert ring.open("garden") == {ANSWER_KEY_VARIABLE: SecretStr("sk-later")}
    assert ring.stamp("garden") != before
    ring.remove("garden", ANSWER_KEY_VARIABLE)
    assert ring.names("garden") == ()
    with raises(InputError, "unknown_key", ANSWER_KEY_VARIABLE):
        ring.remove("garden", ANSWER_KEY_VARIABLE)
    assert ring.open("kitchen") == {ANSWER_KEY_VARIABLE: OF_KITCHEN}


def test_no_file_of_the_service_holds_a_key_and_the_key_file_is_private(
    ring: KeyRing, key_file: Path, tmp_path: Path
) -> None:
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    for key in (OF_GARDEN, OF_KITCHEN):
        assert key.get_secret_value().encode() not in stored
        assert key.get_secret_value() not in repr(ring.open("garden")) + repr(ring.open("kitchen"))
    assert key_file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in key_file.parent.iterdir()] == [key_file.name]


def test_without_the_key_file_no_key_is_read_and_none_is_added(ring: KeyRing, key_file: Path) -> None:
    key_file.unlink()
    for use in (lambda: ring.open("garden"), lambda: ring.seal("cellar", ANSWER_KEY_VARIABLE, OF_GARDEN)):
        with raises(StateError, "no_key_file", key_file):
            use()
    assert not key_file.exists()
    assert ring.open("cellar") == {}


@pytest.mark.usefixtures("either_storage")
def test_another_key_file_opens_nothing(ring: KeyRing, key_file: Path) -> None:
    key_file.unlink()
    make_key_file(key_file)
    with raises(StateError, "unopened_key", ANSWER_KEY_VARIABLE):
        ring.open("garden")
    with raises(StateError, "unopened_key"):
        ring.seal("cellar", ANSWER_KEY_VARIABLE, OF_GARDEN)


@pytest.mark.usefixtures("either_storage")
def test_a_sealed_key_opens_for_its_tenant_and_under_its_name_alone(ring: KeyRing) -> None:
    with ring.accounts.begin() as session:
        found = session.execute("SELECT sealed FROM sealed_keys WHERE tenant = 'garden'").fetchone()[0]
        copies = [("cellar", ANSWER_KEY_VARIABLE), ("kitchen", WRITER_KEY_VARIABLE)]
        rows = [*((*copy, found) for copy in copies), ("attic", ANSWER_KEY_VARIABLE, b"short")]
        session.executemany("INSERT INTO sealed_keys VALUES (?, ?, ?)", rows)
    for tenant in ("cellar", "kitchen", "attic"):
        with raises(StateError, "unopened_key"):
            ring.open(tenant)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o620])
def test_a_key_file_that_others_may_open_is_refused(ring: KeyRing, key_file: Path, mode: int) -> None:
    key_file.chmod(mode)
    with raises(StateError, "exposed_key_file", key_file):
        ring.open("garden")


@pytest.mark.parametrize("text", ["", "00" * 31, "00" * 33, "zz" * 32, "é" * 32])
def test_a_key_file_without_a_key_is_refused(ring: KeyRing, key_file: Path, text: str) -> None:
    key_file.write_text(text, encoding="utf-8")
    with raises(StateError, "damaged_key_file", key_file):
        ring.open("garden")


def test_what_is_no_file_is_no_key_file(ring: KeyRing, key_file: Path) -> None:
    key_file.unlink()
    os.mkfifo(key_file, 0o600)
    with raises(StateError, "unusable_key_file", key_file):
        ring.open("garden")


def test_a_key_file_in_the_folder_that_it_protects_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "link").symlink_to(root)
    for inside in (root / "service.key", root / "a" / "b.key", tmp_path / "link" / "service.key"):
        with raises(StateError, "key_file_inside", inside):
            require_outside(inside, root)
    require_outside(tmp_path / "root.key", root)
    require_outside(default_key_file(tmp_path), root)


def test_a_key_file_that_is_there_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "service.key"
    make_key_file(path)
    before = path.read_bytes()
    make_key_file(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["PATH", "BACKSTORY_MCP_TOKEN", "", "openai_api_key", "%"])
def test_only_keys_that_the_library_reads_are_stored(ring: KeyRing, name: str) -> None:
    with raises(InputError, "unknown_variable", name):
        ring.seal("garden", name, OF_GARDEN)


def test_what_is_no_key_is_refused_and_not_repeated(ring: KeyRing) -> None:
    with raises(ModelSetupError, "unusable_key", ANSWER_KEY_VARIABLE) as raised:
        ring.seal("garden", ANSWER_KEY_VARIABLE, SecretStr("sk-with\na break"))
    assert "sk-with" not in str(raised.value)
    with raises(InputError, "blank_key"):
        ring.seal("garden", ANSWER_KEY_VARIABLE, SecretStr(" \n"))
    with raises(InputError, "bad_tenant_name", "../kitchen"):
        ring.seal("../kitchen", ANSWER_KEY_VARIABLE, OF_GARDEN)
    assert ring.open("garden") == {ANSWER_KEY_VARIABLE: OF_GARDEN}


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Callable[[], dict[str, str]]:
    """Keys in the environment of the process, which are nobody's; gives a function that copies it."""
    for variable in ("GEMINI_API_KEY", OPENAI_KEY_VARIABLE, ANSWER_KEY_VARIABLE):
        monkeypatch.setenv(variable, "sk-of-the-process")
    monkeypatch.setenv(WEBHOOK_VARIABLE, "https://hooks.example/process")
    return lambda: dict(os.environ)


def test_a_workspace_with_keys_of_its_own_never_uses_those_of_the_process(
    ring: KeyRing, environment: Callable[[], dict[str, str]]
) -> None:
    before = environment()
    garden, cellar = ring.open("garden"), ring.open("cellar")
    address = "https://api.openai.com/v1"
    assert read_service_key(ANSWER_KEY_VARIABLE, address, garden) == OF_GARDEN
    for variable, keys in ((WRITER_KEY_VARIABLE, garden), (ANSWER_KEY_VARIABLE, cellar)):
        with raises(ModelSetupError, "missing_key", *(variable, OPENAI_KEY_VARIABLE)):
            read_service_key(variable, address, keys)
    assert read_service_key(WRITER_KEY_VARIABLE, "http://127.0.0.1:1/v1", garden) is None
    with raises(ModelSetupError, "missing_key"):
        read_api_key(garden)
    assert find_key(WEBHOOK_VARIABLE, garden) is None
    assert read_service_key(ANSWER_KEY_VARIABLE, address) == SecretStr("sk-of-the-process")
    assert environment() == before
