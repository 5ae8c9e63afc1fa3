"""Model clients that embedders and rerankers share: connections, failures, rate limits, runtimes."""
