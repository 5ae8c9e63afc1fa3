"""Models that judge the candidates of a window: the protocol of rerankers, and one module per provider."""
