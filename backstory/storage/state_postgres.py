"""State in Postgres, which several machines share: each part is a schema, named after that of the workspace."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from decimal import Decimal
from functools import lru_cache
from itertools import count
from typing import Any, Final

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.numeric import NumericBinaryLoader

from backstory.base.errors import BackstoryError, StateError
from backstory.storage.schema import FORMAT, Part
from backstory.storage.state import BUSY_SECONDS, Locks, Rows, Session, State, lent
from backstory.storage.state_sqlite import make_empty

_TYPES: Final = {str: 'TEXT COLLATE "C"', int: "BIGINT", float: "DOUBLE PRECISION", bytes: "BYTEA"}
_PARAMETER: Final = re.compile(r"'(?:[^']|'')*'|\?")
_CONNECT_SECONDS: Final = 10
RESTART_SECONDS: Final = 5.0
"""How long a server that was there before is waited for, since it may be starting again."""
_NAMESPACE: Final = re.compile(r"[a-z_][a-z0-9_]{0,29}")
"""Names that stand in SQL as they are, and leave room for what follows: Postgres cuts names after 63 bytes."""
_ABSENT: Final = re.compile(r'database "[^"]*" does not exist')
"""How a server says so: before there is a connection, it gives no code."""
_ENDED: Final = (errors.AdminShutdown, errors.CrashShutdown, errors.CannotConnectNow)
_namespaces: Final[dict[str, str]] = {}
"""The schema of the workspace, by the address of the database, as each connection notes it."""
_LIMIT: Final = f"lock_timeout = {int(BUSY_SECONDS * 1000)}"


class PostgresState(State):
    """The tables of a part in a schema of a server; the place is the address of the database."""

    def __init__(self, address: str, part: Part) -> None:
        super().__init__(address, part, address)

    def exists(self) -> bool:
        """Return whether the schema was made."""
        with self._connected() as connection:
            return self._is_made(connection.execute(self._ask_for_format()).fetchone())

    def measure(self) -> int:
        """Return the bytes of the tables with their indexes."""
        query = (
            "SELECT coalesce(sum(pg_total_relation_size(pg_class.oid)), 0)::int8 FROM pg_class "
            "JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname = $1 AND relkind = 'r'"
        )
        with self._connected() as connection:
            return int(connection.execute(query, (self._schema,)).fetchall()[0][0])

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Read in one transaction, which writes nothing."""
        with self._connected() as connection:
            begin = f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {self._enter()}"
            is_made = self._is_made(_read_last(connection.execute(begin)))
            if is_made:
                yield _Session(connection, self.part.name)
            connection.execute("ROLLBACK")
        if not is_made:
            with closing(make_empty(self.part)) as nothing:
                yield nothing

    @contextmanager
    def begin(self) -> Iterator[Session]:
        """Write in a transaction, after the tables were made if they are absent."""
        with self._connected() as connection:
            lock = f"SELECT pg_advisory_xact_lock({self.number('writing')})"
            begin = f"BEGIN; SET LOCAL {_LIMIT}; {lock}; {self._enter()}"
            if not self._is_made(_read_last(connection.execute(begin))):
                self._make(connection)
            yield _Session(connection, self.part.name)
            connection.execute("COMMIT")

    def open_locks(self, by: str = "") -> AdvisoryLocks:
        """Take advisory locks on a connection of their own, with which the server ends them."""
        with self.naming_errors():
            connection = self._connect()
            connection.execute("SELECT set_config('application_name', $1, false)", (by,))
        return AdvisoryLocks(self, connection)

    def find_holder(self, name: str) -> str | None:
        """Return the name of the connection that holds a lock."""
        query = (
            "SELECT application_name FROM pg_locks JOIN pg_stat_activity USING (pid) "
            "WHERE locktype = 'advisory' AND granted AND objsubid = 1 "
            "AND (classid::int8 << 32) | objid::int8 = $1 LIMIT 1"
        )
        with self._connected() as connection:
            found = connection.execute(query, (self.number(name),)).fetchone()
        return None if found is None else str(found[0])

    def find_damage(self) -> str | None:
        """Ask every table for a row, and return what is wrong with them and what to do, or None."""
        try:
            with self.reading() as session:
                for table in self.part.tables:
                    session.execute(f"SELECT {', '.join(table.columns)} FROM {table.name} LIMIT 1")  # noqa: S608
        except BackstoryError as error:
            return str(error)
        return None

    def compact(self) -> None:
        """Write the tables anew without their deleted rows.

        Whoever waits for a table that others read keeps everybody else from it, so that the wait has an end.
        """
        if self.exists():
            with self._connected() as connection:
                connection.execute(f"SET {_LIMIT}")
                for table in self.part.tables:
                    connection.execute(f'VACUUM (FULL) "{self._schema}".{table.name}')
                connection.execute("RESET lock_timeout")

    def drop(self) -> int:
        """Remove the schema, and return the number of rows that it had."""
        if not self.exists():
            return 0
        with self.begin() as session:
            count = self.count_rows(session)
            session.execute(f'DROP SCHEMA "{self._schema}" CASCADE')
        return count

    @property
    def _schema(self) -> str:
        if self.place not in _namespaces:
            with self._connected():
                pass  # each connection notes it
        return f"{_namespaces[self.place]}_{self.part.name}"

    def number(self, name: str) -> int:
        """Give the number of a lock: 63 bits of the hash of its name."""
        return int.from_bytes(hashlib.sha256(f"{self._schema} {name}".encode()).digest()[:8]) >> 1

    def _enter(self) -> str:
        return f'SET LOCAL search_path TO "{self._schema}"; {self._ask_for_format()}'

    def _ask_for_format(self) -> str:
        """Give the statement that asks whether the schema is there, and for the format that its comment names."""
        # From the table of schemas: what a connection remembers of one may be older than the lock that it waited for.
        found = "SELECT count(*) > 0, max(obj_description(oid, 'pg_namespace')) FROM pg_namespace"
        return f"{found} WHERE nspname = '{self._schema}'"

    def _is_made(self, found: tuple[bool, str | None] | None) -> bool:
        """Return whether the tables were made; raise if they are of another format."""
        is_made, comment = found or (False, None)
        if is_made and comment != self._comment:
            what = f"is of another format ({comment} in place of {self._comment}); {self.part.remedy}"
            raise self._error("other_format", what)
        return is_made

    @property
    def _comment(self) -> str:
        return f"backstory {self.part.name} {FORMAT}"

    def _make(self, connection: psycopg.Connection[Any]) -> None:
        """Make the tables in the transaction that writes to them."""
        connection.execute(f'CREATE SCHEMA "{self._schema}"')
        for table in self.part.tables:
            for statement in table.define(_TYPES):
                connection.execute(statement)
        connection.execute(f"COMMENT ON SCHEMA \"{self._schema}\" IS '{self._comment}'")

    @contextmanager
    def _connected(self) -> Iterator[psycopg.Connection[Any]]:
        with self.naming_errors(), lent(self.place, self._connect, _answers) as connection:
            yield connection

    def _connect(self) -> psycopg.Connection[Any]:
        """Connect; a server that was there before is waited for, since it may be starting again."""
        until = time.monotonic() + RESTART_SECONDS
        while True:
            try:
                return self._connect_once()
            except StateError as error:
                is_starting = error.code == "unreachable_database" and self.place in _namespaces
                if not is_starting or time.monotonic() > until:
                    raise
            time.sleep(RESTART_SECONDS / 100)

    def _connect_once(self) -> psycopg.Connection[Any]:
        given = conninfo_to_dict(self.place)
        defaults = {"connect_timeout": _CONNECT_SECONDS, "application_name": "backstory"}
        missing: dict[str, Any] = {name: value for name, value in defaults.items() if name not in given}
        try:
            connection = psycopg.connect(
                make_conninfo(self.place, **missing), autocommit=True, cursor_factory=psycopg.RawCursor
            )
        except psycopg.Error as error:
            raise self._refused(error) from error
        with ExitStack() as failed:
            failed.callback(connection.close)
            connection.adapters.register_loader("numeric", _PlainNumberLoader)
            [(namespace,)] = connection.execute("SELECT current_schema()").fetchall()
            if namespace is None or not _NAMESPACE.fullmatch(namespace):
                what = (
                    f"cannot be used: the first schema of its search_path ({namespace}) is absent, or has another name "
                    "than one of at most 30 letters a to z, digits and underscores; create such a schema, and name it "
                    "by ?options=-csearch_path%3DNAME in the address"
                )
                raise self._error("unusable_schema", what)
            _namespaces[self.place] = namespace
            failed.pop_all()
        return connection

    def _refused(self, error: psycopg.Error) -> StateError:
        said = " ".join(str(error).split())
        connection = error.pgconn
        if connection is not None and connection.needs_password:
            what = f"asks for a password ({said}); set PGPASSWORD or PGPASSFILE in the environment"
            return self._error("missing_password", what)
        if connection is not None and connection.used_password and "password" in said:
            what = f"refuses the password or the user ({said}); correct PGPASSWORD, PGPASSFILE or the address"
            return self._error("refused_password", what)
        if _ABSENT.search(said):
            return self._error(
                "absent_database", f"is absent ({said}); make it, or correct its name in the address"
            )
        if "does not support SSL" in said:
            what = (
                f"cannot be used, since the server does not encrypt connections ({said}); give it a certificate, or "
                "write ?sslmode=disable at the end of the address, if no stranger reaches the network between"
            )
            return self._error("no_encryption", what)
        what = f"cannot be reached ({said}); start the server, or correct the address"
        return self._error("unreachable_database", what)

    @contextmanager
    def naming_errors(self) -> Iterator[None]:
        """Raise errors of the driver as those of the library."""
        try:
            yield
        except errors.UndefinedTable as error:
            raise self._damaged(error.diag.message_primary) from error
        except errors.LockNotAvailable as error:
            what = f"has been busy for {BUSY_SECONDS:.0f} s; try again when the other process has ended"
            raise self._error("busy_file", what) from error
        except errors.DiskFull as error:
            raise StateError(
                f"the disk of the database {self.place} is full ({error.diag.message_primary}); free some "
                "space, and run the same command again to resume",
                code="disk_full",
            ) from error
        except psycopg.Error as error:
            said = error.diag.message_primary or " ".join(str(error).split())
            if error.diag.sqlstate is None or isinstance(error, _ENDED):
                what = (
                    f"cannot be used: the connection was lost ({said}); run the same command again to resume"
                )
                raise self._error("unreachable_database", what) from error
            what = f"cannot be used ({said}); allow its user to make schemas and tables"
            raise self._error("unusable_file", what) from error


class AdvisoryLocks(Locks):
    """Locks of a connection."""

    def __init__(self, state: PostgresState, connection: psycopg.Connection[Any]) -> None:
        self._state = state
        self._connection = connection

    def take(self, name: str, *, wait: bool = True, shared: bool = False) -> bool:
        """Ask the server for a lock."""
        action = f"pg_{'' if wait else 'try_'}advisory_lock{'_shared' if shared else ''}"
        with self._state.naming_errors():
            statement = f"SELECT {action}({self._state.number(name)})"
            return self._connection.execute(statement).fetchone() != (False,)

    def release(self, name: str) -> None:
        """Give a lock back, whichever of its two kinds it has."""
        number = self._state.number(name)
        with self._state.naming_errors():
            kinds = "SELECT mode FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'"
            held = f"{kinds} AND (classid::int8 << 32) | objid::int8 = {number}"
            is_shared = self._connection.execute(held).fetchone() == ("ShareLock",)
            self._connection.execute(f"SELECT pg_advisory_unlock{'_shared' if is_shared else ''}({number})")

    def close(self) -> None:
        """Give all locks back, and close the connection, with which the server would end them a little later."""
        with closing(self._connection), suppress(psycopg.OperationalError):
            self._connection.execute("SELECT pg_advisory_unlock_all()")


class _Session:
    """A transaction on a server, in the SQL of the library."""

    def __init__(self, connection: psycopg.Connection[Any], name: str) -> None:
        self._connection = connection
        self._name = name

    def execute(self, statement: str, parameters: Sequence[Any] = (), /) -> Rows:
        """Run a statement with a value for each ``?``."""
        return self._connection.execute(_translate(self._name, statement), _convert(parameters), binary=True)

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> None:
        """Run a statement once for each row of values."""
        with self._connection.cursor() as cursor:
            cursor.executemany(_translate(self._name, statement), map(_convert, rows))


class _PlainNumberLoader(NumericBinaryLoader):
    """Gives sums as whole numbers, as SQLite does."""

    def load(self, data: psycopg.abc.Buffer) -> Any:
        found: Decimal = super().load(data)
        return int(found) if found == found.to_integral_value() else float(found)


@lru_cache(maxsize=512)
def _translate(name: str, statement: str) -> str:
    """Number the places of parameters, outside of texts.

    The plan that a connection keeps for a statement is for the columns of one table, so that the statement names whose.
    """
    places = count(1)
    numbered = _PARAMETER.sub(lambda found: found[0] if found[0] != "?" else f"${next(places)}", statement)
    return f"/* {name} */ {numbered}"


def _convert(values: Sequence[Any]) -> list[Any]:
    """Give values as SQLite stores them: truth as a number; no text of Postgres can hold the character 0."""
    return [
        int(value)
        if isinstance(value, bool)
        else value.replace("\0", "\N{REPLACEMENT CHARACTER}")
        if isinstance(value, str)
        else value
        for value in values
    ]


def _answers(connection: psycopg.Connection[Any]) -> bool:
    """Return whether the server of a connection is still there."""
    try:
        connection.execute("SELECT 1")
    except psycopg.OperationalError:
        return False
    return True


def _read_last(cursor: psycopg.Cursor[Any]) -> Any:
    """Return the first row of the last statement of several."""
    while cursor.nextset():
        pass
    return cursor.fetchone()
