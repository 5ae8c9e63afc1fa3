"""Texts -> vectors: the protocol of embedders, one module per provider, batches, and a cache that processes share."""
