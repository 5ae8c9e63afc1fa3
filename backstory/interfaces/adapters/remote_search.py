"""Search with a tool of an MCP server: arguments by the tool's schema, answers as results of a ``RAGEngine``."""

from __future__ import annotations

import json
import math
import shlex
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from backstory.base.addresses import require_protected
from backstory.base.environment import hook_environment
from backstory.base.errors import InputError, SearchIndexError, SettingsError
from backstory.base.extras import require_extra
from backstory.interfaces.adapters.rag_config import VectorStoreConfig

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal
    from mcp import Client

TIMEOUT_SECONDS: Final = 60.0


class RemoteTool:
    """The search tool of a server, asked over one session that stays open between questions."""

    def __init__(self, store: VectorStoreConfig) -> None:
        """Name the tool. Nothing is opened yet.

        Args:
            store: Names the server and the tool.
        """
        self._store = store
        self._lock = threading.Lock()
        self._held: ExitStack | None = None
        self._session: tuple[BlockingPortal, Client] | None = None

    def ask(self, query: str, top_k: int) -> list[dict[str, Any]]:
        """Call the tool, in a session that is opened again if it has ended.

        The settings name its arguments and the fields of its answer. All other fields become metadata.

        Args:
            query: The question.
            top_k: Most results.

        Returns:
            At most ``top_k`` results with ``text``, ``metadata`` (with ``path`` and ``chunk`` if the tool has them) and
            ``distance`` (None if it has no similarity).

        Raises:
            InputError: The question is blank, or ``top_k`` is below 1.
            MissingExtraError: The extra ``mcp`` is not installed.
            SettingsError: The key would travel unencrypted.
            SearchIndexError: The server cannot be reached, has no such tool, or the tool failed or gave something
                else.
        """
        store = self._store
        if not query.strip() or top_k < 1:
            raise InputError("a search needs a question, and a top_k of at least 1", code="blank_text")
        _require_protected(store)
        require_extra("mcp", "The provider mcp", "set the provider backstory")
        with self._lock:
            was_open = self._session is not None
            answer, cause = self._call(query, top_k)
            if cause is not None and was_open:  # the server may have been started again
                answer, cause = self._call(query, top_k)
        if cause is not None:
            raise SearchIndexError(
                f"{store.server} could not be called ({cause}); check mcp_server and api_key",
                code="unreachable",
            )
        return [_read_result(entry, store) for entry in _list_entries(answer, store)[:top_k]]

    def close(self) -> None:
        """End the session; the next question opens another one."""
        held, self._held, self._session = self._held, None, None
        if held is not None:
            with suppress(Exception):  # the session may have failed already
                held.close()

    def _call(self, query: str, top_k: int) -> tuple[Any, str | None]:
        """Return the answer, and why there is none."""
        from anyio import BrokenResourceError, ClosedResourceError
        from httpx2 import HTTPError
        from mcp import MCPError

        answer: Any = None
        cause: str | None = None
        try:
            portal, client = self._open()
            answer = portal.call(_ask, client, self._store, query, top_k)
        except* (
            MCPError,
            OSError,
            HTTPError,
            BrokenResourceError,
            ClosedResourceError,
            CancelledError,
        ) as errors:
            cause = "; ".join(dict.fromkeys(str(error) or type(error).__name__ for error in _leaves(errors)))
        if cause is not None:
            self.close()
        return answer, cause

    def _open(self) -> tuple[BlockingPortal, Client]:
        if self._session is None:
            from anyio.from_thread import start_blocking_portal  # comes with mcp

            with ExitStack() as stack:
                # In a thread, so that it also works where an event loop runs.
                portal = stack.enter_context(start_blocking_portal())
                client = stack.enter_context(portal.wrap_async_context_manager(_connect(self._store)))
                self._held, self._session = stack.pop_all(), (portal, client)
        return self._session


def _require_protected(store: VectorStoreConfig) -> None:
    try:
        require_protected(store.server if store.api_key else None, allow_http=False, sent="the key")
    except ValueError as error:
        raise SettingsError(
            f"vector_store: {store.server} is http:// on another machine, so api_key would travel unencrypted; write "
            "https://",
            code="unencrypted",
        ) from error


async def _ask(client: Client, store: VectorStoreConfig, query: str, top_k: int) -> Any:
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    if store.mcp_tool is None or store.mcp_tool not in tools:
        raise SearchIndexError(
            f"{store.server} has no tool {store.mcp_tool!r}; it has {', '.join(tools)}", code="unknown_tool"
        )
    known = tools[store.mcp_tool].input_schema.get("properties", {})
    named = {store.name_field("question"): query, store.name_field("limit"): top_k}
    arguments = {name: value for name, value in named.items() if name}
    unknown = [name for name in arguments if name not in known]
    if unknown:
        raise SearchIndexError(
            f"the tool {store.mcp_tool} of {store.server} takes no {', '.join(unknown)}; it takes "
            f"{', '.join(known) or 'nothing'}: name its arguments in vector_store.mcp_fields (question, limit)",
            code="unknown_argument",
        )
    answer = await client.call_tool(store.mcp_tool, arguments)
    texts = [block.text for block in answer.content if block.type == "text"]
    if answer.is_error:
        raise SearchIndexError(
            f"the tool {store.mcp_tool} of {store.server} failed: {' '.join(texts)}", code="failed_tool"
        )
    return (
        answer.structured_content
        if answer.structured_content is not None
        else _read_texts(texts, store.name_field("text"))
    )


@asynccontextmanager
async def _connect(store: VectorStoreConfig) -> AsyncIterator[Client]:
    from httpx2 import AsyncClient
    from mcp import Client, StdioServerParameters
    from mcp.client.streamable_http import streamable_http_client

    async with AsyncExitStack() as stack:
        server: StdioServerParameters | AbstractAsyncContextManager[Any]
        if store.has_address:
            headers = {"Authorization": f"Bearer {store.api_key}"} if store.api_key else None
            http = await stack.enter_async_context(AsyncClient(headers=headers, timeout=TIMEOUT_SECONDS))
            server = streamable_http_client(store.server, http_client=http)
        else:
            command, *arguments = shlex.split(store.server)
            server = StdioServerParameters(command=command, args=arguments, env=hook_environment())
        yield await stack.enter_async_context(Client(server, read_timeout_seconds=TIMEOUT_SECONDS))


def _read_texts(texts: Sequence[str], field: str) -> Any:
    """Read an answer without structure: JSON, else a result for each text, under the name of the field of texts."""
    try:
        return json.loads("\n".join(texts))
    except ValueError:
        return [{field: text} for text in texts]


def _list_entries(answer: Any, store: VectorStoreConfig) -> list[Mapping[str, Any]]:
    results, text = store.name_field("results"), store.name_field("text")
    # An answer without structure is a list of texts already.
    found = answer.get(results) if isinstance(answer, Mapping) else answer
    if not (isinstance(found, list) and all(isinstance(entry, Mapping) for entry in found)):
        raise SearchIndexError(
            f"the tool {store.mcp_tool} of {store.server} gave no list of results called {results!r}; name it in "
            "vector_store.mcp_fields (results)",
            code="no_results",
        )
    if not all(isinstance(entry.get(text), str) for entry in found):
        raise SearchIndexError(
            f"the tool {store.mcp_tool} of {store.server} gave results without a text called {text!r}; name it in "
            "vector_store.mcp_fields (text)"
        )
    entries: list[Mapping[str, Any]] = found
    return entries


def _read_result(entry: Mapping[str, Any], store: VectorStoreConfig) -> dict[str, Any]:
    text = store.name_field("text")
    inner = entry.get("metadata")
    metadata = {name: value for name, value in entry.items() if name not in (text, "metadata")}
    metadata |= inner if isinstance(inner, Mapping) else {}
    for wanted in ("path", "chunk"):
        value = metadata.get(store.name_field(wanted))
        metadata |= {} if value is None else {wanted: value}
    distance = _number(entry.get(store.name_field("distance")))
    similarity = _number(entry.get(store.name_field("similarity")))
    if distance is None and similarity is not None:
        distance = 1 - similarity
    return {"text": entry[text], "metadata": metadata, "distance": distance}


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if is_number else None


def _leaves(group: BaseExceptionGroup[Exception]) -> list[Exception]:
    found: list[Exception] = []
    for error in group.exceptions:
        found += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found
