"""``provider="mcp"``: tools of servers are asked by their own schema, and what cannot be asked is an error."""

import asyncio
import logging
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from backstory import Library
from backstory.adapters.rag_engine import RAGConfig, RAGEngine, VectorStoreConfig
from backstory.errors import InputError, RemoteSearchError, SettingsError
from tests.adapters.search_server import serve_http

KEY = "a-key-that-nobody-may-see"
COMMAND = shlex.join([sys.executable, str(Path(__file__).with_name("search_server.py"))])


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serve_http(KEY) as address:
        yield address


def engine_of(tool: str, server: str, key: str | None = None) -> RAGEngine:
    store = VectorStoreConfig(provider="mcp", mcp_server=server, mcp_tool=tool, api_key=key)
    return RAGEngine(RAGConfig(enabled=True, vector_store=store))


def test_a_tool_is_asked_by_its_own_arguments_over_stdio_and_http(address: str) -> None:
    for engine in (engine_of("find_notes", COMMAND), engine_of("find_notes", address, KEY)):
        first, second = engine.search("when does the night train leave", top_k=2)
        assert first["text"] == "The night train leaves at nine."
        assert first["metadata"]["path"] == "train.md"
        assert first["distance"] == pytest.approx(0.7)
        assert second["distance"] > first["distance"]
    assert "File: train.md (chunk unknown)\n\n> The night train" in engine.inject_context("Rest", [first])
    assert not engine.is_empty()


def test_an_answer_without_structure_gives_its_texts(address: str) -> None:
    found = engine_of("plain_notes", address, KEY).search("e", top_k=2)
    assert [result["text"] for result in found] == [
        "Rye bread wants a hot oven.",
        "The night train leaves at nine.",
    ]
    assert [result["distance"] for result in found] == [None, None]
    assert engine_of("plain_notes", address, KEY).search("nothing has this") == []


@pytest.mark.parametrize(
    ("tool", "message"),
    [
        ("absent", "has no tool 'absent'; it has find_notes"),
        ("count_notes", "gave no list of results"),
        ("list_notes", "takes no question"),
        ("break_down", "failed: .*no search for bread"),
    ],
)
def test_what_a_tool_cannot_answer_is_an_error(tool: str, message: str, address: str) -> None:
    with pytest.raises(RemoteSearchError, match=message):
        engine_of(tool, address, KEY).search("bread")


def test_it_can_be_asked_where_an_event_loop_runs(address: str) -> None:
    async def ask() -> int:
        return len(engine_of("find_notes", address, KEY).search("bread", top_k=3))

    assert asyncio.run(ask()) == 3


def test_a_server_that_cannot_be_asked_is_an_error_without_the_key(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        for key, server in ((f"{KEY}-wrong", address), (KEY, "http://127.0.0.1:9/mcp")):
            engine = engine_of("find_notes", server, key)
            with pytest.raises(RemoteSearchError, match="could not be asked") as raised:
                engine.search("bread")
            assert KEY not in f"{raised.value} {engine.config} {engine.config.vector_store!r}"
        with pytest.raises(RemoteSearchError, match="could not be asked"):
            engine_of("find_notes", "/no/such/program").search("bread")
        engine_of("find_notes", address, KEY).search("bread")
    assert KEY not in caplog.text


def test_a_key_is_not_sent_unencrypted_to_another_machine() -> None:
    with pytest.raises(SettingsError, match="unencrypted"):
        engine_of("find_notes", "http://search.example/mcp", KEY).search("bread")


def test_a_remote_index_is_not_written_to(address: str) -> None:
    engine = engine_of("find_notes", address, KEY)
    with pytest.raises(InputError, match="no index of its own"):
        engine.add_documents(["a"], ["Text."])
    with pytest.raises(InputError, match="a question"):
        engine.search(" ")


def test_the_server_of_a_library_is_asked_by_its_command(indexed_once: Library) -> None:
    program = [sys.executable, "-c", "from backstory.cli import main; main()", "mcp"]
    command = shlex.join([*program, "-w", str(indexed_once.workspace.root)])
    results = engine_of("query_documents", command).search("night train", top_k=2)
    hits = indexed_once.search("night train").hits[:2]
    assert [result["text"] for result in results] == [hit.text for hit in hits]
    assert [result["distance"] for result in results] == pytest.approx([1 - hit.score for hit in hits])
    assert [result["metadata"]["path"] for result in results] == [hit.uri for hit in hits]
    assert [result["metadata"]["chunk"] for result in results] == [hit.chunk_id for hit in hits]
