"""The tables: schemas and contracts, partitions, Parquet files, views, and the catalog of inputs and outputs."""
