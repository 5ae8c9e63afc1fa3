"""Find, for every window of a conversation, the earlier documents that are relevant to its writer.

The library stands in twelve wings, in the order in which data flows through them: ``base``, ``settings``, ``storage``,
``text``, ``ingest``, ``models``, ``index``, ``retrieval``, ``writing``, ``pipeline``, ``operations``, ``interfaces``.
A module imports from its own wing and from earlier ones. ``ARCHITECTURE.md`` is the map.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from backstory.base import VERSION

if sys.platform == "win32":
    raise ImportError(
        "Backstory runs on Linux and macOS, not on Windows: it renames files that other processes have open. "
        "Install it in the Windows Subsystem for Linux (WSL) instead."
    )

if TYPE_CHECKING:
    from backstory.interfaces.library.library import Library
    from backstory.interfaces.original.chunking import chunk_markdown
    from backstory.interfaces.original.consolidation import consolidate_messages_to_markdown
    from backstory.interfaces.original.deduplication import deduplicate_by_document
    from backstory.interfaces.original.per_chunk import query_rag_per_chunk
    from backstory.interfaces.original.rag_context import RagContext, RagErrorReason, query_rag_for_context
    from backstory.interfaces.original.vector_store import VectorStore
    from backstory.pipeline.run.runner import run_pipeline
    from backstory.pipeline.workspace import Workspace, open_workspace
    from backstory.retrieval.assessment import evaluate_retrieval
    from backstory.settings.models import RAGSettings, Settings
    from backstory.settings.paths import init_workspace
    from backstory.settings.yaml_file import read_settings
    from backstory.storage.tables.views import connect

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
    "connect",
    "consolidate_messages_to_markdown",
    "deduplicate_by_document",
    "evaluate_retrieval",
    "init_workspace",
    "open_workspace",
    "query_rag_for_context",
    "query_rag_per_chunk",
    "read_settings",
    "run_pipeline",
]

# Loaded when first used, so that `import backstory` stays fast.
_MODULES = {
    "Library": "interfaces.library.library",
    "RAGSettings": "settings.models",
    "RagContext": "interfaces.original.rag_context",
    "RagErrorReason": "interfaces.original.rag_context",
    "Settings": "settings.models",
    "VectorStore": "interfaces.original.vector_store",
    "Workspace": "pipeline.workspace",
    "chunk_markdown": "interfaces.original.chunking",
    "connect": "storage.tables.views",
    "consolidate_messages_to_markdown": "interfaces.original.consolidation",
    "deduplicate_by_document": "interfaces.original.deduplication",
    "evaluate_retrieval": "retrieval.assessment",
    "init_workspace": "settings.paths",
    "open_workspace": "pipeline.workspace",
    "query_rag_for_context": "interfaces.original.rag_context",
    "query_rag_per_chunk": "interfaces.original.per_chunk",
    "read_settings": "settings.yaml_file",
    "run_pipeline": "pipeline.run.runner",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'backstory' has no attribute {name!r}")
    return getattr(importlib.import_module(f"backstory.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    # A notebook completes what it offers, and the names above are not loaded yet.
    return sorted([*__all__, "__version__"])
