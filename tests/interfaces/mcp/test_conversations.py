"""The tools over conversations: what covers them, what nothing covers, and why."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from mcp import Client, MCPError

from backstory.base.errors import WorkspaceError
from backstory.interfaces.library.library import Library
from backstory.interfaces.mcp.server import LibraryServer, make_server
from backstory.operations.inspection.windows import find_window
from backstory.pipeline.stages.writer_material import read_material
from backstory.pipeline.workspace import Workspace, open_workspace
from tests.errors import raises
from tests.interfaces.mcp.calling import READERS, call, fail, use
from tests.workspaces import build_table, copy_made

TEXT = """\
The night train to Lisbon needs a seat reservation, and somebody should book the reservation early, since the night \
train is full in summer and the seats to Lisbon are gone by spring.

Gluons, quarks, proton, neutron, muon, lepton, fermion; lattice chromodynamics, perturbation, asymptotic confinement, \
colour charge, spin, mass, energy; symmetry breaking, colour confinement.
"""


@pytest.fixture(scope="module")
def workspace(made_once: object, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """The small workspace after its first run, which no test changes."""
    return copy_made(made_once, tmp_path_factory.mktemp("mcp") / "workspace")  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def server(workspace: Workspace) -> LibraryServer:
    return make_server(Library(workspace), tools=READERS)


def test_a_text_is_divided_and_what_nothing_serves_is_told(server: LibraryServer) -> None:
    covered = call(server, "cover_conversation", text=TEXT)
    assert covered["part_count"] == len(covered["parts"]) > 1
    by_state = {
        state: {part["part"] for part in covered["parts"] if part["state"] == state}
        for state in ("served", "beyond_limit", "uncovered", "not_asked")
    }
    assert {part["part"] for part in covered["parts"] if part["citations"]} == by_state["served"]
    assert {part["part"] for part in covered["uncovered"]} == by_state["uncovered"]
    assert set.union(*by_state.values()) == set(range(1, covered["part_count"] + 1))
    [train] = [document for document in covered["documents"] if document["uri"] == "night-train.md"]
    assert 1 in train["serves"]
    assert "Night train" in covered["context"]
    assert (covered["window_id"], covered["cut"]) == (None, None)


def test_a_chat_is_divided_at_messages_in_whichever_way_it_is_given(server: LibraryServer) -> None:
    rows = [
        {"author": author, "time": f"2024-05-01T10:0{minute}:00", "text": text}
        for minute, (author, text) in enumerate(
            [
                ("Ana", "Does the night train to Lisbon need a seat reservation in summer?"),
                ("Bob", "Yes: book the reservation early, since the seats are gone by spring."),
                ("Ana", "And who knows about gluons, quarks and lattice chromodynamics here?"),
            ]
        )
    ]
    given = [
        rows,
        [row["text"] for row in rows],
        json.dumps(rows),
        json.dumps({"messages": rows}),
        "\n\n".join(f"{row['author']}: {row['text']}" for row in rows),
    ]
    first, *others = [call(server, "cover_conversation", text=text) for text in given]
    assert first["parts"]
    assert others == [first] * 4
    for wrong, code in (([5], "input"), ([{"author": "Ana"}], "absent_text"), ([], "blank_text")):
        assert fail(server, "cover_conversation", text=wrong)["code"] == code


def test_a_window_has_the_context_that_a_run_made(server: LibraryServer, workspace: Workspace) -> None:
    contexts = workspace.tables.read("contexts").sort("window_id", "rank")
    for window_id in workspace.tables.read("windows")["window_id"]:
        covered = call(server, "cover_conversation", window_id=window_id)
        mine = contexts.filter(pl.col("window_id") == window_id)
        assert [each["document_id"] for each in covered["documents"]] == mine["document_id"].unique(
            maintain_order=True
        ).to_list()
        summary = workspace.tables.read("window_contexts").filter(window_id=window_id).row(0, named=True)
        assert (covered["verdict"], covered["recommendation"]) == (
            summary["verdict"],
            summary["recommendation"],
        )
        assert covered["index_version"] == summary["index_version"]
        assert covered["part_count"] == summary["query_chunk_count"]


def test_what_covers_is_restricted_by_number_time_and_filters(server: LibraryServer) -> None:
    assert len(call(server, "cover_conversation", text=TEXT, k=1)["documents"]) == 1
    early = call(server, "cover_conversation", text=TEXT, as_of="2024-07-15T00:00:00Z")
    assert all(each["date"] < "2024-07-15" for each in early["documents"])
    only = call(server, "cover_conversation", window_id="latest", filters={"paths": ["sourdough.md"]})
    assert {each["uri"] for each in only["documents"]} <= {"sourdough.md"}
    unmatched = fail(server, "cover_conversation", text=TEXT, filters={"paths": ["absent/*"]})
    assert "absent/*" in unmatched["message"]
    unknown = fail(server, "cover_conversation", text=TEXT, filters={"kinds": ["absent"]})
    assert (unknown["code"], "'absent'" in unknown["message"]) == ("unknown_value", True)
    unknown = fail(server, "cover_conversation", text=TEXT, filters={"metadata": {"absent": 1}})
    assert (unknown["code"], "'absent'" in unknown["message"]) == ("unknown_value", True)
    assert fail(server, "cover_conversation", text=TEXT, window_id="latest")["code"] == "input"
    assert (
        fail(server, "cover_conversation", text=TEXT, as_of="2024-07-15T00:00:00")["code"] == "no_time_zone"
    )
    assert fail(server, "cover_conversation", window_id="absent")["code"] == "unknown_window"


def test_a_decision_is_explained(server: LibraryServer, workspace: Workspace) -> None:
    windows = call(server, "list_windows")
    latest = windows["windows"][0]
    assert windows["count"] == len(windows["windows"])
    explained = call(server, "explain", window_id=latest["window_id"])
    decisions = workspace.tables.read("decisions").filter(window_id=latest["window_id"])
    assert {each["document_id"] for each in explained["documents"]} == set(decisions["document_id"])
    kept = {each["document_id"] for each in explained["documents"] if each["kept"]}
    assert kept == set(decisions.filter("kept")["document_id"])
    assert all(each["reason"] and each["asked_by"] for each in explained["documents"])
    one = call(server, "explain", window_id="latest", document="night-train.md")["documents"]
    assert one == [each for each in explained["documents"] if each["uri"] == "night-train.md"]
    [later] = call(server, "explain", window_id="latest", document="later.md")["documents"]
    assert (later["kept"], later["cause"], later["hits"]) == (False, "published_later", 0)


def test_windows_and_contexts_are_resources_and_prompts(server: LibraryServer, workspace: Workspace) -> None:
    summaries = workspace.tables.read("window_contexts")
    cited = dict(summaries.select("window_id", "cited_text").iter_rows())

    async def steps(client: Client) -> None:
        for window_id, text in cited.items():
            [content] = (await client.read_resource(f"backstory://window/{window_id}")).contents
            assert content.text == text  # type: ignore[union-attr]
        [listed] = (await client.read_resource("backstory://windows")).contents
        assert all(window_id in listed.text for window_id in cited)  # type: ignore[union-attr]
        written = await client.get_prompt("write_post", {"window": "latest"})
        texts = [message.content.text for message in written.messages]  # type: ignore[union-attr]
        assert any("night train to Lisbon needs a seat reservation" in text for text in texts)
        assert "Ada Lind" not in "".join(texts)
        with pytest.raises(Exception, match="no window has an id"):
            await client.get_prompt("write_post", {"window": "absent"})

    use(server, steps)


def test_a_window_without_a_context_has_no_prompt_yet(workspace: Workspace, tmp_path: Path) -> None:
    shutil.copytree(workspace.root, tmp_path / "running")
    running = open_workspace(tmp_path / "running")
    with (running.chats_dir / "garden.txt").open("a", encoding="utf-8") as chat:
        chat.write("15/03/2025, 23:50 - Ada Lind: The frost is back, cover the tomatoes tonight\n")
    for table in ("messages", "windows"):
        build_table(running, table, ["2025-03-15"])
    found = find_window(running, "latest")
    with raises(WorkspaceError, "no_context"):
        read_material(running, found["partition"])

    async def steps(client: Client) -> None:
        with pytest.raises(MCPError, match="no context yet"):
            await client.get_prompt("write_post", {"window": "latest"})

    use(make_server(Library(running)), steps)


def test_a_context_from_before_the_tenant_was_set_is_not_shown(workspace: Workspace) -> None:
    rag = workspace.settings.rag.model_copy(update={"tenant": "ana"})
    owned = replace(workspace, settings=workspace.settings.model_copy(update={"rag": rag}))
    server = make_server(Library(owned), tools=READERS)

    async def steps(client: Client) -> None:
        for ask in (
            lambda: client.read_resource("backstory://window/latest"),
            lambda: client.get_prompt("write_post", {"window": "latest"}),
        ):
            with pytest.raises(MCPError, match="another tenant") as raised:
                await ask()
            assert raised.value.data["hint"].startswith("run `backstory run`")

    use(server, steps)
    told = call(server, "explain", window_id="latest")["documents"]
    assert told
    assert {each["uri"] for each in told} == {""}


def test_a_workspace_without_chats_says_so(make_library: Callable[..., Library]) -> None:
    library = make_library()
    library.index()
    assert "windows" in fail(make_server(library, tools="explain"), "explain", window_id="latest")["message"]
    assert open_workspace(library.workspace.root).root == library.workspace.root
