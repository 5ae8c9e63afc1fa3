"""Embedders, rerankers and chat models, and the services behind them."""
