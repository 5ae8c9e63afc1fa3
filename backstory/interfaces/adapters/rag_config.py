"""The configuration of a ``RAGEngine`` (:mod:`backstory.interfaces.adapters.rag_engine`): standard library only."""

from __future__ import annotations

import logging
import re
import shlex
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final, Self

from backstory.base.errors import SettingsError

PROVIDERS: Final = ("backstory", "mcp")
_STORE_ALIASES: Final = ("chroma", "mock")
"""Providers of the original configuration, which stand for the index in the base folder."""
_MOCK: Final = "mock"
CHUNKERS: Final = ("character", "ast")

TOOL_FIELDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "question": "query",
        "limit": "",
        "results": "chunks",
        "text": "content",
        "path": "source_file",
        "chunk": "chunk_id",
        "similarity": "relevance_score",
        "distance": "",
    }
)
"""Names of a search tool's arguments and answer fields; the values are those of ``query_documents``."""

logger = logging.getLogger(__name__)

_COLLECTION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LEAST_CHUNK: Final = 16
_NAMING: Final = ("model", "model_name", "model_id", "revision", "dimension", "dimensions")


class BaseEmbeddingProvider(ABC):
    """A model of your own.

    A subclass defines :meth:`embed`, and also :attr:`identity` if its class alone does not distinguish models.

    Attributes:
        max_input_tokens: Most tokens that the model reads of a text; chunks are never longer.
    """

    max_input_tokens: ClassVar[int] = 8191

    @property
    def identity(self) -> str:
        """Name of the model. Vectors of different names are never compared and never replace each other.

        By default the class, with its attributes ``model``, ``model_name``, ``model_id``, ``revision``, ``dimension``
        and ``dimensions``.
        """
        named = [f"{name}={getattr(self, name)}" for name in _NAMING if hasattr(self, name)]
        kind = type(self)
        return ",".join([f"{kind.__module__}.{kind.__qualname__}", *named])

    @abstractmethod
    def embed(self, texts: list[str]) -> Sequence[Sequence[float]]:
        """Return a vector for each text, in their order; lengths need not be 1."""


@dataclass(frozen=True)
class VectorStoreConfig:
    """Which vector store a ``RAGEngine`` searches.

    Attributes:
        provider: ``backstory`` searches the index in the base folder; ``mcp`` asks a tool of an MCP server. ``chroma``
            and ``mock`` stand for ``backstory``, which a warning says.
        url: Address of the MCP server, if ``mcp_server`` does not name it.
        api_key: Bearer token for an MCP server that has an address; never shown and never logged.
        collection_name: Folder of the index, in the folder ``.rag`` of the base folder.
        mcp_server: Address of an MCP server, or the command line that starts one.
        mcp_tool: Name of its search tool.
        mcp_fields: The tool's names for the arguments ``question`` and ``limit``, for the list of ``results``, and in
            each result for ``text``, ``path``, ``chunk``, ``similarity`` or ``distance``. An absent key has its value
            of :data:`TOOL_FIELDS`; an empty name means that the tool has no such field.

    Raises:
        SettingsError: A value does not fit the provider.
    """

    provider: str = "backstory"
    url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    collection_name: str = "documents"
    mcp_server: str | None = None
    mcp_tool: str | None = None
    mcp_fields: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.provider in _STORE_ALIASES:
            logger.warning(
                "vector_store.provider %s stands for backstory: the index is the folder .rag of the base folder, and "
                "url and api_key are not used",
                self.provider,
            )
            for name, value in (("provider", "backstory"), ("url", None), ("api_key", None)):
                object.__setattr__(self, name, value)
        if self.provider not in PROVIDERS:
            raise SettingsError(
                f"vector_store.provider {self.provider!r} is not known; write backstory for the index in the base "
                "folder, or mcp for a tool of an MCP server",
                code="unknown_value",
            )
        if not _COLLECTION.fullmatch(self.collection_name):
            raise SettingsError(
                f"vector_store.collection_name {self.collection_name!r} names a folder: letters, digits, and . _ - "
                "after the first character",
                code="invalid_name",
            )
        if self.provider == "mcp" and not (self.mcp_tool and self.server.strip()):
            raise SettingsError(
                "vector_store.provider mcp needs mcp_server (an address or a command) and mcp_tool",
                code="absent_setting",
            )
        if self.provider == "mcp" and not self.has_address:
            try:
                shlex.split(self.server)
            except ValueError as error:
                raise SettingsError(
                    f"vector_store.mcp_server {self.server!r} is no command line ({error}); close its quotation marks",
                    code="invalid_command",
                ) from error
        self._require_known_fields()
        without_use = [
            name for name in ("url", "api_key", "mcp_server", "mcp_tool", "mcp_fields") if getattr(self, name)
        ]
        if self.provider == "backstory" and without_use:
            raise SettingsError(
                f"vector_store.{without_use[0]} does not apply to the provider backstory, whose index is a folder; "
                "remove it",
                code="unused_setting",
            )
        if self.api_key and not self.has_address:
            raise SettingsError(
                "vector_store.api_key is sent to a server that has an address; a command takes none",
                code="unused_setting",
            )

    def _require_known_fields(self) -> None:
        unknown = sorted(set(self.mcp_fields) - set(TOOL_FIELDS))
        if unknown:
            raise SettingsError(
                f"vector_store.mcp_fields.{unknown[0]} is no field; there are {', '.join(TOOL_FIELDS)}"
            )
        for name in ("question", "text"):
            if self.mcp_fields.get(name) == "":
                raise SettingsError(
                    f"vector_store.mcp_fields.{name} is empty; a search tool takes a question and answers with texts"
                )

    def name_field(self, name: str) -> str:
        """Return the search tool's name for an argument or a field of its answer; empty if it has none."""
        return self.mcp_fields.get(name, TOOL_FIELDS[name])

    @property
    def server(self) -> str:
        """Address or command line of the MCP server; empty without one."""
        return self.mcp_server or self.url or ""

    @property
    def has_address(self) -> bool:
        """Whether the MCP server has an address."""
        return self.server.startswith(("http://", "https://"))


@dataclass(frozen=True)
class RAGConfig:
    """Configuration of a ``RAGEngine``.

    Attributes:
        enabled: Whether the engine searches. If not, none of its methods does anything.
        vector_store: Which vector store a ``RAGEngine`` searches.
        embedding_provider: Name of a provider (``local``, ``gemini``, ``openai``, ``hashing``), settings of
            ``embedding`` and of its service (docs/reference/settings.md), or a model of your own. ``mock`` stands for
            ``hashing``, which a warning says.
        chunk_size: Most characters of a chunk.
        chunk_overlap: Most characters that a chunk repeats from the one before.
        chunker: ``character`` cuts every file by its characters; ``ast`` cuts source code by its definitions.

    Raises:
        SettingsError: A number is out of its range, or the provider is none.
    """

    enabled: bool = False
    vector_store: VectorStoreConfig = field(default_factory=VectorStoreConfig)
    embedding_provider: str | Mapping[str, Any] | BaseEmbeddingProvider = "local"
    chunk_size: int = 1000
    chunk_overlap: int = 200
    chunker: str = "character"

    def __post_init__(self) -> None:
        if self.embedding_provider == _MOCK:
            logger.warning("embedding_provider mock stands for hashing: it compares words, without a model")
            object.__setattr__(self, "embedding_provider", "hashing")
        if self.chunker not in CHUNKERS:
            raise SettingsError(
                f"chunker {self.chunker!r} is not known; write {' or '.join(CHUNKERS)}", code="unknown_value"
            )
        if not isinstance(self.embedding_provider, str | Mapping | BaseEmbeddingProvider):
            raise SettingsError(
                f"embedding_provider is {self.embedding_provider!r}; pass the name of a provider, a table of its "
                "settings, or an instance of a subclass of BaseEmbeddingProvider",
                code="wrong_type",
            )
        for name in ("chunk_size", "chunk_overlap"):
            if not isinstance(getattr(self, name), int):
                raise SettingsError(
                    f"{name} is {getattr(self, name)!r}; it must be a whole number of characters",
                    code="wrong_type",
                )
        if self.chunk_size < _LEAST_CHUNK:
            raise SettingsError(
                f"chunk_size {self.chunk_size} must be at least {_LEAST_CHUNK} characters",
                code="out_of_range",
            )
        if not 0 <= self.chunk_overlap < self.chunk_size:
            raise SettingsError(
                f"chunk_overlap {self.chunk_overlap} must be at least 0 and below chunk_size {self.chunk_size}",
                code="out_of_range",
            )

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read the table ``[rag]`` of a TOML file; without one, the search is disabled.

        Raises:
            SettingsError: The file cannot be read, or names something that is no setting.
        """
        try:
            table = tomllib.loads(Path(path).read_text(encoding="utf-8")).get("rag", {})
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise SettingsError(f"{path} cannot be read as TOML ({error})", code="invalid_toml") from error
        try:
            store = VectorStoreConfig(
                **_known(VectorStoreConfig, table.get("vector_store", {}), "rag.vector_store")
            )
            return cls(**{**_known(cls, table, "rag"), "vector_store": store})
        except SettingsError as error:
            raise SettingsError(f"{path}: {error}", code=error.code) from error


def _known(kind: type[Any], table: Any, name: str) -> dict[str, Any]:
    """Return the values of a table of TOML, each of the type that the field has."""
    if not isinstance(table, dict):
        raise SettingsError(
            f"{name} must be a table; write [{name}] and its settings below", code="wrong_type"
        )
    allowed = {each.name: each.type for each in fields(kind)}
    for key, value in table.items():
        if key not in allowed:
            raise SettingsError(
                f"{name}.{key} is no setting; there are {', '.join(allowed)}", code="unknown_setting"
            )
        wanted = _TYPES.get(str(allowed[key]), (str, dict))
        if type(value) not in wanted:
            names = " or ".join(one.__name__ for one in wanted)
            raise SettingsError(
                f"{name}.{key} must be of type {names}, and is of type {type(value).__name__}",
                code="wrong_type",
            )
    return dict(table)


_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "bool": (bool,),
    "int": (int,),
    "str": (str,),
    "str | None": (str,),
    "VectorStoreConfig": (dict,),
    "Mapping[str, str]": (dict,),
}
