"""Find, for every window of a conversation, the earlier documents that are relevant to its writer."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from backstory.version import VERSION

if sys.platform == "win32":
    raise ImportError(
        "Backstory runs on Linux and macOS, not on Windows: it renames files that other processes have open. "
        "Install it in the Windows Subsystem for Linux (WSL) instead."
    )

if TYPE_CHECKING:
    from backstory.assessment import evaluate_retrieval
    from backstory.library import Library
    from backstory.original.chunking import chunk_markdown
    from backstory.original.consolidation import consolidate_messages_to_markdown
    from backstory.original.deduplication import deduplicate_by_document
    from backstory.original.per_chunk import query_rag_per_chunk
    from backstory.original.rag_context import RagContext, RagErrorReason, query_rag_for_context
    from backstory.original.vector_store import VectorStore
    from backstory.pipeline.run import run_pipeline
    from backstory.settings import RAGSettings, Settings
    from backstory.settings.yaml_file import read_settings
    from backstory.workspace import Workspace, open_workspace

__version__ = VERSION

__all__ = [
    "Library",
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
    "Library": "library",
    "RAGSettings": "settings",
    "RagContext": "original.rag_context",
    "RagErrorReason": "original.rag_context",
    "Settings": "settings",
    "VectorStore": "original.vector_store",
    "Workspace": "workspace",
    "chunk_markdown": "original.chunking",
    "consolidate_messages_to_markdown": "original.consolidation",
    "deduplicate_by_document": "original.deduplication",
    "evaluate_retrieval": "assessment",
    "open_workspace": "workspace",
    "query_rag_for_context": "original.rag_context",
    "query_rag_per_chunk": "original.per_chunk",
    "read_settings": "settings.yaml_file",
    "run_pipeline": "pipeline.run",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'backstory' has no attribute {name!r}")
    return getattr(importlib.import_module(f"backstory.{_MODULES[name]}"), name)
