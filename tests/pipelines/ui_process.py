"""The UI of a workspace as a process, used as a browser uses it."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
JSON = {"Content-Type": "application/json"}
_PAUSE_SECONDS = 0.2


@dataclass(frozen=True)
class UiProcess:
    """A running UI.

    Attributes:
        port: Its port on 127.0.0.1.
        process: The process, which leads a group of its own.
    """

    port: int
    process: "subprocess.Popen[bytes]"

    def ask(
        self, method: str, path: str, headers: dict[str, str], body: str | None = None
    ) -> tuple[int, str]:
        """Send a request, and give the status and the text of the answer."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=300)
        try:
            connection.request(method, path, body, {"Host": f"127.0.0.1:{self.port}", **headers})
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def query(self, query: str, **variables: Any) -> dict[str, Any]:
        """Ask GraphQL."""
        asked = json.dumps({"query": query, "variables": variables})
        status, told = self.ask("POST", "/graphql", JSON, asked)
        assert status == 200, told
        answer: dict[str, Any] = json.loads(told)
        assert "errors" not in answer, told
        return dict(answer["data"])

    def kill(self) -> None:
        """End the UI, the daemon, the code server and all runs at once, as a loss of power does."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def answers(self) -> bool:
        """Say whether the webserver is up."""
        try:
            return self.ask("GET", "/server_info", {})[0] == 200
        except ConnectionRefusedError:
            return False


@contextmanager
def run_ui(root: Path, *options: str) -> Iterator[UiProcess]:
    """Run the UI of a workspace on a free port, and end it as a service manager does."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = int(probe.getsockname()[1])
    command = [sys.executable, "-m", "pipelines", "ui", "-w", str(root), "--port", str(port), *options]
    environment = {name: value for name, value in os.environ.items() if name != "DAGSTER_HOME"}
    with TemporaryDirectory() as folder:
        # A file and no pipe: one that nobody reads is full some day, and whoever writes a line into it stands still.
        said = Path(folder) / "said.txt"
        with said.open("w", encoding="utf-8") as stream:
            process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=stream, start_new_session=True
            )
        ui = UiProcess(port, process)
        try:
            address = f"http://127.0.0.1:{port}"
            wait_for(
                lambda: address in said.read_text(encoding="utf-8") or process.poll() is not None,
                "its address",
            )
            assert process.poll() is None
            wait_for(ui.answers, "the UI answers")
            yield ui
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                assert process.wait(600) == 0
                with socket.create_server(("127.0.0.1", port)):
                    pass  # nothing of it is left
        finally:
            if process.poll() is None:
                ui.kill()


def wait_for(is_so: Callable[[], bool], what: str, seconds: float = 900) -> None:
    """Ask again and again until something is so.

    Raises:
        TimeoutError: It is not so after that time.
    """
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {seconds} s in vain: {what}")
        time.sleep(_PAUSE_SECONDS)
