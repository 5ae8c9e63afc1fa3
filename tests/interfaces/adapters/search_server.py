"""A server of its own with search tools, by the official SDK: over stdio as a program, over HTTP in a thread."""

import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

NOTES = {
    "bread.md": "Rye bread wants a hot oven.",
    "train.md": "The night train leaves at nine.",
    "frost.md": "Frost came early.",
}


def make_server() -> MCPServer:
    server = MCPServer("notes")

    @server.tool()
    def find_notes(question: str, limit: int) -> dict[str, Any]:
        words = set(question.lower().split())
        found = [
            {"content": text, "score": len(words & set(text.lower().strip(".").split())) / 10, "source": name}
            for name, text in NOTES.items()
        ]
        return {"hits": sorted(found, key=lambda entry: -float(str(entry["score"])))[:limit], "took": 1}

    @server.tool(structured_output=False)
    def plain_notes(query: str) -> list[str]:
        return [text for text in NOTES.values() if query in text]

    @server.tool()
    def count_notes(query: str) -> int:
        return len(query)

    @server.tool()
    def list_notes() -> list[str]:
        return list(NOTES)

    @server.tool()
    def break_down(query: str) -> str:
        raise ToolError(f"no search for {query}")

    return server


@contextmanager
def serve_http(key: str) -> Iterator[str]:
    """Serve on the loopback interface whoever sends the key, and yield the address."""
    app = make_server().streamable_http_app()

    async def guarded(
        scope: dict[str, Any],
        receive: Callable[[], Awaitable[dict[str, Any]]],
        send: Callable[[dict[str, Any]], Awaitable[None]],
    ) -> None:
        headers = dict(scope.get("headers", ()))
        if scope["type"] == "http" and headers.get(b"authorization") != f"Bearer {key}".encode():
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b"wrong key"})
            return
        await app(scope, receive, send)  # type: ignore[arg-type] # ASGI's types are those of each library

    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(guarded, log_level="error", ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


if __name__ == "__main__":
    sys.exit(make_server().run("stdio"))
