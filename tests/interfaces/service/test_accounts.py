"""Users, tokens and roles: who is let in, for how long, and what the file of accounts holds of a token."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from backstory.base.errors import InputError, StateError
from backstory.interfaces.service.account_rows import forget_tenant
from backstory.interfaces.service.accounts import SESSION_HOURS, TOKEN_PREFIX, Accounts
from backstory.storage.schema import ACCOUNTS
from backstory.storage.state_sqlite import SqliteState
from tests.caches import open_accounts
from tests.errors import raises
from tests.postgres import ON_FILES

pytestmark = pytest.mark.usefixtures("either_storage")

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def accounts(tmp_path: Path) -> Accounts:
    """Accounts with the users anna and ben."""
    made = Accounts(open_accounts(tmp_path))
    made.add_user("anna", now=NOW)
    made.add_user("ben", now=NOW)
    return made


def read_stored(accounts: Accounts) -> bytes:
    """Read all that is stored: the bytes of files, or every value of every table."""
    if isinstance(accounts.state, SqliteState):
        return b"".join(each.read_bytes() for each in accounts.state.path.parent.iterdir() if each.is_file())
    with accounts.state.reading() as session:
        rows = [
            row
            for table in ACCOUNTS.tables
            for row in session.execute(f"SELECT * FROM {table.name}").fetchall()
        ]
    values = [value for row in rows for value in row if value is not None]
    return b"\0".join(value if isinstance(value, bytes) else str(value).encode() for value in values)


def test_a_token_names_its_user_with_their_roles(accounts: Accounts) -> None:
    accounts.grant("anna", "garden", "editor")
    accounts.grant("anna", "kitchen", "reader")
    accounts.grant("ben", "cellar", "owner")
    token = accounts.make_token("anna")
    caller = accounts.authenticate(token)
    assert caller is not None
    assert (caller.name, dict(caller.roles)) == ("anna", {"garden": "editor", "kitchen": "reader"})
    [listed] = accounts.list_tokens()
    assert (listed.token_id, listed.user, listed.expires_at) == (caller.token_id, "anna", None)
    allowed = [caller.may("garden", role) for role in ("reader", "editor", "owner")]
    assert allowed == [True, True, False]
    assert not caller.may("cellar", "reader")


def test_a_token_is_long_and_only_its_hash_is_stored(accounts: Accounts) -> None:
    tokens = {accounts.make_token("anna") for _ in range(20)}
    assert len(tokens) == 20
    stored = read_stored(accounts)
    for token in tokens:
        secret = token.removeprefix(TOKEN_PREFIX)
        assert token.startswith(TOKEN_PREFIX)
        assert len(secret) == 43
        assert secret.encode() not in stored


@pytest.mark.parametrize(
    "change", [str.upper, str.lower, lambda token: token[:-1], lambda token: f"{token} "]
)
def test_a_token_that_differs_at_all_is_refused(accounts: Accounts, change: Callable[[str], str]) -> None:
    token = accounts.make_token("anna")
    assert change(token) != token
    assert accounts.authenticate(change(token)) is None


@ON_FILES
@pytest.mark.parametrize(
    "guess", ["", "bst_", "%", "_" * 47, "' OR 1=1 --", "bst_\x00", "\udce9", "é" * 47, "a" * 100_000]
)
def test_what_is_no_token_is_refused(accounts: Accounts, guess: str) -> None:
    accounts.make_token("anna")
    assert accounts.authenticate(guess) is None


def test_nobody_is_let_in_before_there_is_a_file(tmp_path: Path) -> None:
    accounts = Accounts(open_accounts(tmp_path))
    assert accounts.authenticate("bst_anything") is None
    assert accounts.list_users() == []
    assert list(tmp_path.iterdir()) == []


def test_a_token_ends_on_its_day(accounts: Accounts) -> None:
    token = accounts.make_token("anna", days=30, now=NOW)
    end = NOW + timedelta(days=30)
    assert accounts.authenticate(token, now=end - timedelta(seconds=1)) is not None
    assert accounts.authenticate(token, now=end) is None
    assert [listed.expires_at for listed in accounts.list_tokens()] == [end]


@ON_FILES
@pytest.mark.parametrize("days", [0, -1, 10**9])
def test_an_impossible_number_of_days_is_refused(accounts: Accounts, days: int) -> None:
    with raises(InputError, "bad_days"):
        accounts.make_token("anna", days=days)
    assert accounts.list_tokens() == []


def test_a_revoked_token_is_refused_at_once_and_by_every_process(accounts: Accounts) -> None:
    first, second = accounts.make_token("anna"), accounts.make_token("anna")
    caller = accounts.authenticate(first)
    assert caller is not None
    Accounts(accounts.state).revoke_token(caller.token_id)
    assert accounts.authenticate(first) is None
    assert accounts.authenticate(second) is not None
    with raises(InputError, "unknown_token", caller.token_id):
        accounts.revoke_token(caller.token_id)


def test_a_role_that_is_taken_back_ends_with_the_next_request(accounts: Accounts) -> None:
    accounts.grant("anna", "garden", "reader")
    accounts.grant("anna", "garden", "owner")
    token = accounts.make_token("anna")
    caller = accounts.authenticate(token)
    assert caller is not None
    assert caller.may("garden", "owner")
    accounts.revoke("anna", "garden")
    caller = accounts.authenticate(token)
    assert caller is not None
    assert dict(caller.roles) == {}
    with raises(InputError, "no_role", "anna"):
        accounts.revoke("anna", "garden")


def test_a_removed_user_is_gone_and_a_later_one_of_the_same_name_is_another(accounts: Accounts) -> None:
    accounts.grant("anna", "garden", "owner")
    token = accounts.make_token("anna")
    former = accounts.authenticate(token)
    assert former is not None
    accounts.remove_user("anna")
    assert accounts.authenticate(token) is None
    assert accounts.list_tokens() == []
    assert accounts.add_user("anna") != former.user_id
    later = accounts.authenticate(accounts.make_token("anna"))
    assert later is not None
    assert dict(later.roles) == {}
    assert {user.name for user in accounts.list_users()} == {"anna", "ben"}


def test_a_later_tenant_of_the_same_name_begins_without_roles(accounts: Accounts) -> None:
    for user in ("anna", "ben"):
        accounts.grant(user, "garden", "owner")
        accounts.grant(user, "kitchen", "reader")
    with accounts.state.begin() as session:
        forget_tenant(session, "garden")
    assert [dict(user.roles) for user in accounts.list_users()] == [{"kitchen": "reader"}] * 2


NO_NAMES = ["", ".", "..", "a/b", "a\\b", "a b", "a\n", "ａnna", "аnna", "a'", 'a"', "a%", "a*", "a\x00"]


@ON_FILES
@pytest.mark.parametrize("name", [*NO_NAMES, "-a", "A", "a" * 101])
def test_a_name_that_could_be_taken_for_another_or_for_a_pattern_is_refused(
    accounts: Accounts, name: str
) -> None:
    with raises(InputError, "bad_user_name", name):
        accounts.add_user(name)


@ON_FILES
@pytest.mark.parametrize("tenant", [*NO_NAMES, "-a", "A", "a.b", "a_b", "a" * 64])
def test_a_role_is_granted_only_in_what_can_be_a_tenant(accounts: Accounts, tenant: str) -> None:
    with raises(InputError, "bad_tenant_name", tenant):
        accounts.grant("anna", tenant, "reader")


def test_what_is_unknown_is_named(accounts: Accounts) -> None:
    with raises(InputError, "known_user", "anna"):
        accounts.add_user("anna")
    with raises(InputError, "unknown_user", "a%"):
        accounts.make_token("a%")
    with raises(InputError, "unknown_user", "nobody"):
        accounts.remove_user("nobody")
    with raises(InputError, "unknown_role", "admin"):
        accounts.grant("anna", "garden", "admin")


@ON_FILES
def test_a_damaged_file_lets_nobody_in_and_is_not_replaced(accounts: Accounts) -> None:
    token = accounts.make_token("anna")
    path = Path(accounts.state.place)
    accounts.state.close()
    path.write_bytes(b"no database" * 1000)
    before = path.read_bytes()
    with raises(StateError, "damaged_file"):
        accounts.authenticate(token)
    with raises(StateError, "damaged_file"):
        accounts.add_user("cleo")
    assert path.read_bytes() == before


def test_a_session_of_a_browser_stands_for_its_token(accounts: Accounts) -> None:
    accounts.grant("anna", "garden", "editor")
    token = accounts.make_token("anna", now=NOW)
    opened = accounts.open_session(token, now=NOW)
    assert opened is not None
    assert accounts.find_session(opened, now=NOW) == accounts.authenticate(token, now=NOW)
    # What a browser keeps is no token, and the file holds neither.
    assert accounts.authenticate(opened, now=NOW) is None
    assert accounts.find_session(token, now=NOW) is None
    assert opened.encode() not in read_stored(accounts)
    assert accounts.open_session("bst_guessed", now=NOW) is None


def test_a_session_ends_by_time_by_signing_out_and_with_its_token(accounts: Accounts) -> None:
    token = accounts.make_token("anna", days=1, now=NOW)
    first = accounts.open_session(token, now=NOW)
    assert first
    assert accounts.find_session(first, now=NOW + timedelta(hours=SESSION_HOURS, seconds=-1)) is not None
    assert accounts.find_session(first, now=NOW + timedelta(hours=SESSION_HOURS)) is None
    # The token ends before this session would.
    late = accounts.open_session(token, now=NOW + timedelta(hours=23))
    assert late
    assert accounts.find_session(late, now=NOW + timedelta(hours=23)) is not None
    assert accounts.find_session(late, now=NOW + timedelta(hours=24)) is None
    fresh = accounts.open_session(token, now=NOW)
    other = accounts.open_session(accounts.make_token("ben", now=NOW), now=NOW)
    assert fresh
    assert other
    accounts.close_session(fresh)
    assert accounts.find_session(fresh, now=NOW) is None
    accounts.close_session(fresh)
    [shown] = [each for each in accounts.list_tokens() if each.user == "anna"]
    kept = accounts.open_session(token, now=NOW)
    assert kept
    accounts.revoke_token(shown.token_id)
    assert accounts.find_session(kept, now=NOW) is None
    accounts.remove_user("ben")
    assert accounts.find_session(other, now=NOW) is None
    with accounts.state.reading() as session:
        assert session.execute("SELECT count(*) FROM sessions").fetchone() == (0,)
