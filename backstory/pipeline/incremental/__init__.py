"""Incremental recomputation: fingerprints of inputs, and the partitions that they make stale."""
