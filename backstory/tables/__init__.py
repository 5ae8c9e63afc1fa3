"""The tables: schemas and contracts, partitions, Parquet files, views, and the ledger of inputs and outputs."""

from backstory.tables.parquet import (
    WrittenPartition,
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
