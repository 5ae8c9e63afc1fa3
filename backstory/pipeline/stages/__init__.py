"""The stages: each reads tables, calls the library and writes one table."""
