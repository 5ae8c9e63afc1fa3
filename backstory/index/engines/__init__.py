"""How rows are found: exact product, HNSW by DuckDB VSS, keywords, and both scores together."""
