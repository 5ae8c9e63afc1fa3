"""Files -> documents: one reader per file type behind one registry, and a row for every file."""
