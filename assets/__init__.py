"""What exists: the Dagster assets, one per table. Each reads, calls one library function, returns with metadata."""
