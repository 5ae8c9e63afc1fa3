"""Tools that take long: they tell their progress, and stop when their call is cancelled."""

from collections.abc import Callable

import anyio
import pytest
from mcp import Client

from backstory.base.progress import announce
from backstory.interfaces.library.library import Library
from backstory.interfaces.mcp.server import make_server
from tests.interfaces.mcp.calling import use


def test_indexing_tells_its_progress(make_library: Callable[..., Library]) -> None:
    server = make_server(make_library(), allow_write=True)
    told: list[tuple[float, float | None]] = []

    async def keep(progress: float, total: float | None, message: str | None) -> None:
        assert message
        told.append((progress, total))

    async def steps(client: Client) -> None:
        result = await client.call_tool(
            "index_directory", {"directory_path": "posts"}, progress_callback=keep
        )
        assert isinstance(result.structured_content, dict)
        assert result.structured_content["indexed_count"] == 6

    use(server, steps)
    places = [place for place, _ in told]
    assert places == sorted(set(places))
    assert told[-1][0] == told[-1][1]


def test_summarizing_tells_its_progress(library: Library) -> None:
    library.add([" ".join(f"Sentence {number} tells of pears." for number in range(100))], ["long"])
    told: list[tuple[float, str | None]] = []

    async def keep(progress: float, total: float | None, message: str | None) -> None:
        assert total == 1
        told.append((progress, message))

    async def steps(client: Client) -> None:
        result = await client.call_tool(
            "summarize_document",
            {"file_path": "long", "max_words_per_section": 100},
            progress_callback=keep,
        )
        assert not result.is_error

    use(make_server(library), steps)
    assert len(told) > 2
    assert told == sorted(told)
    assert told[0][1] == f"summarizing sections: 1 of {len(told)}"


def test_a_cancelled_indexing_stops_at_its_next_step(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = make_server(library, allow_write=True)
    begun, cancelled, ended = anyio.Event(), anyio.Event(), anyio.Event()
    seen: list[BaseException] = []

    def index(*_: object, **__: object) -> None:
        announce("embedding documents", 1, 3)
        anyio.from_thread.run_sync(begun.set)
        anyio.from_thread.run(cancelled.wait)
        try:
            announce("embedding documents", 2, 3)
        except Exception as error:  # noqa: BLE001 - whatever stops it
            seen.append(error)
        anyio.from_thread.run_sync(ended.set)

    monkeypatch.setattr(Library, "index", index)

    async def steps(client: Client) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "index_document", {"file_path": "posts/night-train.md"})
            await begun.wait()
            group.cancel_scope.cancel()
        # The notice of cancellation reaches the server by a task of its own.
        await anyio.wait_all_tasks_blocked()
        cancelled.set()
        await ended.wait()

    use(server, steps)
    assert [type(error).__name__ for error in seen] == ["StoppedError"]
