"""``provider="mcp"``: tools of servers are asked by their own schema, and what cannot be asked is an error."""

import asyncio
import logging
import os
import shlex
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from backstory import Library
from backstory.base.errors import InputError, SearchIndexError, SettingsError
from backstory.interfaces.adapters.rag_config import RAGConfig, VectorStoreConfig
from backstory.interfaces.adapters.rag_engine import RAGEngine
from tests.errors import raises
from tests.interfaces.adapters.search_server import serve_http

KEY = "a-key-that-nobody-may-see"
COMMAND = shlex.join([sys.executable, str(Path(__file__).with_name("search_server.py"))])


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serve_http(KEY) as address:
        yield address


NOTES = {
    "question": "question",
    "limit": "limit",
    "results": "hits",
    "text": "content",
    "path": "source",
    "similarity": "score",
}
PLAIN = {"question": "query", "limit": "", "results": ""}


def engine_of(tool: str, server: str, key: str | None = None, names: Mapping[str, str] = PLAIN) -> RAGEngine:
    store = VectorStoreConfig(provider="mcp", mcp_server=server, mcp_tool=tool, api_key=key, mcp_fields=names)
    return RAGEngine(RAGConfig(enabled=True, vector_store=store))


def test_a_tool_is_asked_by_its_own_arguments_over_stdio_and_http(address: str) -> None:
    for engine in (
        engine_of("find_notes", COMMAND, names=NOTES),
        engine_of("find_notes", address, KEY, NOTES),
    ):
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
    ("tool", "code"),
    [
        ("absent", "unknown_tool"),
        ("count_notes", "no_results"),
        ("list_notes", "unknown_argument"),
        ("break_down", "failed_tool"),
    ],
)
def test_what_a_tool_cannot_answer_is_an_error(tool: str, code: str, address: str) -> None:
    with raises(SearchIndexError, code):
        engine_of(tool, address, KEY).search("bread")


def test_it_can_be_asked_where_an_event_loop_runs(address: str) -> None:
    async def ask() -> int:
        return len(engine_of("find_notes", address, KEY, NOTES).search("bread", top_k=3))

    assert asyncio.run(ask()) == 3


def test_a_server_that_cannot_be_asked_is_an_error_without_the_key(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        for key, server in ((f"{KEY}-wrong", address), (KEY, "http://127.0.0.1:9/mcp")):
            engine = engine_of("find_notes", server, key, NOTES)
            with raises(SearchIndexError, "unreachable") as raised:
                engine.search("bread")
            assert KEY not in f"{raised.value} {engine.config} {engine.config.vector_store!r}"
        with raises(SearchIndexError, "unreachable"):
            engine_of("find_notes", "/no/such/program").search("bread")
        engine_of("find_notes", address, KEY, NOTES).search("bread")
    assert KEY not in caplog.text


def test_a_key_is_not_sent_unencrypted_to_another_machine() -> None:
    with raises(SettingsError, "unencrypted", "vector_store"):
        engine_of("find_notes", "http://search.example/mcp", KEY).search("bread")


def test_one_session_serves_all_questions_and_a_server_that_ended_is_started_again(tmp_path: Path) -> None:
    noting = f"echo $$ > {shlex.quote(str(tmp_path / 'pid'))}; exec {COMMAND}"
    engine = engine_of("find_notes", shlex.join(["sh", "-c", noting]), names=NOTES)
    engine.search("bread")
    remote = engine._remote
    assert remote is not None
    session = remote._session
    for _ in range(5):
        engine.search("bread", top_k=1)
    assert remote._session is session
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    assert engine.search("bread", top_k=1)
    assert remote._session is not session
    engine.close()
    assert remote._session is None


def test_a_remote_index_is_not_written_to(address: str) -> None:
    engine = engine_of("find_notes", address, KEY, NOTES)
    with raises(InputError, "no_index"):
        engine.add_documents(["a"], ["Text."])
    with raises(InputError, "blank_text"):
        engine.search(" ")


def test_the_server_of_a_library_is_asked_by_its_command(indexed_once: Library) -> None:
    program = [sys.executable, "-c", "from backstory.interfaces.cli.app import main; main()", "mcp"]
    command = shlex.join([*program, "--tools", "original", "-w", str(indexed_once.workspace.root)])
    results = engine_of("query_documents", command, names={}).search("night train", top_k=2)
    hits = indexed_once.search("night train").hits[:2]
    assert [result["text"] for result in results] == [hit.text for hit in hits]
    assert [result["distance"] for result in results] == pytest.approx([1 - hit.score for hit in hits])
    assert [result["metadata"]["path"] for result in results] == [hit.uri for hit in hits]
    assert [result["metadata"]["chunk"] for result in results] == [f"{hit.document_id[:8]}#0" for hit in hits]
