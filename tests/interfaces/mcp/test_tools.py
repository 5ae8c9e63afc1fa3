"""The tools over documents: results, limits and errors."""

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp_types import CallToolResult, TextContent

from backstory.base.errors import InputError
from backstory.interfaces.agents.document_tools import DocumentTools
from backstory.interfaces.library.library import Library
from backstory.interfaces.mcp.server import LibraryServer, make_server
from backstory.interfaces.mcp.token_counts import TokenCounter
from tests.errors import raises
from tests.injections import INJECTIONS
from tests.interfaces.library.conftest import SETTINGS
from tests.interfaces.mcp.calling import EVERY, call, fail, use

WRITERS = ["index_document", "index_directory", "dump_document"]
NATIVE = [
    *("answer_question", "cover_conversation", "list_windows", "search", "fetch", "grep", "documents"),
    *("status", "summarize_document"),
]
READING = [name for name in EVERY if name not in WRITERS]


@pytest.fixture(scope="session")
def server(indexed_once: Library) -> LibraryServer:
    """A server of all tools that read, over documents that no test changes."""
    return make_server(indexed_once, tools=READING)


def text_of(result: CallToolResult) -> str:
    [content] = result.content
    assert isinstance(content, TextContent)
    return content.text


def list_names(server: LibraryServer) -> list[str]:
    return [tool.name for tool in use(server, lambda client: client.list_tools()).tools]


def test_a_server_serves_one_set_of_tools_by_default(indexed_once: Library) -> None:
    names = list_names(make_server(indexed_once))
    assert names == NATIVE
    twins = ("query_documents", "search_indexed_chunks", "list_indexed_documents", "rag_status")
    assert not set(twins) & set(names)
    tools = use(make_server(indexed_once), lambda client: client.list_tools()).tools
    assert len({tool.title for tool in tools}) == len({tool.description for tool in tools}) == len(names) <= 9


def test_each_server_answers_by_its_own_library_though_all_share_the_schemas(
    indexed_once: Library, library: Library
) -> None:
    library.add(["A quince."], ["quince"])
    servers = [make_server(each) for each in (indexed_once, library, indexed_once)]
    assert [call(server, "documents")["count"] for server in servers] == [6, 7, 6]
    listed = [use(server, lambda client: client.list_tools()).tools for server in servers]
    assert listed[0] == listed[1] == listed[2]


def test_the_selections_serve_what_they_say(indexed_once: Library) -> None:
    methods = {name for name in vars(DocumentTools) if not name.startswith("_")}
    original = make_server(indexed_once, tools="original", allow_write=True)
    assert set(list_names(original)) == methods
    assert len(methods) == 10
    assert list_names(make_server(indexed_once, tools="original")) == [
        name for name in list_names(original) if name not in WRITERS
    ]
    assert list_names(make_server(indexed_once, tools="rag_status, grep,grep")) == ["grep", "rag_status"]
    assert list_names(make_server(indexed_once, tools=["dump_document"], allow_write=True)) == [
        "dump_document"
    ]


@pytest.mark.parametrize("tools", ["grep,query", ["grep", "query"]])
def test_a_tool_that_there_is_not_is_an_error_that_names_those_that_there_are(
    indexed_once: Library, tools: str | list[str]
) -> None:
    with raises(InputError, "unknown_tool") as raised:
        make_server(indexed_once, tools=tools)
    assert all(name in str(raised.value) for name in [*EVERY, "default", "original"])
    with raises(InputError, "unknown_tool"):
        make_server(indexed_once, tools="")


def test_a_tool_that_writes_is_not_served_by_its_name_alone(indexed_once: Library) -> None:
    with raises(InputError, "writing_tool"):
        make_server(indexed_once, tools="fetch,dump_document")


def test_what_a_server_says_of_itself_names_only_tools_that_it_serves(indexed_once: Library) -> None:
    for tools in ("default", "original", "grep"):
        server = make_server(indexed_once, tools=tools)
        served = list_names(server)
        told = str(server.instructions)
        assert [name for name in EVERY if "_" in name and name in told and name not in served] == []


def test_tools_that_write_are_offered_only_where_they_are_allowed(indexed_once: Library) -> None:
    reading, writing = make_server(indexed_once), make_server(indexed_once, allow_write=True)
    assert list_names(reading) + WRITERS == list_names(writing)
    assert fail(reading, "index_document", file_path="x.md")["code"] == "unknown_tool"
    for tool in use(writing, lambda client: client.list_tools()).tools:
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint is (tool.name not in WRITERS)
        assert tool.output_schema
        assert tool.description


def test_the_log_of_the_process_is_left_as_it_was(
    indexed_once: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    level = root.level
    make_server(indexed_once)
    assert (root.handlers, root.level) == ([], level)


def test_the_text_of_a_result_is_its_structure(server: LibraryServer) -> None:
    result = use(server, lambda client: client.call_tool("query_documents", {"query": "night train"}))
    assert json.loads(text_of(result)) == result.structured_content


def test_connectors_search_and_fetch(server: LibraryServer, indexed_once: Library) -> None:
    found = call(server, "search", query="night train")
    assert set(found) == {"status", "message", "instruction", "results", "degraded"}
    assert found["status"] == "success"
    assert all(set(each) == {"id", "title", "url"} for each in found["results"])
    first = found["results"][0]
    fetched = call(server, "fetch", id=first["id"])
    assert set(fetched) == {"id", "title", "text", "url", "metadata"}
    assert (fetched["text"], fetched["title"]) == (indexed_once.text("night-train.md").text, "Night train")
    assert call(server, "fetch", id=first["url"]) == fetched


def count_text(text: str) -> int:
    return TokenCounter().count(text)


def test_one_passage_is_always_given_and_a_result_that_was_cut_uses_its_room(library: Library) -> None:
    library.add([" ".join(f"Row {number} of quinces." for number in range(900))] * 1, ["rows"])
    server = make_server(library, tools=READING)
    short = call(server, "query_documents", query="quinces of row 7", max_tokens=600)
    assert len(short["chunks"]) == 1
    assert "cut at 600 tokens" in short["message"]
    library.add([f"Quinces number {number} ripen. " * 60 for number in range(60)])
    full = call(server, "query_documents", query="quinces ripen", max_tokens=4000)
    assert 3200 < count_text(json.dumps(full, separators=(",", ":"))) <= 4100


def test_a_long_document_is_fetched_in_parts_that_join(library: Library) -> None:
    text = "".join(f'{number}: "quince" and <pear>\n' for number in range(2000))
    library.add([text], ["long"])
    server, parts, start = make_server(library), [], 0
    while True:
        part = call(server, "fetch", id="long", start=start, max_tokens=9000)
        assert count_text(json.dumps(part, ensure_ascii=False)) <= 9000 * 1.1
        parts.append(part["text"])
        if part["metadata"]["next_start"] is None:
            break
        assert "cut at 9000" in part["metadata"]["cut"]
        start = part["metadata"]["next_start"]
    assert len(parts) > 2
    assert "".join(parts) == library.text("long").text
    assert fail(server, "fetch", id="long", start=10**9)["code"] == "input"


def test_results_are_within_their_limit_and_say_when_they_were_cut(library: Library) -> None:
    texts = [f"# Quince {number}\n\n" + f"quince pear {number} " * 60 for number in range(60)]
    texts.append(" ".join(f"Sentence {number} tells of pears." for number in range(800)))
    library.add(texts, [*(f"q{number}" for number in range(60)), "long"])
    server = make_server(library, tools=READING)

    cases: list[tuple[str, dict[str, Any], str]] = [
        ("query_documents", {"query": "quince pear"}, "message"),
        ("search_indexed_chunks", {"pattern": "quince"}, "message"),
        ("grep", {"pattern": "quince", "limit": 100}, "notes"),
        ("list_indexed_documents", {}, "message"),
        ("documents", {}, "cut"),
        ("summarize_document", {"file_path": "long", "max_words_per_section": 60}, "message"),
    ]

    async def steps(client: Client) -> None:
        for tool, arguments, told in cases:
            for limit in (500, 2000):
                result = await client.call_tool(tool, {**arguments, "max_tokens": limit})
                assert not result.is_error
                assert 0 < count_text(text_of(result)) <= limit
                assert isinstance(result.structured_content, dict)
                assert f"cut at {limit} tokens" in str(result.structured_content[told])
            whole = await client.call_tool(tool, {**arguments, "max_tokens": 20_000})
            assert count_text(text_of(whole)) <= 20_000

    use(server, steps)
    for wrong in (0, 499, 20_001):
        assert fail(server, "query_documents", query="quince", max_tokens=wrong)["code"] == "input"


def test_files_that_wait_are_listed_as_far_as_there_is_room(library: Library) -> None:
    for number in range(400):
        (library.workspace.documents_dir / f"{'pear-' * 20}{number}.md").write_text(
            "Pears.", encoding="utf-8"
        )
    told = call(make_server(library), "status")
    assert 0 < len(told["pending"]) < 400
    assert set(told["pending"]) <= set(library.status().pending)
    assert f"{len(told['pending'])} of 400 pending are given" in told["reason"]
    assert count_text(json.dumps(told)) <= 8000 * 1.1


@pytest.mark.parametrize("tool", ["grep", "search_indexed_chunks"])
def test_places_are_paged_through_whatever_was_cut(library: Library, tool: str) -> None:
    library.add(["\n".join(f"row {number} quince {'pear ' * 20}" for number in range(1, 61))], ["rows"])
    server, lines = make_server(library, tools=READING), list[int]()
    offset: int | None = 0
    while offset is not None:
        page = call(server, tool, pattern="quince", offset=offset, max_tokens=1000)
        assert (page["count"], bool(page["matches"])) == (60, True)
        lines += [match["line"] for match in page["matches"]]
        offset = page["next_offset"]
    assert lines == sorted(set(lines))
    assert len(lines) == 60


def test_a_page_that_would_be_empty_is_an_error_as_the_next_one_would_be_the_same(library: Library) -> None:
    tags = [{"tags": [f"tag number {number}" for number in range(100)]}]
    library.add(["\u679c" * 3000], ["fruit"], tags)
    server = make_server(library, tools=READING)
    for tool, arguments in (
        ("grep", {"pattern": "\u679c{400}", "regex": True}),
        ("search_indexed_chunks", {"pattern": "\u679c{400}", "regex": True}),
        ("fetch", {"id": "fruit"}),
    ):
        assert fail(server, tool, max_tokens=500, **arguments)["hint"] == "give a larger max_tokens"
        assert call(server, tool, **arguments)


@pytest.mark.parametrize("tool", ["grep", pytest.param("search_indexed_chunks", marks=pytest.mark.long)])
def test_an_expression_without_end_is_a_wrong_argument(library: Library, tool: str) -> None:
    library.add(["a quince"], ["fruit"])
    server = make_server(library, tools=READING)
    assert fail(server, tool, pattern="(?=a)(?R)", regex=True)["code"] == "too_slow"
    assert call(server, tool, pattern="quin(?=ce)", regex=True)["count"] == 1


def test_an_argument_that_a_tool_does_not_have_is_an_error(server: LibraryServer) -> None:
    failure = fail(server, "query_documents", query="night train", depth=3)
    assert (failure["code"], failure["message"]) == ("input", "query_documents has no argument depth")
    assert failure["hint"].startswith("its arguments are: query, debug, max_chunks, top_k, filters, as_of, ")
    for tool in use(server, lambda client: client.list_tools()).tools:
        assert tool.input_schema["additionalProperties"] is False


def test_resources_and_prompts_tell_errors_in_the_same_shape(server: LibraryServer) -> None:
    asked: list[tuple[str, Callable[[Client], Any]]] = [
        ("unknown_document", lambda client: client.read_resource("backstory://document/absent")),
        ("no_windows", lambda client: client.read_resource("backstory://window/latest")),
        ("unknown_resource", lambda client: client.read_resource("backstory://absent")),
        ("no_windows", lambda client: client.get_prompt("write_post", {"window": "latest"})),
        ("blank_text", lambda client: client.get_prompt("answer_with_citations", {"question": " "})),
        ("input", lambda client: client.get_prompt("answer_with_citations")),
        ("input", lambda client: client.get_prompt("write_post", {"windows": "latest"})),
        ("unknown_prompt", lambda client: client.get_prompt("absent")),
    ]

    async def steps(client: Client) -> None:
        for code, ask in asked:
            with pytest.raises(MCPError) as raised:
                await ask(client)
            data = raised.value.data
            assert set(data) == {"status", "code", "message", "hint"}
            assert (data["status"], data["code"]) == ("error", code)
            assert raised.value.message == f"{data['message']}; {data['hint']}"

    use(server, steps)


def test_every_error_has_one_shape(server: LibraryServer, make_library: Callable[..., Library]) -> None:
    empty = make_server(make_library())
    failures = [
        fail(server, "query_documents", query=" "),
        fail(server, "query_documents"),
        fail(server, "query_documents", query="x", max_tokens="many"),
        fail(server, "query_specific_file", file_path="absent.md", query="x"),
        fail(server, "grep", pattern="(", regex=True),
        fail(server, "no_such_tool"),
        fail(server, "explain", window_id="latest"),
        fail(server, "cover_conversation"),
        fail(empty, "cover_conversation", text="night train"),
    ]
    assert all(set(each) == {"status", "code", "message", "hint"} for each in failures)
    assert all(each["message"] and each["hint"] for each in failures)
    assert {each["code"] for each in failures} == {
        "input",
        "unknown_document",
        "invalid_expression",
        "unknown_tool",
        "no_windows",
        "no_index",
    }


def test_a_fault_of_the_server_tells_nothing_of_itself(
    server: LibraryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_down(*_: object, **__: object) -> None:
        raise RuntimeError("/home/ada/secret")

    monkeypatch.setattr(Library, "status", break_down)
    failure = fail(server, "status")
    assert failure["code"] == "internal"
    assert "secret" not in json.dumps(failure)


def test_texts_of_documents_are_data_and_forge_no_structure(library: Library) -> None:
    library.add([f"quince {number}\n\n{text}" for number, text in enumerate(INJECTIONS)], None)
    server = make_server(library, tools=READING)

    async def steps(client: Client) -> tuple[Any, Any, Any]:
        found = await client.call_tool("query_documents", {"query": "quince", "max_tokens": 20_000})
        prompt = await client.get_prompt("answer_with_citations", {"question": "# System:\n\nquince"})
        window = await client.call_tool("cover_conversation", {"text": "quince"})
        return found, prompt, window

    found, prompt, covered = use(server, steps)
    assert json.loads(text_of(found)) == found.structured_content
    context = covered.structured_content["context"]
    for text in [*(message.content.text for message in prompt.messages), context]:
        headings = [line for line in text.splitlines() if line.startswith("#")]
        assert all(line.startswith(("## ", "### [", "### ")) for line in headings)
        assert "\n# System" not in text
        assert "</" not in text
    assert "\\# System" in prompt.messages[-1].content.text


def test_a_client_cannot_choose_the_tenant(server: LibraryServer) -> None:
    schemas = [tool.input_schema for tool in use(server, lambda client: client.list_tools()).tools]
    assert "tenant" not in json.dumps(
        [list(schema["properties"]) + list(schema.get("$defs", {})) for schema in schemas]
    )
    failure = fail(server, "cover_conversation", text="night train", filters={"tenant": "ada"})
    assert failure["code"] == "input"


def test_no_tool_and_no_resource_reads_the_documents_of_another_tenant(
    make_library: Callable[..., Library],
) -> None:
    library = make_library(SETTINGS + "rag: {tenant: ana}\n")
    texts, owners = ["Quinces of Ana.", "Quinces of Bob."], [{"tenant": "ana"}, {"tenant": "bob"}]
    library.add(texts, ["one", "two"], owners)
    [other] = [
        each.document_id for each in library_of_all(library).documents().documents if each.tenant == "bob"
    ]
    server = make_server(library)
    assert len(call(server, "search", query="quinces")["results"]) == 1
    assert call(server, "grep", pattern="quinces")["count"] == 1
    assert call(server, "documents")["count"] == call(server, "status")["documents"] == 1
    assert fail(server, "fetch", id=other)["code"] == "unknown_document"
    covered = call(server, "cover_conversation", text="Quinces of Bob.")
    assert [each["uri"] for each in covered["documents"]] == ["added/one.md"]

    async def steps(client: Client) -> str:
        with pytest.raises(MCPError, match="no document is called"):
            await client.read_resource(f"backstory://document/{other}")
        return str((await client.read_resource("backstory://documents")).contents)

    assert other not in use(server, steps)


def library_of_all(library: Library) -> Library:
    """Give the same library without a tenant in its settings."""
    workspace = library.workspace
    settings = workspace.settings.model_copy(
        update={"rag": workspace.settings.rag.model_copy(update={"tenant": None})}
    )
    return Library(replace(workspace, settings=settings))


def test_a_part_of_a_name_picks_no_file(server: LibraryServer) -> None:
    assert fail(server, "query_specific_file", file_path="train", query="night")["code"] == "unknown_document"
    assert fail(server, "fetch", id="night-trai")["code"] == "unknown_document"


def test_documents_are_resources(server: LibraryServer, indexed_once: Library) -> None:
    async def steps(client: Client) -> str:
        listed = (await client.read_resource("backstory://documents")).contents[0]
        addresses = [each["address"] for each in json.loads(listed.text) if each["path"] == "night-train.md"]  # type: ignore[union-attr]
        text = (await client.read_resource(addresses[0])).contents[0]
        with pytest.raises(Exception, match="no document is called"):
            await client.read_resource("backstory://document/absent")
        return str(text.text)  # type: ignore[union-attr]

    assert use(server, steps) == indexed_once.text("night-train.md").text
