"""LangChain: a retriever over a library, a document for each hit."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import Any

from backstory.base.extras import require_extra

require_extra("langchain", "backstory.interfaces.adapters.langchain", "use `backstory.Library` itself")

from langchain_core.callbacks import (  # noqa: E402
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document  # noqa: E402
from langchain_core.retrievers import BaseRetriever  # noqa: E402
from langchain_core.runnables.config import run_in_executor  # noqa: E402
from pydantic import ConfigDict  # noqa: E402

from backstory.interfaces.library.library import Library  # noqa: E402
from backstory.interfaces.library.results import Mode  # noqa: E402
from backstory.interfaces.library.search import SearchFilters  # noqa: E402
from backstory.retrieval.depth import DEPTH, Depth  # noqa: E402
from backstory.retrieval.found import Hit  # noqa: E402

logger = logging.getLogger(__name__)


class BackstoryRetriever(BaseRetriever):
    """Searches a library. Asynchronously, the search runs in a thread.

    ``invoke`` and ``ainvoke`` take the same arguments for one question: ``retriever.invoke("night train", top_k=3)``.

    Attributes:
        library: The library.
        top_k: Most documents; None for ``depth``.
        filters: Which documents and pages may be found.
        mode: How hits are ordered; None for the setting of the workspace.
        expand: Whether further search keys are made of a question.
        rerank: Whether the reranker of the settings orders the hits.
        depth: How many documents there are without ``top_k``.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    library: Library
    top_k: int | None = None
    filters: SearchFilters = SearchFilters()
    mode: Mode | None = None
    expand: bool = False
    rerank: bool = False
    depth: Depth = DEPTH

    @classmethod
    def open(cls, path: str | Path | None = None, **options: Any) -> BackstoryRetriever:
        """Open the library of a workspace.

        Args:
            path: Folder of the workspace; None as for :meth:`backstory.Library.open`.
            **options: Other attributes.
        """
        return cls(library=Library.open(path), **options)

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,  # noqa: ARG002 - part of the interface
        **options: Any,
    ) -> list[Document]:
        usual = {
            name: getattr(self, name) for name in ("top_k", "filters", "mode", "expand", "rerank", "depth")
        }
        answer = self.library.search(query, **{**usual, **options})
        for note in answer.notes:
            logger.warning("%s: %s", self.library.workspace.root, note)
        return [_make_document(hit) for hit in answer.hits]

    # LangChain's own passes no arguments on.
    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        search = partial(self._get_relevant_documents, query, run_manager=run_manager.get_sync(), **options)
        found: list[Document] = await run_in_executor(None, search)
        return found


def _make_document(hit: Hit) -> Document:
    metadata = hit.to_dict()
    return Document(
        id=hit.chunk_id, page_content=metadata.pop("text"), metadata=metadata | {"source": hit.uri}
    )
