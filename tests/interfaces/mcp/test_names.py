"""Documents that name members of a chat, as tools show them to a model by each rule of ``privacy.documents``."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp.server.mcpserver import MCPServer

from backstory import open_workspace, run_pipeline
from backstory.ingest.privacy.pseudonyms import find_naming_texts
from backstory.interfaces.agents.document_tools import DocumentTools
from backstory.interfaces.library.library import Library
from backstory.interfaces.mcp.server import make_server
from tests.interfaces.mcp.calling import EVERY, call, use
from tests.pipeline.test_names_sent_to_models import MARK, MEMBERS, NAME, SPARE, make_naming
from tests.pipeline.test_people import open_with
from tests.workspaces import SETTINGS

ASKED = f"The {MARK} elbow of the drip irrigation line"


@pytest.fixture(scope="module")
def naming(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_naming(tmp_path_factory.mktemp("naming") / "workspace").root


@pytest.fixture(params=["replace", "reject", "keep"])
def at(request: pytest.FixtureRequest, naming: Path, tmp_path: Path) -> Iterator[tuple[str, Library]]:
    root = shutil.copytree(naming, tmp_path / "workspace")
    workspace = open_with(root, MEMBERS, f"{SETTINGS}privacy: {{documents: {request.param}}}\n")
    with Library(workspace) as library:
        yield request.param, library


def list_calls(library: Library) -> list[tuple[str, dict[str, Any]]]:
    window = library.workspace.tables.read("contexts").filter(uri="drip.md")["window_id"][0]
    return [
        ("cover_conversation", {"text": ASKED}),
        ("cover_conversation", {"window_id": window}),
        ("explain", {"window_id": window}),
        ("answer_question", {"query": f"Which elbow of {MARK} does the drip irrigation line have?"}),
        ("search", {"query": ASKED}),
        ("fetch", {"id": "drip.md"}),
        ("grep", {"pattern": SPARE[:3]}),
        ("documents", {}),
        ("summarize_document", {"file_path": "drip.md"}),
        ("query_documents", {"query": ASKED}),
        ("query_specific_file", {"query": ASKED, "file_path": "drip.md"}),
        ("search_indexed_chunks", {"pattern": SPARE[:3]}),
        ("list_indexed_documents", {}),
    ]


def test_every_tool_shows_documents_by_the_rule(at: tuple[str, Library]) -> None:
    rule, library = at
    server = make_server(
        library, tools=[name for name in EVERY if "dump" not in name and "index_d" not in name]
    )
    for tool, arguments in list_calls(library):
        shown = json.dumps(call(server, tool, **arguments), ensure_ascii=False)
        assert bool(find_naming_texts([shown], [NAME])) is (rule == "keep"), tool
        if tool not in ("explain", "search", "documents", "list_indexed_documents"):
            assert (SPARE in shown) is (rule != "reject"), tool
            if rule == "reject":
                assert f"privacy.documents is {rule}" in shown, tool
    assert NAME in library.text("drip.md").text


def test_a_chunk_begins_where_its_text_does(tmp_path: Path) -> None:
    settings = f"{SETTINGS}chunks: {{max_tokens: 64, overlap_tokens: 0}}\n"
    with Library(make_naming(tmp_path / "workspace", settings)) as library:
        server = make_server(library, tools=EVERY, allow_write=True)
        chunks = call(server, "query_specific_file", query=ASKED, file_path="drip.md")["chunks"]
        for chunk in chunks:
            text = call(server, "fetch", id=chunk["chunk_id"])["text"]
            assert text.startswith(chunk["content"][:200])
        assert len(chunks) > 3


def read(server: MCPServer[Any], address: str) -> str:
    async def steps(client: Client) -> str:
        return str(await client.read_resource(address))

    return use(server, steps)


def test_resources_and_methods_follow_the_rule(at: tuple[str, Library]) -> None:
    rule, library = at
    server = make_server(library)
    entry = library.document("drip.md")
    for address in ("backstory://documents", f"backstory://document/{entry.document_id}"):
        assert bool(find_naming_texts([read(server, address)], [NAME])) is (rule == "keep"), address
    tools = DocumentTools()
    tools.library = library
    found = tools.query_documents(ASKED)
    assert bool(find_naming_texts([str(found["chunks"])], [NAME])) is (rule == "keep")
    window = library.workspace.tables.read("contexts").filter(uri="drip.md")["window_id"][0]
    if rule != "reject":  # the context is that of the last run
        assert not find_naming_texts([read(server, f"backstory://window/{window}")], [NAME])
        return

    async def refuse(client: Client) -> Any:
        with pytest.raises(MCPError) as refused:
            await client.read_resource(f"backstory://window/{window}")
        return refused.value.error.data

    told = use(server, refuse)
    assert told["code"] == "withheld_document"
    assert "drip.md" in told["message"]


def test_a_name_that_comes_while_a_server_is_open_is_replaced(naming: Path, tmp_path: Path) -> None:
    root = shutil.copytree(naming, tmp_path / "workspace")
    workspace = open_with(root, MEMBERS, f"{SETTINGS}privacy: {{documents: replace}}\n")
    with Library(workspace) as library:
        server = make_server(library)
        before = call(server, "fetch", id="sourdough.md")["text"]
        path = workspace.documents_dir / "sourdough.md"
        path.write_text(f"{path.read_text(encoding='utf-8')}\nThis was told by {NAME}.\n", encoding="utf-8")
        run_pipeline(open_workspace(root))
        after = call(server, "fetch", id="sourdough.md")["text"]
    assert "This was told by" in after.removeprefix(before)
    assert not find_naming_texts([after], [NAME])
