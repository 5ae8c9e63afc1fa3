"""MCP ``ToolAnnotations`` of each kind of tool: read-only, asks a model, indexes, writes."""

from __future__ import annotations

from typing import Final

from mcp_types import ToolAnnotations

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
