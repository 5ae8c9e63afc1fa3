"""The search index: chunks and vectors -> a published, immutable snapshot, and the search over it."""
