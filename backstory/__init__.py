"""For every window of a conversation, the earlier documents that its writer should have at hand."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from backstory.assessment import evaluate_retrieval
    from backstory.chunks import chunk_markdown
    from backstory.hits import query_rag_per_chunk
    from backstory.index.vector_store import VectorStore
    from backstory.markdown import consolidate_messages_to_markdown
    from backstory.pipeline import run_pipeline
    from backstory.rag_context import RagContext, RagErrorReason, query_rag_for_context
    from backstory.selection import deduplicate_by_document
    from backstory.settings import RAGSettings, Settings
    from backstory.settings_file import read_settings
    from backstory.workspace import Workspace, open_workspace

__version__ = "0.1.0"

__all__ = [
    "RAGSettings",
    "RagContext",
    "RagErrorReason",
    "Settings",
    "VectorStore",
    "Workspace",
    "chunk_markdown",
    "consolidate_messages_to_markdown",
    "deduplicate_by_document",
    "evaluate_retrieval",
    "open_workspace",
    "query_rag_for_context",
    "query_rag_per_chunk",
    "read_settings",
    "run_pipeline",
]

# Loaded when first used, so that `import backstory` stays fast.
_MODULES = {
    "RAGSettings": "settings",
    "RagContext": "rag_context",
    "RagErrorReason": "rag_context",
    "Settings": "settings",
    "VectorStore": "index.vector_store",
    "Workspace": "workspace",
    "chunk_markdown": "chunks",
    "consolidate_messages_to_markdown": "markdown",
    "deduplicate_by_document": "selection",
    "evaluate_retrieval": "assessment",
    "open_workspace": "workspace",
    "query_rag_for_context": "rag_context",
    "query_rag_per_chunk": "hits",
    "read_settings": "settings_file",
    "run_pipeline": "pipeline",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'backstory' has no attribute {name!r}")
    return getattr(importlib.import_module(f"backstory.{_MODULES[name]}"), name)
