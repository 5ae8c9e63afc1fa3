"""Adapters: the retriever interfaces of LangChain, LlamaIndex and the ``RAGEngine`` design, over ``Library``."""
