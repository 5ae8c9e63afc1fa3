"""Who may call the service: users, their tokens, and their roles in tenants."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, Final

from backstory.base.errors import InputError
from backstory.interfaces.service.names import (
    Role,
    includes,
    require_role,
    require_tenant_name,
    require_user_name,
)
from backstory.storage.state import Session, State

TOKEN_PREFIX: Final = "bst_"  # noqa: S105 - what every token begins with, so that scanners of secrets find one
_TOKEN_BYTES: Final = 32
_ID_BYTES: Final = 4
_USER_ID_BYTES: Final = 8
_SESSION_BYTES: Final = 32
SESSION_HOURS: Final = 12
"""Hours after which a browser has to sign in again."""

_OF_TOKEN: Final = (
    "SELECT token_id, hash, expires_at, user_id, name FROM tokens JOIN users USING (user_id) "  # noqa: S105 - SQL
    "WHERE hash = ?"
)
_OF_SESSION: Final = (
    "SELECT token_id, sessions.hash, CASE WHEN tokens.expires_at < sessions.expires_at THEN tokens.expires_at "
    "ELSE sessions.expires_at END, user_id, name FROM sessions JOIN tokens USING (token_id) JOIN users USING (user_id) "
    "WHERE sessions.hash = ?"
)


@dataclass(frozen=True, slots=True)
class Caller:
    """The user whose token a request bears.

    Attributes:
        user_id: Identifies the user; a later user of the same name has another.
        name: Name of the user.
        token_id: Identifies the token, without telling it.
        roles: The role of the user in each tenant that they may enter.
    """

    user_id: str
    name: str
    token_id: str
    roles: Mapping[str, Role]

    def may(self, tenant: str, role: Role) -> bool:
        """Return whether the user has a role, or a higher one, in a tenant. No file is read for the answer."""
        return includes(self.roles.get(tenant), role)


@dataclass(frozen=True, slots=True)
class User:
    """A user as administrators see them.

    Attributes:
        user_id: Identifies the user.
        name: Name of the user.
        created_at: When the user was added.
        roles: The role in each tenant.
    """

    user_id: str
    name: str
    created_at: datetime
    roles: Mapping[str, Role]


@dataclass(frozen=True, slots=True)
class Token:
    """A token as administrators see it, without what it holds.

    Attributes:
        token_id: Identifies the token.
        user: Name of its user.
        created_at: When it was made.
        expires_at: When it ends; None for never.
    """

    token_id: str
    user: str
    created_at: datetime
    expires_at: datetime | None


class Accounts:
    """The users of a service, in one database. Threads, processes and machines may share it; a change is seen at once.

    Attributes:
        state: What they lie in, with the sealed keys of tenants.
    """

    def __init__(self, state: State) -> None:
        """Take the state of the service, part :data:`~backstory.storage.schema.ACCOUNTS`; the first change makes it."""
        self.state = state

    def add_user(self, name: str, *, now: datetime | None = None) -> str:
        """Add a user, who may enter no tenant yet, and return the id."""
        require_user_name(name)
        user_id = secrets.token_hex(_USER_ID_BYTES)
        with self.state.begin() as session:
            if session.execute("SELECT 1 FROM users WHERE name = ?", (name,)).fetchone():
                raise InputError(f"there is a user {name} already; choose another name", code="known_user")
            session.execute("INSERT INTO users VALUES (?, ?, ?)", (user_id, name, _write_time(now)))
        return user_id

    def remove_user(self, name: str) -> None:
        """Remove a user with all tokens and roles."""
        with self.state.begin() as session:
            session.execute("DELETE FROM users WHERE user_id = ?", (_revoke_all(session, name),))

    def revoke_all(self, name: str) -> str:
        """Remove all tokens and roles of a user, and return the id of the user."""
        with self.state.begin() as session:
            return _revoke_all(session, name)

    def is_admitted(self, user_id: str) -> bool:
        """Return whether a user has a token or a role. One who was removed, or is being removed, has neither."""
        with self.state.reading() as session:
            query = "SELECT 1 FROM tokens WHERE user_id = ? UNION ALL SELECT 1 FROM roles WHERE user_id = ?"
            return session.execute(query, (user_id, user_id)).fetchone() is not None

    def grant(self, user: str, tenant: str, role: str) -> None:
        """Let a user enter a tenant in a role, which replaces the former one."""
        row = (require_tenant_name(tenant), require_role(role))
        with self.state.begin() as session:
            session.execute(
                "INSERT INTO roles VALUES (?, ?, ?) ON CONFLICT (user_id, tenant) DO UPDATE SET role = excluded.role",
                (_find_user(session, user), *row),
            )

    def revoke(self, user: str, tenant: str) -> None:
        """Let a user enter a tenant no more."""
        with self.state.begin() as session:
            row = (_find_user(session, user), tenant)
            removed = session.execute("DELETE FROM roles WHERE user_id = ? AND tenant = ?", row).rowcount
        if not removed:
            raise InputError(
                f"{user} has no role in {tenant!r}; `backstory serve user list` shows all roles",
                code="no_role",
            )

    def make_token(self, user: str, *, days: int | None = None, now: datetime | None = None) -> str:
        """Make a token of a user, which ends after some days if any are given.

        Only its hash is stored, so that it can be shown this once alone.
        """
        made = now or datetime.now(UTC)
        expires = None if days is None else _write_time(_add_days(made, days))
        token = TOKEN_PREFIX + secrets.token_urlsafe(_TOKEN_BYTES)
        with self.state.begin() as session:
            user_id = _find_user(session, user)
            token_id = _make_token_id(session)
            row = (token_id, user_id, _hash(token), _write_time(made), expires)
            session.execute("INSERT INTO tokens VALUES (?, ?, ?, ?, ?)", row)
        return token

    def revoke_token(self, token_id: str) -> None:
        """End a token; the next request that bears it is refused."""
        with self.state.begin() as session:
            removed = session.execute("DELETE FROM tokens WHERE token_id = ?", (token_id,)).rowcount
            session.execute("DELETE FROM sessions WHERE token_id = ?", (token_id,))
        if not removed:
            raise InputError(
                f"there is no token {token_id!r}; `backstory serve token list` shows all ids",
                code="unknown_token",
            )

    def authenticate(self, token: str, *, now: datetime | None = None) -> Caller | None:
        """Find the user of a token, with their present roles; None if no token is equal, or if it has ended.

        The hash is looked up, not the token. A guess has a hash that nobody can choose, so the time that the look-up
        takes tells nothing about any token.
        """
        return self._find_caller(_OF_TOKEN, _hash(token), now)

    def open_session(self, token: str, *, now: datetime | None = None) -> str | None:
        """Begin the session of a browser, which ends after :data:`SESSION_HOURS`, or with its token.

        Returns what the browser sends from then on, of which only the hash is stored; None if no valid token is equal.
        """
        began = now or datetime.now(UTC)
        caller = self.authenticate(token, now=began)
        if caller is None:
            return None
        opened = secrets.token_urlsafe(_SESSION_BYTES)
        row = (_hash(opened), caller.token_id, _write_time(began + timedelta(hours=SESSION_HOURS)))
        with self.state.begin() as session:
            session.execute("DELETE FROM sessions WHERE expires_at <= ?", (_write_time(began),))
            session.execute("INSERT INTO sessions VALUES (?, ?, ?)", row)
        return opened

    def find_session(self, opened: str, *, now: datetime | None = None) -> Caller | None:
        """Find the user of a session, as :meth:`authenticate` finds that of a token; None if either has ended."""
        return self._find_caller(_OF_SESSION, _hash(opened), now)

    def close_session(self, opened: str) -> None:
        """End a session. It is no error if it has ended already."""
        with self.state.begin() as session:
            session.execute("DELETE FROM sessions WHERE hash = ?", (_hash(opened),))

    def _find_caller(self, query: str, hashed: bytes, now: datetime | None) -> Caller | None:
        with self.state.reading() as session:
            row = session.execute(query, (hashed,)).fetchone()
            if row is None:
                return None
            token_id, stored, expires, user_id, name = row
            roles = _read_roles(session, user_id)
        has_ended = expires is not None and datetime.fromisoformat(expires) <= (now or datetime.now(UTC))
        if has_ended or not hmac.compare_digest(stored, hashed):
            return None
        return Caller(user_id, name, token_id, roles)

    def list_users(self) -> list[User]:
        """List the users by name."""
        with self.state.reading() as session:
            rows = session.execute("SELECT user_id, name, created_at FROM users ORDER BY name").fetchall()
            return [
                User(user_id, name, datetime.fromisoformat(created), _read_roles(session, user_id))
                for user_id, name, created in rows
            ]

    def list_tokens(self) -> list[Token]:
        """List the tokens by user, and those of a user by age, the oldest first; ended ones too."""
        with self.state.reading() as session:
            rows = session.execute(
                "SELECT token_id, name, tokens.created_at, expires_at FROM tokens JOIN users USING (user_id) "
                "ORDER BY name, tokens.created_at, token_id"
            ).fetchall()
        return [
            Token(
                token_id,
                name,
                datetime.fromisoformat(created),
                None if expires is None else datetime.fromisoformat(expires),
            )
            for token_id, name, created, expires in rows
        ]


def _find_user(session: Session, name: str) -> str:
    row: Any = session.execute("SELECT user_id FROM users WHERE name = ?", (name,)).fetchone()
    if row is None:
        raise InputError(
            f"there is no user {name!r}; `backstory serve user list` shows all", code="unknown_user"
        )
    user_id: str = row[0]
    return user_id


def _revoke_all(session: Session, name: str) -> str:
    user_id = _find_user(session, name)
    owned = "SELECT token_id FROM tokens WHERE user_id = ?"
    session.execute(f"DELETE FROM sessions WHERE token_id IN ({owned})", (user_id,))  # noqa: S608 - see above
    for table in ("tokens", "roles"):
        session.execute(f"DELETE FROM {table} WHERE user_id = ?", (user_id,))  # noqa: S608 - listed above
    return user_id


def _read_roles(session: Session, user_id: str) -> Mapping[str, Role]:
    rows = session.execute("SELECT tenant, role FROM roles WHERE user_id = ? ORDER BY tenant", (user_id,))
    return MappingProxyType({tenant: require_role(role) for tenant, role in rows})


def _make_token_id(session: Session) -> str:
    while True:
        token_id = secrets.token_hex(_ID_BYTES)
        if not session.execute("SELECT 1 FROM tokens WHERE token_id = ?", (token_id,)).fetchone():
            return token_id


def _hash(token: str) -> bytes:
    # A token has 256 random bits, so that no slow hash is needed. A header may hold halves of characters.
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _add_days(time: datetime, days: int) -> datetime:
    try:
        if days > 0:
            return time + timedelta(days=days)
    except OverflowError:
        pass
    raise InputError(f"{days} is no number of days; use a whole number from 1", code="bad_days")


def _write_time(time: datetime | None) -> str:
    return (time or datetime.now(UTC)).astimezone(UTC).isoformat(timespec="seconds")
