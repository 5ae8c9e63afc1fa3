"""LlamaIndex: a retriever over a library, a node with its score for each hit."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from backstory.base.extras import require_extra

require_extra("llamaindex", "backstory.interfaces.adapters.llamaindex", "use `backstory.Library` itself")

from llama_index.core.base.base_retriever import BaseRetriever  # noqa: E402
from llama_index.core.schema import (  # noqa: E402
    NodeRelationship,
    NodeWithScore,
    QueryBundle,
    RelatedNodeInfo,
    TextNode,
)

from backstory.interfaces.library.library import Library  # noqa: E402
from backstory.interfaces.library.results import Mode  # noqa: E402
from backstory.interfaces.library.search import SearchFilters  # noqa: E402
from backstory.retrieval.depth import DEPTH, Depth  # noqa: E402
from backstory.retrieval.found import Hit  # noqa: E402

_NO_FILTERS = SearchFilters()

logger = logging.getLogger(__name__)


class BackstoryRetriever(BaseRetriever):
    """Searches a library. Its asynchronous methods are LlamaIndex's own."""

    def __init__(
        self,
        library: Library,
        *,
        top_k: int | None = None,
        filters: SearchFilters = _NO_FILTERS,
        mode: Mode | None = None,
        expand: bool = False,
        rerank: bool = False,
        depth: Depth = DEPTH,
        **options: Any,
    ) -> None:
        """Wrap an open library.

        Args:
            library: The library.
            top_k: Most nodes; None for ``depth``.
            filters: Which documents and pages may be found.
            mode: How hits are ordered; None for the setting of the workspace.
            expand: Whether further search keys are made of a question.
            rerank: Whether the reranker of the settings orders the hits.
            depth: How many nodes there are without ``top_k``.
            **options: Arguments of the base class.
        """
        super().__init__(**options)
        self._library = library
        self._options: dict[str, Any] = {
            "top_k": top_k,
            "filters": filters,
            "mode": mode,
            "expand": expand,
            "rerank": rerank,
            "depth": depth,
        }

    @classmethod
    def open(cls, path: str | Path | None = None, **options: Any) -> BackstoryRetriever:
        """Open the library of a workspace.

        Args:
            path: Folder of the workspace; None as for :meth:`backstory.Library.open`.
            **options: Other arguments.
        """
        return cls(Library.open(path), **options)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        answer = self._library.search(str(query_bundle.query_str), **self._options)
        for note in answer.notes:
            logger.warning("%s: %s", self._library.workspace.root, note)
        return [NodeWithScore(node=_make_node(hit), score=hit.score) for hit in answer.hits]


def _make_node(hit: Hit) -> TextNode:
    metadata = hit.to_dict()
    text = metadata.pop("text")
    return TextNode(
        id_=hit.chunk_id,
        text=text,
        metadata=metadata,
        start_char_idx=hit.char_start,
        end_char_idx=hit.char_end,
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=hit.document_id)},
        # A prompt needs the one string to quote under; scores and ids of chunks would only fill it.
        excluded_llm_metadata_keys=[name for name in metadata if name not in ("cite", "title")],
        excluded_embed_metadata_keys=list(metadata),
    )
