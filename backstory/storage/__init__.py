"""Parquet tables with their schemas, the ledger of their inputs, and caches."""
