"""Benchmarks of speed and retrieval quality, run as modules such as ``python -m benchmarks.search``."""
