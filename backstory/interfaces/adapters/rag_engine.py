"""``RAGEngine``: index files, search them, and put the results before a text."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from backstory.base.errors import InputError
from backstory.interfaces.adapters.rag_config import BaseEmbeddingProvider, RAGConfig, VectorStoreConfig

# A disabled engine loads none of these.
if TYPE_CHECKING:
    from backstory.interfaces.adapters.remote_search import RemoteTool
    from backstory.interfaces.library.added_texts import AddedText
    from backstory.interfaces.library.library import Library
    from backstory.interfaces.library.results import IndexReport
    from backstory.retrieval.found import DocumentEntry

__all__ = ["BaseEmbeddingProvider", "RAGConfig", "RAGEngine", "RAGResult", "VectorStoreConfig"]

RAGResult: TypeAlias = dict[str, Any]
"""One result: ``text``, ``metadata`` (with ``path`` and ``chunk``) and ``distance`` (1 - cosine)."""

logger = logging.getLogger(__name__)

BEGIN: Final = "[RETRIEVED CONTEXT]"
END: Final = "[END OF RETRIEVED CONTEXT]"


class RAGEngine:
    """Search over files and texts, in the index of a :class:`backstory.Library` in ``base_dir/.rag``.

    A disabled engine does nothing, finds nothing and loads nothing.

    Attributes:
        config: The configuration.
        skipped: Why a file that was to be indexed is no document, by its path.
    """

    def __init__(self, config: RAGConfig, base_dir: str | Path = ".") -> None:
        """Prepare an engine. Nothing is read or written yet.

        Args:
            config: The configuration.
            base_dir: Folder that relative paths begin at, and that holds the index.
        """
        self.config = config
        self._base = Path(base_dir).expanduser().resolve()
        self.skipped: dict[str, str] = {}
        self._remote: RemoteTool | None = None

    @cached_property
    def library(self) -> Library:
        """The library behind the engine, such as for indexing a folder at once.

        Raises:
            InputError: The engine is disabled, or its index is one of a remote tool.
        """
        if not self.config.enabled or self._is_remote:
            raise InputError(
                "this engine has no index of its own: it is disabled, or asks a tool of an MCP server",
                code="no_index",
            )
        from backstory.interfaces.adapters.rag_workspace import open_collection

        return open_collection(self.config, self._base)

    @cached_property
    def collection(self) -> Library | None:
        """The library behind the engine; None if it has no index of its own."""
        return self.library if self.config.enabled and not self._is_remote else None

    @cached_property
    def embedding_provider(self) -> BaseEmbeddingProvider | None:
        """The model, as a provider; None if the engine has no index of its own."""
        given = self.config.embedding_provider
        if isinstance(given, BaseEmbeddingProvider) or self.collection is None:
            return given if isinstance(given, BaseEmbeddingProvider) else None
        from backstory.interfaces.adapters.external_embedder import EmbedderProvider

        return EmbedderProvider(self.collection.workspace.embedder)

    def close(self) -> None:
        """End the session with the MCP server, and close the index; the next search opens them again."""
        if self._remote is not None:
            self._remote.close()
        if "library" in self.__dict__:
            self.library.close()

    def index_file(self, path: str | Path) -> int:
        """Index a file, or update it after a change, and return the number of its chunks.

        A file without text, such as a picture, has none; ``skipped`` says why.

        Raises:
            InputError: The file is absent, is a folder or cannot be read; the message says why.
            SearchIndexError: The index could not be made.
        """
        if not self.config.enabled:
            return 0
        from backstory.interfaces.adapters.rag_workspace import find_outcome, require_indexed

        place = self._locate(path)
        if place.is_dir():
            raise InputError(
                f"{place} is a folder; engine.library.index reads the files of a folder", code="no_file"
            )
        report = require_indexed(self.library.index(place))
        outcome = find_outcome(self.library.workspace, report, place)
        self.skipped.pop(str(place), None)
        if outcome.status == "skipped":
            self.skipped[str(place)] = outcome.reason or outcome.status
            logger.warning("%s is skipped: %s", place, self.skipped[str(place)])
        return outcome.chunks

    def sync(self) -> IndexReport | None:
        """Index the changes of all files that were indexed before; None if the engine is disabled.

        Raises:
            InputError: The index is one of a remote tool.
            SearchIndexError: The index could not be made.
        """
        if not self.config.enabled:
            return None
        from backstory.interfaces.adapters.rag_workspace import require_indexed

        return require_indexed(self.library.index())

    def search(self, query: str, top_k: int = 5) -> list[RAGResult]:
        """Find the chunks that fit a question, best first by cosine and shared words.

        Raises:
            InputError: The question is blank, or ``top_k`` is below 1.
            ModelError: The model could not be used.
            SearchIndexError: The call of the MCP server's tool failed.
        """
        if not self.config.enabled:
            return []
        if self._is_remote:
            if self._remote is None:
                from backstory.interfaces.adapters.remote_search import RemoteTool

                self._remote = RemoteTool(self.config.vector_store)
            return self._remote.ask(query, top_k)
        from backstory.interfaces.adapters.rag_workspace import find_results

        return find_results(self.library, self._base, query, top_k)

    def add_documents(
        self, ids: Sequence[str], texts: Sequence[str], metadatas: Sequence[Mapping[str, Any]] | None = None
    ) -> None:
        """Add texts, or replace those of the same ids.

        Raises:
            InputError: A text, an id or metadata is invalid; nothing is added then.
            SearchIndexError: The index could not be made.
        """
        if self.config.enabled:
            from backstory.interfaces.adapters.rag_workspace import require_indexed

            require_indexed(self.library.add(texts, ids, metadatas))

    def delete_documents(self, ids: Sequence[str]) -> bool:
        """Delete texts that were added.

        Returns:
            Whether all of them are deleted; if no text was added under one of the ids, none is.

        Raises:
            SearchIndexError: The index could not be made.
        """
        if not self.config.enabled or set(ids) - {added.text_id for added in self._added}:
            return False
        self._remove(list(ids))
        return True

    def delete_documents_by_path(self, path: str | Path) -> bool:
        """Remove a file from the index, and delete the texts whose metadata names this path. The file stays.

        Returns:
            Whether anything was indexed under this path.

        Raises:
            SearchIndexError: The index could not be made.
        """
        if not self.config.enabled:
            return False
        place = self._locate(path)
        texts = [one.text_id for one in self._added if self._path_of(one) == place]
        files = [one.path for one in self._documents if not one.added and one.path == str(place)]
        if texts or files:
            self._remove([*texts, *files])
        return bool(texts or files)

    def get_all_indexed_paths(self) -> list[str]:
        """List the paths of all documents, sorted: relative to the base folder, absolute outside of it."""
        if not self.config.enabled:
            return []
        from backstory.interfaces.adapters.rag_workspace import shorten

        files = {Path(one.path) for one in self._documents if not one.added}
        named = {path for path in map(self._path_of, self._added) if path is not None}
        return sorted(shorten(path, self._base) for path in files | named)

    def is_empty(self) -> bool:
        """Return whether nothing is indexed; a remote index counts as not empty."""
        if not self.config.enabled or self._is_remote:
            return not self.config.enabled
        from backstory.interfaces.adapters.rag_workspace import is_empty

        return is_empty(self.library)

    def inject_context(self, markdown: str, results: Sequence[RAGResult]) -> str:
        """Put the results before a text. Each of their lines is a quotation and cannot pose as an instruction.

        Returns:
            The text itself if the engine is disabled or empty, or nothing was found.
        """
        if not results or self.is_empty():
            return markdown
        entries = "\n\n".join(_write_entry(result["text"], result["metadata"]) for result in results)
        return f"{BEGIN}\n\n{entries}\n\n{END}\n\n{markdown}"

    @property
    def _is_remote(self) -> bool:
        return self.config.vector_store.provider == "mcp"

    @property
    def _documents(self) -> Sequence[DocumentEntry]:
        return () if self.is_empty() else self.library.documents().documents

    @property
    def _added(self) -> list[AddedText]:
        from backstory.interfaces.adapters.rag_workspace import list_added

        return list(list_added(self.library.workspace))

    def _remove(self, names: Sequence[str]) -> None:
        from backstory.interfaces.adapters.rag_workspace import require_indexed

        require_indexed(self.library.remove(names))

    def _path_of(self, added: AddedText) -> Path | None:
        """Return the path that the metadata of a text names."""
        stated = added.metadata.get("path")
        return self._locate(stated) if isinstance(stated, str) and stated else None

    def _locate(self, path: str | Path) -> Path:
        """Return the place of a path in the base folder; in the current one, if only that holds it."""
        named = Path(path).expanduser()
        in_base = (self._base / named).resolve()
        return in_base if in_base.exists() or not named.exists() else named.resolve()


def _write_entry(text: str, metadata: Mapping[str, Any]) -> str:
    """Write one result as a line that names its place, and a quotation."""
    from backstory.text.prompts.escaping import escape_block, escape_line

    path, chunk = escape_line(str(metadata.get("path", "unknown"))), metadata.get("chunk", "unknown")
    quoted = "\n".join(f"> {line}".rstrip() for line in escape_block(text).split("\n"))
    return f"File: {path} (chunk {chunk})\n\n{quoted}"
