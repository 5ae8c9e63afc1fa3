"""Texts -> vectors: the protocol of embedders, one module per provider, batches, and a cache that processes share."""

from backstory.embeddings.cache import EmbeddingCache
from backstory.embeddings.choice import make_embedder, resolve_embedder
from backstory.embeddings.embed import EmbeddedTexts, EmbeddingStats, ReportProgress, embed_texts
from backstory.embeddings.protocol import Embedder, Task, Vectors

__all__ = [
    "EmbeddedTexts",
    "Embedder",
    "EmbeddingCache",
    "EmbeddingStats",
    "ReportProgress",
    "Task",
    "Vectors",
    "embed_texts",
    "make_embedder",
    "resolve_embedder",
]
