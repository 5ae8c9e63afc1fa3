"""The workspace behind a ``RAGEngine`` (:mod:`backstory.interfaces.adapters.rag_engine`): a folder per collection."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from backstory.base.environment import SETTINGS_FILE
from backstory.base.errors import InputError, SearchIndexError, SettingsError
from backstory.base.files.atomic import write_file
from backstory.ingest.documents.files import SOURCE_MARK, name_source
from backstory.ingest.documents.reader import DOCUMENT_FORMATS
from backstory.ingest.sources.listing import find_covering, list_sources, make_locator
from backstory.interfaces.adapters.external_embedder import ExternalEmbedder
from backstory.interfaces.adapters.rag_config import BaseEmbeddingProvider, RAGConfig
from backstory.interfaces.library.added_texts import AddedText, read_text
from backstory.interfaces.library.freshness import is_made
from backstory.interfaces.library.library import Library
from backstory.interfaces.library.names import ADDED_FOLDER
from backstory.interfaces.library.results import FileOutcome, IndexReport
from backstory.models.embeddings.protocol import Embedder
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.settings.groups import SERVICE_FIELDS

logger = logging.getLogger(__name__)

_CODE: Final = "code"
_LEAST_CEILING: Final = 1800
_MOST_TOKENS_OF_A_CHARACTER: Final = 5
_MARK: Final = "# Written from RAGConfig, and again when that changes: edit the configuration instead.\n"


@dataclass(frozen=True)
class GivenModelWorkspace(Workspace):
    """A workspace with vectors of a model that the program passes in.

    Attributes:
        provider: The model; None for that of the settings.
    """

    provider: BaseEmbeddingProvider | None = None

    @cached_property
    def embedder(self) -> Embedder:
        """The passed model, else that of the settings."""
        if self.provider is None:
            return super().embedder
        return ExternalEmbedder(self.provider)


def open_collection(config: RAGConfig, base: Path) -> Library:
    """Open the library of a collection; create its workspace if it is absent.

    Args:
        config: The configuration.
        base: Base folder of the engine.

    Raises:
        InputError: The base folder is absent, or a workspace of a person is in the collection's place.
        SettingsError: The settings of the embedding provider are invalid.
    """
    if not base.is_dir():
        raise InputError(
            f"base_dir {base} is not a folder; create it, or name an existing one", code="no_folder"
        )
    root = base.resolve() / ".rag" / config.vector_store.collection_name
    (root / "posts").mkdir(mode=0o700, parents=True, exist_ok=True)
    _write_settings(root / SETTINGS_FILE, _MARK + _render_settings(config))
    try:
        opened = open_workspace(root)
    except SettingsError as error:
        raise SettingsError(
            f"embedding_provider is invalid: {error}; correct the RAGConfig, since this file is generated from it",
            code=error.code,
        ) from error
    given = config.embedding_provider
    provider = given if isinstance(given, BaseEmbeddingProvider) else None
    return Library(GivenModelWorkspace(opened.root, opened.settings, provider=provider))


def list_added(workspace: Workspace) -> Iterator[AddedText]:
    """Read the added texts, without those that a person has edited since."""
    for path in sorted((workspace.documents_dir / ADDED_FOLDER).glob("*.md")):
        if added := read_text(path):
            yield added


def find_results(library: Library, base: Path, query: str, top_k: int) -> list[dict[str, Any]]:
    """Search, and return each hit as a text, its metadata and its distance.

    Args:
        library: The library; nothing is found in one that was never indexed.
        base: Folder that paths below it are given relative to.
        query: The question.
        top_k: Most results.
    """
    if not is_made(library.workspace):
        return []
    answer = library.search(query, top_k=top_k)
    for note in answer.notes:
        logger.warning("%s: %s", library.workspace.root, note)
    locate_file = make_locator(library.workspace)
    results = []
    for hit in answer.hits:
        metadata = hit.to_dict()
        text, cosine, path = metadata.pop("text"), metadata.pop("cosine"), locate_file(hit.uri)
        stated = metadata.pop("metadata")
        place = {"path": shorten(path, base), "chunk": int(hit.chunk_id.rpartition("#c:")[2])}
        metadata = {**metadata, **place, **stated}
        results.append({"text": text, "metadata": metadata, "distance": 1 - cosine})
    return results


def shorten(path: Path, base: Path) -> str:
    """Write a path relative to a folder; a path outside of it stays absolute."""
    return str(path.relative_to(base) if path.is_relative_to(base) else path)


def is_empty(library: Library) -> bool:
    """Return whether no document is searched."""
    return not is_made(library.workspace) or library.documents().count == 0


def require_indexed(report: IndexReport) -> IndexReport:
    """Raise an error for the failures of an indexing.

    Raises:
        SearchIndexError: The tables or the index were not made.
    """
    if not report.success:
        raise SearchIndexError("; ".join(report.failures))
    return report


def find_outcome(workspace: Workspace, report: IndexReport, path: Path) -> FileOutcome:
    """Return the outcome of a named file, also of one that is no document, such as a picture.

    Raises:
        InputError: It was not read, although it is one.
    """
    covering = find_covering(workspace, path) or ""
    root = next(
        (one.root.resolve() for one in list_sources(workspace) if one.name == covering),
        workspace.documents_dir,
    )
    below = path.name if path == root else path.relative_to(root).as_posix()
    uri = f"{covering}{SOURCE_MARK}{below}" if covering else below
    source = name_source(workspace.settings.documents.folder, uri)
    found = next((outcome for outcome in report.files if outcome.path == source), None)
    if found is None or found.status not in ("indexed", "unchanged", "skipped"):
        reason = found.reason if found else "a rule leaves out its folder, or it was removed before"
        raise InputError(f"{path} was not read: {reason}", code="unread_file")
    return found


def _write_settings(path: Path, content: str) -> None:
    """Write the settings file, unless it has this content already."""
    known = path.read_text(encoding="utf-8") if path.exists() else _MARK
    if not known.startswith(_MARK):
        raise InputError(
            f"{path} was not written from RAGConfig; choose another collection_name", code="foreign_settings"
        )
    if known != content:
        write_file(path, content.encode())


def _list_formats(config: RAGConfig) -> list[str]:
    """List the formats whose files are cut by characters; the reader of the others chooses the chunker."""
    formats = {each.name for each in DOCUMENT_FORMATS}
    return sorted(formats - ({_CODE} if config.chunker == "ast" else set()))


def _render_settings(config: RAGConfig) -> str:
    """Write the settings as YAML, with one group per line in JSON, which YAML includes."""
    given = config.embedding_provider
    groups: dict[str, Mapping[str, Any]] = {
        "chunks": {
            "chunkers": dict.fromkeys(_list_formats(config), "character"),
            # Few enough characters of any script, so that the size and the model's own limit alone decide.
            "max_tokens": max(_LEAST_CEILING, _MOST_TOKENS_OF_A_CHARACTER * config.chunk_size),
            "max_characters": config.chunk_size,
            "overlap_characters": config.chunk_overlap,
        }
    }
    if isinstance(given, str):
        groups["embedding"] = {"provider": given}
    elif isinstance(given, Mapping):
        of_service = {name: value for name, value in given.items() if name in SERVICE_FIELDS}
        groups["embedding"] = {name: value for name, value in given.items() if name not in SERVICE_FIELDS}
        if of_service:
            groups["services"] = {str(given.get("provider")): of_service}
    return "".join(f"{name}: {json.dumps(group, ensure_ascii=False)}\n" for name, group in groups.items())
