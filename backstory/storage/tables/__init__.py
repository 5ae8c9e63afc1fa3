"""The tables: schemas and contracts, partitions, Parquet files, views, and the ledger of inputs and outputs."""
