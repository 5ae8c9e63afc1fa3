"""The UI as a process: whom its webserver answers, and what it shows while the settings cannot be read."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from dagster._core.workspace.load_target import WorkspaceFileTarget
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin, Subprotocol

from backstory.base.errors import InputError
from backstory.pipeline.workspace import open_workspace
from pipelines.ui import start_ui
from tests.errors import raises
from tests.pipelines.test_definitions import SNAPSHOT
from tests.pipelines.ui_process import JSON, ROOT, UiProcess, run_ui
from tests.workspaces import SETTINGS, write_workspace

NEWSLETTER = ROOT / "examples" / "newsletter"
QUERY = json.dumps({"query": "{ version }"})
LOCATIONS = """{ workspaceOrError { ... on Workspace { locationEntries { name locationOrLoadError {
    __typename ... on PythonError { message } } } } } }"""
ASSETS = """{ assetNodes { assetKey { path } isMaterializable dependencyKeys { path } dependedByKeys { path }
    repository { location { name } } } }"""


@pytest.fixture(scope="module")
def workspace_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_workspace(tmp_path_factory.mktemp("ui") / "workspace").root


@pytest.fixture(scope="module")
def ui(workspace_root: Path) -> Iterator[UiProcess]:
    with run_ui(workspace_root, "--allow-host", "stories.example") as running:
        yield running


def test_a_file_of_locations_that_is_not_there_is_named(workspace_root: Path) -> None:
    with raises(InputError, "absent_file", workspace_root / "absent.yaml"):
        start_ui(open_workspace(workspace_root), 0, locations=workspace_root / "absent.yaml")


def test_the_file_of_the_newsletter_names_both_locations() -> None:
    [own, newsletter] = WorkspaceFileTarget([str(NEWSLETTER / "workspace.yaml")]).create_origins()
    assert (own.location_name, newsletter.location_name) == ("backstory", "newsletter")
    assert newsletter.loadable_target_origin.python_file == str(NEWSLETTER / "newsletter.py")


def test_only_own_pages_and_programs_are_answered(ui: UiProcess) -> None:
    port, ask = ui.port, ui.ask
    own = f"http://127.0.0.1:{port}"
    for host in (
        f"localhost:{port}",
        f"LOCALHOST:{port}",
        f"[::1]:{port}",
        "stories.example",
        "stories.example:8443",
    ):
        assert ask("GET", "/server_info", {"Host": host})[0] == 200
    for host in ("rebound.example", f"rebound.example:{port}", "127.0.0.1", f"127.0.0.1:{port + 1}", ""):
        status, told = ask("GET", "/server_info", {"Host": host})
        assert status == 400
        assert "--allow-host" in told
    page = {"Sec-Fetch-Site": "same-origin", "Origin": own, **JSON}
    for headers in (JSON, page, {**JSON, "Host": "stories.example", "Origin": "https://stories.example"}):
        status, told = ask("POST", "/graphql", headers, QUERY)
        assert status == 200
        assert "version" in json.loads(told)["data"]
    for foreign in (
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": f"http://127.0.0.1:{port + 1}"},
        {"Sec-Fetch-Site": "cross-site"},
    ):
        assert ask("POST", "/graphql", {**JSON, **foreign}, QUERY)[0] == 403
        assert ask("POST", "/report_asset_materialization/messages", foreign)[0] == 403
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert ask("GET", "/runs", link)[0] == 200
    assert ask("GET", "/graphql?query={version}", link)[0] == 403


def test_a_websocket_is_opened_for_own_pages_alone(ui: UiProcess) -> None:
    address, protocols = f"ws://127.0.0.1:{ui.port}/graphql", [Subprotocol("graphql-ws")]
    with connect(address, origin=Origin(f"http://127.0.0.1:{ui.port}"), subprotocols=protocols):
        pass
    with pytest.raises(InvalidStatus) as refused:
        connect(address, origin=Origin("http://evil.example"), subprotocols=protocols)
    assert refused.value.response.status_code == 403


def test_the_assets_of_the_snapshot_are_served(ui: UiProcess) -> None:
    nodes = ui.query("{ assetNodes { assetKey { path } groupName } }")["assetNodes"]
    served = {node["assetKey"]["path"][0]: node["groupName"] for node in nodes}
    expected = json.loads(SNAPSHOT.read_text(encoding="utf-8"))["assets"]
    assert served == {name: facts["group"] for name, facts in expected.items()}


@pytest.mark.long
def test_a_mistake_in_the_settings_is_an_error_of_the_location_until_it_is_corrected(
    ui: UiProcess, workspace_root: Path
) -> None:
    def reload() -> dict[str, str]:
        ui.query('mutation { reloadRepositoryLocation(repositoryLocationName: "backstory") { __typename } }')
        error = "locationOrLoadError { __typename ... on PythonError { message errorChain { error { message } } } }"
        found = ui.query(f"{{ workspaceOrError {{ ... on Workspace {{ locationEntries {{ {error} }} }} }} }}")
        [entry] = found["workspaceOrError"]["locationEntries"]
        return {"kind": entry["locationOrLoadError"]["__typename"], "told": str(entry)}

    settings = workspace_root / "backstory.yaml"
    settings.write_text(SETTINGS.replace("top_k", "topk"), encoding="utf-8")
    loaded = reload()
    settings.write_text(SETTINGS, encoding="utf-8")
    assert loaded["kind"] == "PythonError"
    assert "rag.topk: unknown setting" in loaded["told"]
    assert reload()["kind"] == "RepositoryLocation"


@pytest.mark.long
def test_both_code_locations_load_and_the_newsletter_depends_on_the_tables(
    workspace_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEWSLETTER_FOLDER", str(tmp_path / "letters"))
    with run_ui(workspace_root, "--locations", str(NEWSLETTER / "workspace.yaml")) as ui:
        entries = ui.query(LOCATIONS)["workspaceOrError"]["locationEntries"]
        assert {entry["name"]: entry["locationOrLoadError"]["__typename"] for entry in entries} == {
            "backstory": "RepositoryLocation",
            "newsletter": "RepositoryLocation",
        }
        nodes = {node["assetKey"]["path"][-1]: node for node in ui.query(ASSETS)["assetNodes"]}
        letter = nodes["newsletter"]
        assert letter["repository"]["location"]["name"] == "newsletter"
        assert {key["path"][-1] for key in letter["dependencyKeys"]} == {"window_contexts", "posts"}
        for table in ("window_contexts", "posts"):
            upstream = nodes[table]
            assert upstream["repository"]["location"]["name"] == "backstory"
            assert upstream["isMaterializable"]
            assert letter["assetKey"] in upstream["dependedByKeys"]
