"""Resources: the documents, the windows, and the contexts of windows."""

from __future__ import annotations

import json
from typing import Any

from mcp.server.mcpserver import MCPServer

from backstory.interfaces.library.library import Library
from backstory.interfaces.mcp.reading_tools import address
from backstory.interfaces.mcp.window_contexts import read_own_context


def add_resources(server: MCPServer[Any], library: Library) -> None:
    """Offer the resources. A text is data; a context is escaped, so that no document forges its structure."""

    @server.resource("backstory://documents", title="The documents", mime_type="application/json")
    def documents() -> str:
        """The documents that are searched, with the addresses of their texts."""
        return json.dumps(
            [
                {"title": entry.title, "path": entry.uri, "address": address(entry.document_id)}
                for entry in library.documents().documents
            ],
            ensure_ascii=False,
        )

    @server.resource("backstory://windows", title="The windows", mime_type="application/json")
    def windows() -> str:
        """The windows of the chats, with the addresses of their contexts."""
        # Imported late: the contracts of the tables take longer to load than a client waits for its first answer.
        from backstory.operations.inspection.windows import list_windows

        rows = list_windows(library.workspace)
        kept = ("conversation_id", "started_at", "ended_at", "message_count", "status", "coverage")
        return json.dumps(
            [
                {**{name: row[name] for name in kept}, "address": f"backstory://window/{row['window_id']}"}
                for row in rows
            ],
            ensure_ascii=False,
            default=str,
        )

    @server.resource("backstory://document/{document_id}", title="A document", mime_type="text/plain")
    def document(document_id: str) -> str:
        """The text of a document."""
        return library.text(document_id).text

    @server.resource("backstory://window/{window_id}", title="A window's context", mime_type="text/markdown")
    def window(window_id: str) -> str:
        """The context of a window, with quoted passages and numbers to cite."""
        return str(read_own_context(library, window_id)["cited_text"])
