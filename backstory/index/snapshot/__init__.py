"""A snapshot of the index: its files, their manifest, how it is built, published and opened."""
