"""One reader for each chat format."""
