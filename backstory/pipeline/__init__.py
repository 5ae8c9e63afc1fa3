"""The stages of the pipeline over a workspace: each stage reads tables, calls the library and writes one table."""
