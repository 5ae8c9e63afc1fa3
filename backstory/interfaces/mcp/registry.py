"""The one registry of tools by name: what each does to the workspace, and the selections that a server serves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from mcp_types import ToolAnnotations

from backstory.base.errors import InputError

_F = TypeVar("_F", bound=Callable[..., Any])

READS: Final = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
"""A tool that changes nothing."""

ASKS: Final = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=True
)
"""A tool that changes nothing, and asks a model's service if the settings name one."""

INDEXES: Final = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
"""A tool that reads files into the index; once more changes nothing."""

WRITES: Final = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
)
"""A tool that writes a file where none was."""

DEFAULT: Final = "default"
ORIGINAL: Final = "original"
_WRITING: Final = ("index_document", "index_directory", "dump_document")
SELECTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    DEFAULT: (
        *("answer_question", "cover_conversation", "list_windows", "search", "fetch", "grep", "documents"),
        *("status", "summarize_document", *_WRITING),
    ),
    ORIGINAL: (
        *("query_documents", "query_specific_file", "search_indexed_chunks", "evaluate_retrieval"),
        *("list_indexed_documents", "summarize_document", "rag_status", *_WRITING),
    ),
}
"""Names of tools by selection. No two tools of a selection do the same; ``explain`` is served by its name alone."""


class Tool(NamedTuple):
    """A tool: its function, and how clients show it and ask leave for it."""

    function: Callable[..., Any]
    title: str
    annotations: ToolAnnotations


class Registry(dict[str, Tool]):
    """All tools over one library by name, in the order in which a server lists them."""

    def tool(self, *, title: str, annotations: ToolAnnotations) -> Callable[[_F], _F]:
        """Register a function under its name."""

        def register(function: _F) -> _F:
            self[function.__name__] = Tool(function, title, annotations)
            return function

        return register

    def choose(self, tools: str | Sequence[str], *, allow_write: bool) -> list[Tool]:
        """Choose the tools that a server serves.

        Args:
            tools: A selection of :data:`SELECTIONS`, or names of tools, as a sequence or joined by commas.
            allow_write: Whether to admit tools that index files or write texts. A selection leaves them out otherwise.

        Returns:
            The tools, each once, in the order of the registry.

        Raises:
            InputError: There is no such tool, or a name that is given needs ``allow_write``.
        """
        selected = SELECTIONS.get(tools) if isinstance(tools, str) else None
        names = tools.split(",") if isinstance(tools, str) else tools
        wanted = selected or [name.strip() for name in names]
        unknown = [name for name in wanted if name not in self]
        if unknown:
            raise InputError(
                f"there is no tool {', '.join(map(repr, unknown))}; name a selection, {' or '.join(SELECTIONS)}, or "
                f"some of the tools {', '.join(self)}",
                code="unknown_tool",
            )
        refused = [name for name in wanted if not (allow_write or self[name].annotations.read_only_hint)]
        if refused and selected is None:
            raise InputError(
                f"{', '.join(refused)} would write; add --allow-write, or allow_write=True in Python",
                code="writing_tool",
            )
        return [tool for name, tool in self.items() if name in wanted and name not in refused]
