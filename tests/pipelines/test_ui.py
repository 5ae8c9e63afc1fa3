"""The UI as a process: whom its webserver answers, and what it shows while the settings cannot be read."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.pipelines.waiting import wait_for
from tests.workspaces import SETTINGS, write_workspace

ROOT = Path(__file__).resolve().parents[2]
QUERY = json.dumps({"query": "{ version }"})
GRAPHQL = {"Content-Type": "application/json"}


def ask(port: int, method: str, path: str, headers: dict[str, str], body: str | None = None) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, body, {"Host": f"127.0.0.1:{port}", **headers})
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Path]]:
    """Run the UI of a workspace on a free port."""
    root = write_workspace(tmp_path_factory.mktemp("ui") / "workspace").root
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = int(probe.getsockname()[1])
    command = [sys.executable, "-m", "pipelines", "ui", "-w", str(root), "--port", str(port)]
    environment = {name: value for name, value in os.environ.items() if name != "DAGSTER_HOME"}
    process = subprocess.Popen(
        [*command, "--allow-host", "stories.example"],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        assert f"http://127.0.0.1:{port}" in process.stdout.readline()
        wait_for(lambda: _answers(port), "the UI answers", seconds=60)
        yield port, root
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM
        with socket.create_server(("127.0.0.1", port)):
            pass
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.stdout.close()


def _answers(port: int) -> bool:
    try:
        return ask(port, "GET", "/server_info", {})[0] == 200
    except ConnectionRefusedError:
        return False


def test_only_own_pages_and_programs_are_answered(ui: tuple[int, Path]) -> None:
    port, _ = ui
    own = f"http://127.0.0.1:{port}"
    for host in (f"localhost:{port}", f"LOCALHOST:{port}", f"[::1]:{port}", "stories.example", "stories.example:8443"):
        assert ask(port, "GET", "/server_info", {"Host": host})[0] == 200
    for host in ("rebound.example", f"rebound.example:{port}", "127.0.0.1", f"127.0.0.1:{port + 1}", ""):
        status, told = ask(port, "GET", "/server_info", {"Host": host})
        assert status == 400
        assert "--allow-host" in told
    page = {"Sec-Fetch-Site": "same-origin", "Origin": own, **GRAPHQL}
    for headers in (GRAPHQL, page, {**GRAPHQL, "Host": "stories.example", "Origin": "https://stories.example"}):
        status, told = ask(port, "POST", "/graphql", headers, QUERY)
        assert status == 200
        assert "version" in json.loads(told)["data"]
    for foreign in (
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": f"http://127.0.0.1:{port + 1}"},
        {"Sec-Fetch-Site": "cross-site"},
    ):
        assert ask(port, "POST", "/graphql", {**GRAPHQL, **foreign}, QUERY)[0] == 403
        assert ask(port, "POST", "/report_asset_materialization/messages", foreign)[0] == 403
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert ask(port, "GET", "/runs", link)[0] == 200
    assert ask(port, "GET", "/graphql?query={version}", link)[0] == 403


def test_a_websocket_is_opened_for_own_pages_alone(ui: tuple[int, Path]) -> None:
    address = f"ws://127.0.0.1:{ui[0]}/graphql"
    with connect(address, origin=f"http://127.0.0.1:{ui[0]}", subprotocols=["graphql-ws"]):  # type: ignore[arg-type, list-item]
        pass
    with pytest.raises(InvalidStatus) as refused:
        connect(address, origin="http://evil.example", subprotocols=["graphql-ws"])  # type: ignore[arg-type, list-item]
    assert refused.value.response.status_code == 403


def test_a_mistake_in_the_settings_is_an_asset_until_it_is_corrected(ui: tuple[int, Path]) -> None:
    port, root = ui
    reload = 'mutation { reloadRepositoryLocation(repositoryLocationName: "backstory") { __typename } }'
    query = "{ assetNodes { assetKey { path } description } }"

    def list_assets() -> dict[str, str]:
        for asked in (reload, query):
            _, told = ask(port, "POST", "/graphql", GRAPHQL, json.dumps({"query": asked}))
        return {node["assetKey"]["path"][-1]: node["description"] for node in json.loads(told)["data"]["assetNodes"]}

    (root / "backstory.yaml").write_text(SETTINGS.replace("top_k", "topk"), encoding="utf-8")
    [(name, description)] = list_assets().items()
    assert name == "line_5_unknown_setting_rag_topk"
    assert "did you mean top_k?" in description
    (root / "backstory.yaml").write_text(SETTINGS, encoding="utf-8")
    assert "window_contexts" in list_assets()
