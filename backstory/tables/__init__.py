"""The tables: schemas and contracts, partitions, Parquet files, views, and the ledger of inputs and outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from backstory.tables.parquet import (
        WrittenPartition,
        encode_rows,
        find_damaged_partitions,
        hash_partitions,
        hash_rows,
        list_partitions,
        open_if_written,
        read_table,
        replace_file,
        scan_table,
        write_partition,
        write_partitions,
    )

__all__ = [
    "WrittenPartition",
    "encode_rows",
    "find_damaged_partitions",
    "hash_partitions",
    "hash_rows",
    "list_partitions",
    "open_if_written",
    "read_table",
    "replace_file",
    "scan_table",
    "write_partition",
    "write_partitions",
]


def __getattr__(name: str) -> Any:
    # The contracts of the tables take most of a second to load, and a search needs only the ledger.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from backstory.tables import parquet

    return getattr(parquet, name)
