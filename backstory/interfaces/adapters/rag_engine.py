"""``RAGEngine``: index files, search them, and put the results before a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from backstory.base.errors import InputError
from backstory.interfaces.adapters.rag_config import BaseEmbeddingProvider, RAGConfig, VectorStoreConfig

# A disabled engine loads none of these.
if TYPE_CHECKING:
    from backstory.interfaces.library.added_texts import AddedText
    from backstory.interfaces.library.library import Library
    from backstory.interfaces.library.results import DocumentEntry

__all__ = ["BaseEmbeddingProvider", "RAGConfig", "RAGEngine", "RAGResult", "VectorStoreConfig"]

RAGResult: TypeAlias = dict[str, Any]
"""One result: ``text``, ``metadata`` (with ``path`` and ``chunk``) and ``distance`` (1 - cosine)."""

BEGIN: Final = "[RETRIEVED CONTEXT]"
END: Final = "[END OF RETRIEVED CONTEXT]"


class RAGEngine:
    """Search over files and texts, in the index of a :class:`backstory.Library` in ``base_dir/.rag``.

    A disabled engine does nothing, finds nothing and loads nothing.
    """

    def __init__(self, config: RAGConfig, base_dir: str | Path = ".") -> None:
        """Prepare an engine. Nothing is read or written yet.

        Args:
            config: The configuration.
            base_dir: Folder that relative paths begin at, and that holds the index.
        """
        self.config = config
        self._base = Path(base_dir).expanduser().resolve()

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

    def index_file(self, path: str | Path) -> int:
        """Index a file, or update it after a change, and return the number of its chunks.

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
                f"{place} is a folder; engine.library.index reads the files of a folder",
                code="no_file",
                path=place,
            )
        report = require_indexed(self.library.index(place))
        return find_outcome(self.library.workspace, report, place).chunks

    def search(self, query: str, top_k: int = 5) -> list[RAGResult]:
        """Find the chunks that fit a question, best first by cosine and shared words.

        Raises:
            InputError: The question is blank, or ``top_k`` is below 1.
            ModelError: The model could not be used.
            RemoteSearchError: The call of the MCP server's tool failed.
        """
        if not self.config.enabled:
            return []
        if self._is_remote:
            from backstory.interfaces.adapters.remote_search import ask_tool

            return ask_tool(self.config.vector_store, query, top_k)
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

    def delete_documents(self, ids: Sequence[str]) -> None:
        """Delete texts that were added.

        Raises:
            InputError: No text was added under an id; nothing is deleted then.
            SearchIndexError: The index could not be made.
        """
        if self.config.enabled:
            unknown = set(ids) - {added.text_id for added in self._added}
            if unknown:
                raise InputError(
                    f"no text was added under the id {min(unknown)!r}; nothing was deleted",
                    code="unknown_text",
                    id=min(unknown),
                )
            self._remove(list(ids))

    def delete_documents_by_path(self, path: str | Path) -> None:
        """Remove a file from the index, and delete the texts whose metadata names this path. The file stays.

        Raises:
            InputError: Nothing was indexed under this path.
            SearchIndexError: The index could not be made.
        """
        if self.config.enabled:
            place = self._locate(path)
            texts = [one.text_id for one in self._added if self._path_of(one) == place]
            files = [one.path for one in self._documents if not one.added and one.path == str(place)]
            if not texts and not files:
                raise InputError(
                    f"nothing was indexed under the path {place}; get_all_indexed_paths lists the indexed ones",
                    code="unknown_document",
                    path=place,
                )
            self._remove([*texts, *files])

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
        return (self._base / Path(path).expanduser()).resolve()


def _write_entry(text: str, metadata: Mapping[str, Any]) -> str:
    """Write one result as a line that names its place, and a quotation."""
    from backstory.text.prompts.escaping import escape_block, escape_line

    path, chunk = escape_line(str(metadata.get("path", "unknown"))), metadata.get("chunk", "unknown")
    quoted = "\n".join(f"> {line}".rstrip() for line in escape_block(text).split("\n"))
    return f"File: {path} (chunk {chunk})\n\n{quoted}"
