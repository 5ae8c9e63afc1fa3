"""The rows of the snapshots of one folder on a Milvus server, in one collection.

A row stays there as long as a snapshot has it. An alias for each snapshot says that all its rows are there: it comes
after the last of them, and goes before the first.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from backstory.base.environment import MILVUS_VARIABLE, find_key
from backstory.base.errors import SearchIndexError
from backstory.base.extras import require_extra
from backstory.index.snapshot.row_keys import Keys, ToldRows
from backstory.settings.models import IndexSettings

if TYPE_CHECKING:
    from pymilvus import MilvusClient

ROWS_AT_ONCE: Final = 2048
KEYS_AT_ONCE: Final = 16_384
"""Milvus' limit of the rows of one answer."""
CONNECT_SECONDS: Final = 10.0
CALL_SECONDS: Final = 120.0
INDEX_SECONDS: Final = 600.0
INDEX_SECONDS_PER_ROW: Final = 0.01
"""Seconds that a server may take for its index, and as many for each of its rows. Milvus Lite takes 0.0004 CPU s for
one. A server that takes longer may have stopped: Milvus can leave rows pending without end."""
_POLL_SECONDS: Final = 0.2
_TENANT_BYTES: Final = 65_535
"""Milvus' limit of a text."""


class MilvusRows:
    """A collection of rows, each with its key, the time of its publication, its tenant and its vector.

    Args:
        settings: Address of the server, and settings of the HNSW index.
        collection: Name of the collection.
    """

    def __init__(self, settings: IndexSettings, collection: str) -> None:
        self._settings = settings
        self.address = settings.uri or ""
        self.collection = collection

    def close(self) -> None:
        """Close the connection."""
        if "client" in self.__dict__:
            self.client.close()

    @cached_property
    def client(self) -> MilvusClient:
        """The connection, which is made when it is first asked for."""
        require_milvus()
        from pymilvus import MilvusClient

        # Its errors are raised here; its own log repeats each with a traceback.
        logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
        token = find_key(MILVUS_VARIABLE)
        secret = "" if token is None else token.get_secret_value()
        return MilvusClient(uri=self.address, token=secret, timeout=CONNECT_SECONDS)

    def has(self, alias: str) -> bool:
        """Return whether the server has an alias.

        Raises:
            SearchIndexError: The server cannot be reached, or refuses.
        """
        with self.calling():
            return bool(self.client.has_collection(alias, timeout=CALL_SECONDS))

    def list_aliases(self) -> list[str]:
        """List the aliases of the collection; none if it is not there.

        Raises:
            SearchIndexError: The server cannot be reached, or refuses.
        """
        with self.calling():
            is_there = self.client.has_collection(self.collection, timeout=CALL_SECONDS)
            return self._list_aliases() if is_there else []

    def holds(self, alias: str, keys: Keys, expected: Keys) -> bool:
        """Return whether the server has an alias and its rows.

        Args:
            alias: The alias.
            keys: Keys of its rows.
            expected: The rows that should be there. If their number is right, none is asked for.

        Raises:
            SearchIndexError: The server cannot be reached, or refuses.
        """
        with self.calling():
            if not self._load() or alias not in self._list_aliases():
                return False
            return self._count() == len(expected) or bool(np.isin(keys, self._list_keys()).all())

    def upload(self, alias: str, rows: ToldRows, known: Keys) -> int:
        """Write the rows that are not there, wait until all are indexed, and give them an alias.

        Args:
            alias: The alias.
            rows: The rows.
            known: The rows that should be there. If their number is right, none is asked for.

        Returns:
            Number of rows that were written.

        Raises:
            SearchIndexError: The server cannot be reached, refuses, does not index the rows in time, or does not hold
                all afterwards.
        """
        with self.calling():
            if not self._load():
                self._create(rows.vectors.shape[1])
            present = known if self._count() == len(known) else self._list_keys()
            is_absent = ~np.isin(rows.keys.keys, present)
            places = rows.keys.rows[is_absent]
            order = np.argsort(places)
            absent, keys = places[order], rows.keys.keys[is_absent][order]
            for start in range(0, len(absent), ROWS_AT_ONCE):
                some = absent[start : start + ROWS_AT_ONCE]
                told = zip(
                    keys[start : start + ROWS_AT_ONCE].tolist(),
                    rows.moments[some].tolist(),
                    rows.tenants.gather(some),
                    rows.vectors[some],
                    strict=True,
                )
                names = ("key", "published", "tenant", "vector")
                # Written again by a client that got no answer, a row is there once.
                self.client.upsert(
                    self.collection,
                    [dict(zip(names, row, strict=True)) for row in told],
                    timeout=CALL_SECONDS,
                )
            self.client.flush(self.collection, timeout=CALL_SECONDS)
            self._wait_for_index(len(present) + len(absent))
            self.client.load_collection(self.collection, timeout=CALL_SECONDS)
            count = self._count()
            if count != len(present) + len(absent):
                raise SearchIndexError(
                    f"Milvus at {self.address} holds {count} rows of {self.collection} after {len(absent)} were added "
                    f"to {len(present)}; build the index again",
                    code="incompletely_written",
                    address=self.address,
                )
            if alias not in self._list_aliases():
                self.client.create_alias(self.collection, alias, timeout=CALL_SECONDS)
        return len(absent)

    def keep(self, aliases: Collection[str], kept: Keys, gone: Keys) -> None:
        """Delete all other aliases, then all other rows, and make sure that they are gone.

        Args:
            aliases: The aliases to keep.
            kept: Keys of their rows.
            gone: Rows that are no longer wanted. If only these were too many, no others are asked for.

        Raises:
            SearchIndexError: The server cannot be reached, refuses, or has some of the rows afterwards.
        """
        with self.calling():
            if not self._load():
                return
            for alias in sorted({*self._list_aliases()} - {*aliases}):
                self.client.drop_alias(alias, timeout=CALL_SECONDS)
            self._delete(np.setdiff1d(gone, kept))
            if self._count() == len(kept):
                return
            self._delete(np.setdiff1d(self._list_keys(), kept))
            left = np.setdiff1d(self._list_keys(), kept)
        if len(left):
            raise SearchIndexError(
                f"Milvus at {self.address} still has {len(left)} rows of {self.collection} that were deleted; run "
                "`backstory run` again",
                code="incompletely_deleted",
                address=self.address,
            )

    def drop(self) -> None:
        """Delete the collection, if it is there.

        Raises:
            SearchIndexError: The server cannot be reached, or refuses.
        """
        with self.calling():
            if self.client.has_collection(self.collection, timeout=CALL_SECONDS):
                self._drop()

    @contextmanager
    def calling(self) -> Iterator[None]:
        """Raise errors of the client as errors of the index.

        Raises:
            SearchIndexError: The server cannot be reached, or refuses.
        """
        require_milvus()
        from grpc import RpcError
        from pymilvus.exceptions import MilvusException

        try:
            yield
        except (MilvusException, RpcError) as error:
            raise SearchIndexError(
                f"Milvus at {self.address} does not answer as it should: {error}. Start the server, or set "
                "index.engine to embedded, and run `backstory run`",
                code="unusable_server",
                address=self.address,
            ) from error

    def _create(self, dimension: int) -> None:
        from pymilvus import DataType

        schema = self.client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("key", DataType.INT64, is_primary=True)
        schema.add_field("published", DataType.INT64)
        schema.add_field("tenant", DataType.VARCHAR, max_length=_TENANT_BYTES)
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dimension)
        index = self.client.prepare_index_params()
        index.add_index(
            "vector",
            index_type="HNSW",
            metric_type="COSINE",
            params={"M": self._settings.hnsw_m, "efConstruction": self._settings.hnsw_ef_construction},
        )
        self.client.create_collection(
            self.collection,
            schema=schema,
            index_params=index,
            consistency_level="Strong",
            timeout=CALL_SECONDS,
        )

    def _load(self) -> bool:
        """Make the collection ready for questions. Return whether it is there."""
        if not self.client.has_collection(self.collection, timeout=CALL_SECONDS):
            return False
        if not self.client.list_indexes(self.collection, timeout=CALL_SECONDS):
            # A process was killed while it made the collection, and wrote no row.
            self._drop()
            return False
        self.client.load_collection(self.collection, timeout=CALL_SECONDS)
        return True

    def _drop(self) -> None:
        for alias in self._list_aliases():
            self.client.drop_alias(alias, timeout=CALL_SECONDS)
        self.client.drop_collection(self.collection, timeout=CALL_SECONDS)

    def _wait_for_index(self, rows: int) -> None:
        # Rows that are not indexed are compared one by one, and their recall would be measured in place of the graph's.
        allowed = INDEX_SECONDS + INDEX_SECONDS_PER_ROW * rows
        deadline = time.monotonic() + allowed
        while pending := self._count_pending():
            if time.monotonic() >= deadline:
                raise SearchIndexError(
                    f"Milvus at {self.address} has {pending} of {rows} rows of {self.collection} still to index after "
                    f"{allowed:.0f} s; look into its log and restart it, or set index.engine to embedded. Then run "
                    "`backstory run`, which sends no row again that is there",
                    code="unindexed_rows",
                    address=self.address,
                    pending=pending,
                )
            time.sleep(_POLL_SECONDS)

    def _count_pending(self) -> int:
        described = self.client.describe_index(self.collection, "vector", timeout=CALL_SECONDS)
        return int(described["pending_index_rows"])

    def _count(self) -> int:
        counted = self.client.query(
            self.collection, filter="", output_fields=["count(*)"], timeout=CALL_SECONDS
        )
        return int(counted[0]["count(*)"])

    def _list_aliases(self) -> list[str]:
        listed: dict[str, Any] = self.client.list_aliases(self.collection, timeout=CALL_SECONDS)
        return list(listed["aliases"])

    def _list_keys(self) -> Keys:
        rows = self.client.query_iterator(
            self.collection, batch_size=KEYS_AT_ONCE, output_fields=["key"], timeout=CALL_SECONDS
        )
        keys: list[int] = []
        while batch := rows.next():
            keys.extend(row["key"] for row in batch)
        rows.close()
        return np.array(keys, np.int64)

    def _delete(self, keys: Keys) -> None:
        for start in range(0, len(keys), KEYS_AT_ONCE):
            some = keys[start : start + KEYS_AT_ONCE].tolist()
            self.client.delete(self.collection, ids=some, timeout=CALL_SECONDS)


def require_milvus() -> None:
    """Raise an error if the client of Milvus is not installed.

    Raises:
        MissingExtraError: It is not.
    """
    require_extra("milvus", "`index.engine: milvus`", "set it to `embedded`")
