"""State in Postgres, which several machines share: each part is a schema, named after that of the workspace."""

from __future__ import annotations

import hashlib
import re
import select
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from decimal import Decimal
from typing import Any, Final

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.numeric import NumericBinaryLoader

from backstory.base.errors import StateError
from backstory.storage.schema import Part
from backstory.storage.state import BUSY_SECONDS, Session, State, lent
from backstory.storage.state_sqlite import make_empty

_TYPES: Final = {"TEXT": 'TEXT COLLATE "C"', "INTEGER": "BIGINT", "REAL": "DOUBLE PRECISION", "BLOB": "BYTEA"}
_CONNECT_SECONDS: Final = 10
RESTART_SECONDS: Final = 5.0
"""How long a server that was there before is waited for, since it may be starting again."""
_NAMESPACE: Final = re.compile(r"[a-z_][a-z0-9_]{0,29}")
"""Names that stand in SQL as they are, and leave room for what follows: Postgres cuts names after 63 bytes."""
_REFUSALS: Final = re.compile(r"password|does not exist|does not support SSL")
"""What a server or its client says of a wrong address: before there is a connection, there is no code."""
_ENDED: Final = (errors.AdminShutdown, errors.CrashShutdown, errors.CannotConnectNow)
_CLOSED: Final = (errors.InsufficientPrivilege, errors.ReadOnlySqlTransaction)
_LIMIT: Final = f"lock_timeout = {int(BUSY_SECONDS * 1000)}"
_namespaces: Final[dict[str, str]] = {}
"""The schema of the workspace, by the address of the database, as each connection notes it."""


class PostgresState(State):
    """The tables of a part in a schema of a server; the place is the address of the database."""

    def __init__(self, address: str, part: Part) -> None:
        super().__init__(address, part, address)

    def exists(self) -> bool:
        """Return whether the schema was made."""
        with self._connected() as connection:
            return self._is_made(connection.execute(self._ask_for_format()))

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Read in one transaction, which writes nothing."""
        with self._connected() as connection:
            begin = f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {self._enter()}"
            is_made = self._is_made(connection.execute(begin))
            if is_made:
                yield _Session(connection)
            connection.execute("ROLLBACK")
        if not is_made:
            with closing(make_empty(self.part)) as nothing:
                yield nothing

    @contextmanager
    def begin(self) -> Iterator[Session]:
        """Write in a transaction, after the tables were made if they are absent."""
        with self._connected() as connection:
            lock = f"SELECT pg_advisory_xact_lock({self._number('writing')})"
            if not self._is_made(connection.execute(f"BEGIN; SET LOCAL {_LIMIT}; {lock}; {self._enter()}")):
                self._make(connection)
            yield _Session(connection)
            connection.execute("COMMIT")

    @contextmanager
    def lock(self, *names: str, by: str = "", wait: bool = True, shared: bool = False) -> Iterator[bool]:
        """Take advisory locks on a connection, with which the server ends them; its name tells who has them."""
        action = f"pg_{'' if wait else 'try_'}advisory_lock{'_shared' if shared else ''}"
        with self._connected() as connection:
            connection.execute("SELECT set_config('application_name', %s, false)", (by,))
            taken = (
                connection.execute(f"SELECT {action}({self._number(name)})").fetchone() for name in names
            )
            yield all(one != (False,) for one in taken)
            with suppress(psycopg.OperationalError):  # the server has ended, and the locks with it
                connection.execute("SELECT pg_advisory_unlock_all(); RESET application_name")

    def find_holder(self, name: str) -> str | None:
        """Return the name of the connection that holds a lock."""
        query = (
            "SELECT application_name FROM pg_locks JOIN pg_stat_activity USING (pid) "
            "WHERE locktype = 'advisory' AND granted AND objsubid = 1 "
            "AND (classid::int8 << 32) | objid::int8 = %s LIMIT 1"
        )
        with self._connected() as connection:
            found = connection.execute(query, (self._number(name),)).fetchone()
        return None if found is None else str(found[0])

    def examine(self) -> None:
        """Ask every table for a row, and raise the error of what is wrong with them."""
        with self.reading() as session:
            for table in self.part.tables:
                session.execute(f"SELECT {', '.join(table.names)} FROM {table.name} LIMIT 1")  # noqa: S608

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

    def make_namespace(self, name: str) -> None:
        """Make the schema of a further workspace, whose parts lie in schemas beside it."""
        with self._connected() as connection:
            connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{name}"')

    def drop_namespace(self, name: str) -> int:
        """Remove the schemas of a workspace, if they are there, and return the number of rows that they had."""
        tables = "SELECT schemaname, tablename FROM pg_tables WHERE schemaname LIKE %s"
        with self._connected() as connection, connection.transaction():
            found = connection.execute(tables, (f"{name}\\_%",)).fetchall()
            queries = [f'SELECT count(*) FROM "{schema}"."{table}"' for schema, table in found]  # noqa: S608
            rows = sum(connection.execute(query).fetchall()[0][0] for query in queries)
            for schema in {name, *(schema for schema, _ in found)}:
                connection.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')
            return int(rows)

    @property
    def _schema(self) -> str:
        if self.place not in _namespaces:
            with self._connected():
                pass  # each connection notes it
        return f"{_namespaces[self.place]}_{self.part.name}"

    def _number(self, name: str) -> int:
        """Give the number of a lock: 63 bits of the hash of its name."""
        return int.from_bytes(hashlib.sha256(f"{self._schema} {name}".encode()).digest()[:8]) >> 1

    def _enter(self) -> str:
        return f'SET LOCAL search_path TO "{self._schema}"; {self._ask_for_format()}'

    def _ask_for_format(self) -> str:
        """Give the statement that asks whether the schema is there, and for the format that its comment names."""
        # From the table of schemas: what a connection remembers of one may be older than the lock that it waited for.
        found = "SELECT count(*) > 0, max(obj_description(oid, 'pg_namespace')) FROM pg_namespace"
        return f"{found} WHERE nspname = '{self._schema}'"

    def _is_made(self, answers: psycopg.Cursor[Any]) -> bool:
        """Return whether the last of several answers says that the tables were made; raise if in another format."""
        while answers.nextset():
            pass
        [(is_made, comment)] = answers.fetchall()
        if is_made and comment != self._comment:
            raise self._of_other_format(comment)
        return bool(is_made)

    @property
    def _comment(self) -> str:
        return f"backstory {self.part.name} {self.part.format}"

    def _make(self, connection: psycopg.Connection[Any]) -> None:
        """Make the tables in the transaction that writes to them."""
        connection.execute(f'CREATE SCHEMA "{self._schema}"')
        for table in self.part.tables:
            for statement in table.define(_TYPES):
                connection.execute(statement)
        connection.execute(f"COMMENT ON SCHEMA \"{self._schema}\" IS '{self._comment}'")

    @contextmanager
    def _connected(self) -> Iterator[psycopg.Connection[Any]]:
        with self._naming_errors(), lent(self.place, self._connect, _answers) as connection:
            yield connection

    def _connect(self) -> psycopg.Connection[Any]:
        """Connect; a server that was there before is waited for, since it may be starting again."""
        given, until = conninfo_to_dict(self.place), time.monotonic() + RESTART_SECONDS
        defaults = {"connect_timeout": _CONNECT_SECONDS, "application_name": "backstory"}
        missing: dict[str, Any] = {name: value for name, value in defaults.items() if name not in given}
        while True:
            try:
                connection = psycopg.connect(make_conninfo(self.place, **missing), autocommit=True)
                break
            except psycopg.Error as error:
                said = " ".join(str(error).split())
                if _REFUSALS.search(said):
                    what = (
                        f"refuses the connection ({said}); correct the user, the name of the database or sslmode in "
                        "the address, or set PGPASSWORD or PGPASSFILE in the environment"
                    )
                    raise self._error("refused_connection", what) from error
                if self.place not in _namespaces or time.monotonic() > until:
                    what = f"cannot be reached ({said}); start the server, or correct the address"
                    raise self._error("unreachable_database", what) from error
            time.sleep(RESTART_SECONDS / 100)
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

    @contextmanager
    def _naming_errors(self) -> Iterator[None]:
        """Raise errors of the driver as those of the library."""
        try:
            yield
        except psycopg.Error as error:
            said = error.diag.message_primary or " ".join(str(error).split())
            if isinstance(error, errors.UndefinedTable):
                raise self.damaged(said) from error
            if isinstance(error, errors.LockNotAvailable):
                raise self._busy() from error
            if isinstance(error, errors.DiskFull):
                raise StateError(
                    f"the disk of the database {self.place} is full ({said}); free some space, and run the same "
                    "command again to resume",
                    code="disk_full",
                ) from error
            if error.diag.sqlstate is None or isinstance(error, _ENDED):
                what = (
                    f"cannot be used: the connection was lost ({said}); run the same command again to resume"
                )
                raise self._error("unreachable_database", what) from error
            code = "unwritable" if isinstance(error, _CLOSED) else "unusable_state"
            what = f"cannot be used ({said}); allow its user to make schemas and tables"
            raise self._error(code, what) from error


class _Session:
    """A transaction on a server, in the SQL of the library."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def execute(self, statement: str, parameters: Sequence[Any] = (), /) -> Any:
        """Run a statement with a value for each ``?``."""
        return self._connection.execute(statement.replace("?", "%s"), _convert(parameters), binary=True)

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> Any:
        """Run a statement once for each row of values."""
        cursor = self._connection.cursor()
        cursor.executemany(statement.replace("?", "%s"), map(_convert, rows))
        return cursor


class _PlainNumberLoader(NumericBinaryLoader):
    """Gives sums as whole numbers, as SQLite does."""

    def load(self, data: psycopg.abc.Buffer) -> Any:
        found: Decimal = super().load(data)
        return int(found) if found == found.to_integral_value() else float(found)


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
    """Return whether the server of an unused connection is still there: one that has ended has closed it."""
    if connection.closed:
        return False
    incoming = select.poll()
    incoming.register(connection.fileno(), select.POLLIN)
    return not incoming.poll(0)
