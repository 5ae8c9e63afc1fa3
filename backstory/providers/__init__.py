"""Clients of models, shared by embedders and rerankers: connections, failures, rate limits, runtimes."""
