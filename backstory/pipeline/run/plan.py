"""The plan of a run: all stages in the order in which data flows."""

from __future__ import annotations

from typing import Final

from backstory.pipeline.stages.documents import DocumentsStage
from backstory.pipeline.stages.messages import MessagesStage
from backstory.pipeline.stages.posts import PostsStage
from backstory.pipeline.stages.retrieval import (
    ContextsStage,
    DecisionsStage,
    HitsStage,
    RetrievalStage,
    WindowContextsStage,
)
from backstory.pipeline.stages.search_index import (
    DocumentChunksStage,
    SearchIndexStage,
)
from backstory.pipeline.stages.stage import Stage
from backstory.pipeline.stages.windows import WindowChunksStage, WindowsStage

STAGES: Final[tuple[type[Stage], ...]] = (
    MessagesStage,
    WindowsStage,
    WindowChunksStage,
    DocumentsStage,
    DocumentChunksStage,
    SearchIndexStage,
    HitsStage,
    DecisionsStage,
    ContextsStage,
    WindowContextsStage,
    PostsStage,
)
"""All stages, in the order in which data flows."""

ALL_TABLES: Final = frozenset(stage.table for stage in STAGES)
"""Tables of all stages."""

PARTITIONED: Final = frozenset(stage.table for stage in STAGES if stage.partitioned)
"""Tables with calendar partitions."""

CHATS: Final = STAGES[:3]
"""Stages that read no document."""

CORPUS: Final = STAGES[3:6]
"""Stages of the documents and their index."""

TABLES_OF_DOCUMENTS: Final = frozenset(stage.table for stage in CORPUS)
"""Tables of the stages that read no chat."""

ANSWERS: Final = STAGES[6:]
"""Stages that search the documents for windows, and write posts."""

SEARCHED: Final = frozenset(stage.table for stage in ANSWERS if issubclass(stage, RetrievalStage))
"""Tables of the stages that search the documents."""
