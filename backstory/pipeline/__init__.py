"""The stages of the pipeline over a workspace: each stage reads tables, calls the library and writes one table."""

from backstory.pipeline.conversations import (
    find_partitions,
    known_first_partition,
    materialize_messages,
)
from backstory.pipeline.corpus import (
    materialize_document_chunks,
    materialize_documents,
)
from backstory.pipeline.freshness import is_fresh, record_run
from backstory.pipeline.leaks import SEARCHED_COLUMNS, find_names, find_privacy_breaches
from backstory.pipeline.message_windows import materialize_window_chunks, materialize_windows
from backstory.pipeline.retrieval import (
    materialize_contexts,
    materialize_decisions,
    materialize_hits,
    materialize_window_contexts,
)
from backstory.pipeline.search_index import materialize_search_index
from backstory.pipeline.stages import STAGES, Stage

__all__ = [
    "SEARCHED_COLUMNS",
    "STAGES",
    "Stage",
    "find_names",
    "find_partitions",
    "find_privacy_breaches",
    "is_fresh",
    "known_first_partition",
    "materialize_contexts",
    "materialize_decisions",
    "materialize_document_chunks",
    "materialize_documents",
    "materialize_hits",
    "materialize_messages",
    "materialize_search_index",
    "materialize_window_chunks",
    "materialize_window_contexts",
    "materialize_windows",
    "record_run",
]
