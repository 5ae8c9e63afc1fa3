"""Speed and retrieval quality, runnable by anyone: ``python -m benchmarks.search`` and its neighbours."""
