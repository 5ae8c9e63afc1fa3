"""Dagster as several machines run it: a daemon and workers of Celery, which share Postgres, a broker and a bucket."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import dagster as dg
import pytest

from backstory.base.environment import PSEUDONYM_KEY_VARIABLE, WORKSPACE_VARIABLE
from pipelines.definitions import JOB
from pipelines.run_plan import tag_range
from tests.bucket import Bucket
from tests.pipelines.ui_process import wait_for
from tests.postgres import PostgresServer

ROOT = Path(__file__).resolve().parents[2]
KEY = "5f" * 32


@dataclass
class Machines:
    """Processes that stand for machines. Each has a home, a cache and a workspace folder of its own.

    Attributes:
        folder: Folder of all their files.
        settings: ``backstory.yaml`` of the workspace.
        shared: Environment variables that all have.
        processes: The running ones, by name; each leads a group.
    """

    folder: Path
    settings: str
    shared: Mapping[str, str]
    processes: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    @property
    def home(self) -> Path:
        """Folder of the instance settings of Dagster, which every machine has alike."""
        return self.folder / "dagster"

    def workspace(self, name: str) -> Path:
        """Return the workspace folder of a machine, which begins with the settings alone."""
        root = self.folder / name / "workspace"
        if not root.exists():
            root.mkdir(parents=True)
            (root / "backstory.yaml").write_text(self.settings, encoding="utf-8")
        return root

    def environment(self, name: str) -> dict[str, str]:
        """Return the environment of the processes of a machine."""
        own = self.folder / name
        return {
            **os.environ,
            **self.shared,
            "HOME": str(own),
            "BACKSTORY_CACHE_DIR": str(own / "cache"),
            WORKSPACE_VARIABLE: str(self.workspace(name)),
        }

    def start_worker(self, name: str) -> None:
        """Start a worker that executes one run at a time, and wait until it takes runs."""
        broker = self.shared["BACKSTORY_BROKER"]
        self._start(
            name,
            "celery",
            *("--app", "dagster_celery.app", "--broker", broker, "--result-backend", broker),
            *("worker", "--loglevel", "info", "--hostname", f"{name}@%h"),
            *("--concurrency", "1", "--max-tasks-per-child", "1"),
        )
        wait_for(lambda: b" ready." in (self.folder / name / "said.txt").read_bytes(), f"{name} is ready")

    def start_daemon(self) -> None:
        """Start the daemon, which takes runs out of the queue, watches them, and tries lost ones again."""
        self._start("daemon", "dagster._daemon", "run", "--workspace", str(ROOT / "workspace.yaml"))

    def kill(self, name: str) -> None:
        """End a machine at once, as a loss of power does."""
        process = self.processes.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def launch(self, first: str, last: str) -> None:
        """Queue a run of Dagster over a range of days."""
        command = [
            *(sys.executable, "-m", "dagster", "job", "launch", "--job", JOB),
            *("--workspace", str(ROOT / "workspace.yaml"), "--tags", json.dumps(tag_range(first, last))),
        ]
        environment = self.environment("daemon")
        subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)

    def is_executing(self, name: str) -> bool:
        """Return whether a worker has begun to make tables in its folder."""
        return (self.workspace(name) / "data" / "messages").is_dir()

    def runs(self) -> list[dg.RunRecord]:
        """List the runs, the latest first."""
        with dg.DagsterInstance.from_config(str(self.home)) as instance:
            return list(instance.get_run_records())

    def _start(self, name: str, module: str, *arguments: str) -> None:
        environment = self.environment(name)
        with (self.folder / name / "said.txt").open("ab") as said:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                cwd=ROOT,
                env=environment,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )


@contextmanager
def run_broker(folder: Path) -> Iterator[str]:
    """Run a Redis server on a free port, and give its address."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = int(probe.getsockname()[1])
    folder.mkdir()
    command = ["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder), "--save", ""]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)

    def answers() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    try:
        wait_for(answers, "the broker answers")
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.terminate()
        process.wait()


@contextmanager
def share(folder: Path, settings: str, server: PostgresServer, bucket: Bucket) -> Iterator[Machines]:
    """Prepare machines that share a workspace; none runs yet. All are ended at the end.

    Args:
        folder: An empty folder.
        settings: Settings of the workspace, without those of its storage.
        server: The server of the databases of Dagster and of the workspace.
        bucket: The bucket of the workspace's files.
    """
    if shutil.which("redis-server") is None:
        pytest.skip("Redis is not installed: apt-get install redis-server")
    with server.connect() as connection:
        connection.execute("DROP DATABASE IF EXISTS dagster WITH (FORCE)")
        connection.execute("CREATE DATABASE dagster")
    home = folder / "dagster"
    home.mkdir(parents=True)
    text = (ROOT / "deploy" / "workers" / "dagster.yaml").read_text(encoding="utf-8")
    (home / "dagster.yaml").write_text(text.replace("backstory_pipelines.", "pipelines."), encoding="utf-8")
    storage = f"storage: {{database: '{server.make_address()}', files: '{bucket.root}/group'}}\n"
    with run_broker(folder / "broker") as broker:
        dagster = f"postgresql+psycopg2://backstory@/dagster?host={server.folder}&port={server.port}"
        shared = {
            "BACKSTORY_BROKER": broker,
            "DAGSTER_HOME": str(home),
            "DAGSTER_POSTGRES_URL": dagster,
            PSEUDONYM_KEY_VARIABLE: KEY,
        }
        machines = Machines(folder, settings + storage, shared)
        try:
            yield machines
        finally:
            for name in list(machines.processes):
                machines.kill(name)
