"""Parquet tables with their schemas, the catalog of their inputs, and caches."""
