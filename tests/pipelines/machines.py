"""Dagster as several machines run it: a daemon and workers of Celery, which share Postgres, a broker and a bucket."""

import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import dagster as dg
import pytest
from dagster._core.execution.backfill import BULK_ACTION_TERMINAL_STATUSES
from dagster._core.storage.tags import BACKFILL_ID_TAG, WILL_RETRY_TAG
from ruamel.yaml import YAML

from backstory.base.environment import PSEUDONYM_KEY_VARIABLE, SETTINGS_FILE, WORKSPACE_VARIABLE
from pipelines.automation import JOB
from tests.bucket import Bucket
from tests.pipelines.ui_process import wait_for
from tests.postgres import PostgresServer

ROOT = Path(__file__).resolve().parents[2]
KEY = "5f" * 32
FIRST_USER = 61_000 + 10 * (os.getpid() % 400)
"""Number of the user of the first machine; nothing else on this computer belongs to these users, nor other tests."""
# The interpreter may lie in a folder of root, so that they may read everything, and write only what is theirs.
AS_USER = (
    "setpriv",
    "--clear-groups",
    "--inh-caps=+dac_read_search",
    "--ambient-caps=+dac_read_search",
    "--bounding-set=-all,+dac_read_search",
)
PLACES = ("/tmp", "/var/tmp", "/dev/shm", "/run", "/root", "/home", str(ROOT))
"""Where a program may leave files: below the folders that all may write, homes, and the code."""
BACKFILL = """mutation($params: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $params) { ... on LaunchBackfillSuccess { backfillId } }
}"""
PARTITION_SET = {
    "repositorySelector": {"repositoryName": "__repository__", "repositoryLocationName": "backstory"},
    "partitionSetName": f"{JOB}_partition_set",
}
ENDED = (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)


class Locale(NamedTuple):
    """What a machine is set to."""

    umask: int
    zone: str
    language: str


LOCALES = {
    "one": Locale(0o077, "Asia/Kathmandu", "C"),
    "two": Locale(0o002, "America/St_Johns", "tr_TR.UTF-8"),
}
USUAL = Locale(0o022, "UTC", "C.UTF-8")


@dataclass
class Machines:
    """Processes that stand for machines. Each has a user, a home, a cache and a workspace folder of its own.

    Users differ where the tests run as root. Nothing of the environment of the tests is passed on.

    Attributes:
        folder: Folder of all their folders.
        inputs: Folder of the chats and posts that each of them has.
        settings: ``backstory.yaml`` of the workspace.
        instance: ``dagster.yaml``.
        worker: The end of the command of a worker.
        shared: Environment variables that all have.
        processes: The running ones, by name; each leads a group.
    """

    folder: Path
    inputs: Path
    settings: str
    instance: str
    worker: Sequence[str]
    shared: Mapping[str, str]
    processes: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)
    _users: dict[str, int] = field(default_factory=dict)

    def place(self, name: str) -> Path:
        """Return the folder of a machine, which begins with the inputs and the two files of settings."""
        own = self.folder / name
        if not own.exists():
            for folder in ("workspace", "dagster", "tmp", "work"):
                (own / folder).mkdir(parents=True)
            for name in ("chats", "posts"):
                shutil.copytree(self.inputs / name, own / "workspace" / name)
            (own / "workspace" / SETTINGS_FILE).write_text(self.settings, encoding="utf-8")
            (own / "dagster" / "dagster.yaml").write_text(self.instance, encoding="utf-8")
        return own

    def workspace(self, name: str) -> Path:
        """Return the workspace folder of a machine."""
        return self.place(name) / "workspace"

    def environment(self, name: str) -> dict[str, str]:
        """Return the environment of the processes of a machine."""
        own, locale = self.place(name), LOCALES.get(name, USUAL)
        return {
            **self.shared,
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "HOME": str(own),
            "TMPDIR": str(own / "tmp"),
            "TZ": locale.zone,
            "LANG": locale.language,
            "BACKSTORY_CACHE_DIR": str(own / "cache"),
            "DAGSTER_HOME": str(own / "dagster"),
            WORKSPACE_VARIABLE: str(own / "workspace"),
        }

    def start_worker(self, name: str) -> None:
        """Start a worker that executes one run at a time, and wait until it takes runs."""
        broker = self.shared["BACKSTORY_BROKER"]
        said = self.place(name) / "said.txt"
        begun = said.stat().st_size if said.exists() else 0
        self._start(
            name,
            *("-m", "celery", "--app", "dagster_celery.app", "--broker", broker, "--result-backend", broker),
            *self.worker,
            *("--loglevel", "info", "--hostname", f"{name}@%h"),
        )
        wait_for(lambda: b" ready." in said.read_bytes()[begun:], f"{name} is ready")

    def start_daemon(self) -> None:
        """Start the daemon, which takes runs out of the queue, watches them, and tries lost ones again."""
        self._start("daemon", "-m", "dagster._daemon", "run", "--workspace", str(ROOT / "workspace.yaml"))

    def run(self, name: str, *words: str) -> "subprocess.Popen[bytes]":
        """Start ``backstory`` on a machine."""
        return self._start(name, "-c", "from backstory.interfaces.cli.app import main; main()", *words)

    def kill(self, name: str) -> float:
        """End a machine at once, as a loss of power does, and return the CPU seconds of its processes that ended."""
        process, before = self.processes.pop(name), _count_cpu_seconds()
        with suppress(ProcessLookupError):  # it and all that it started have ended
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return _count_cpu_seconds() - before

    def backfill(self, days: Sequence[str]) -> None:
        """Queue a backfill of every table over days, as the page of the job does."""
        asked = {"selector": PARTITION_SET, "partitionNames": list(days)}
        words = ("--workspace", str(ROOT / "workspace.yaml"), "--text", BACKFILL, "--variables")
        program = "from dagster_graphql.cli import main; main()"
        asking = self._start("asking", "-c", program, *words, json.dumps({"params": asked}), on="daemon")
        assert asking.wait() == 0, (self.place("daemon") / "said.txt").read_text(encoding="utf-8")

    def wait_until_ended(self, count: int) -> None:
        """Wait until as many runs as were asked for have ended, with all attempts at them.

        Dagster tries no run of a backfill again that it has ended. A daemon that has ended is started again, as
        ``restart: unless-stopped`` does.
        """

        def has_ended() -> bool:
            daemon = self.processes.get("daemon")
            if daemon is not None and daemon.poll() is not None:
                self.start_daemon()
            with self.connect() as instance:
                over = {
                    backfill.backfill_id
                    for backfill in instance.get_backfills()
                    if backfill.status in BULK_ACTION_TERMINAL_STATUSES
                }
                runs = [record.dagster_run for record in instance.get_run_records()]
            tried_again = {run.parent_run_id for run in runs}
            waiting = [
                run
                for run in runs
                if run.status not in ENDED
                or (
                    run.tags.get(WILL_RETRY_TAG) == "true"
                    and run.run_id not in tried_again
                    and run.tags.get(BACKFILL_ID_TAG) not in over
                )
            ]
            return not waiting and sum(run.parent_run_id is None for run in runs) >= count

        wait_for(has_ended, "all runs have ended", seconds=3600)

    def list_failed(self) -> dict[str, list[str]]:
        """Say why runs failed that have no later attempt, by id."""
        runs = [record.dagster_run for record in self.runs()]
        last = {run.root_run_id or run.run_id: run for run in reversed(runs)}
        failed = [run.run_id for run in last.values() if run.status is not dg.DagsterRunStatus.SUCCESS]
        with self.connect() as instance:
            return {
                run_id: [
                    entry.user_message or entry.get_dagster_event().message or ""
                    for entry in instance.all_logs(run_id, of_type={dg.DagsterEventType.STEP_FAILURE})
                ]
                for run_id in failed
            }

    def runs(self) -> list[dg.RunRecord]:
        """List the runs, the latest first."""
        with self.connect() as instance:
            return list(instance.get_run_records())

    def list_times(self) -> list[tuple[float, float]]:
        """List when each run was taken out of the queue and when it ended, in order."""
        with self.connect() as instance:
            stats = [
                instance.get_run_stats(record.dagster_run.run_id) for record in instance.get_run_records()
            ]
        return sorted((run.launch_time or 0, run.end_time or 0) for run in stats)

    def connect(self) -> dg.DagsterInstance:
        """Open Dagster's tables."""
        return dg.DagsterInstance.from_config(str(self.place("reader") / "dagster"))

    def find_strays(self) -> list[str]:
        """Find the files that users of machines have left outside of the folders of their machines."""
        if not self._users:
            return []
        users = [word for user in self._users.values() for word in ("-o", "-uid", str(user))][1:]
        command = ["find", *PLACES, "-path", str(self.folder), "-prune", "-o", "(", *users, ")", "-print"]
        outside = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
        inside = [
            str(path)
            for name, user in self._users.items()
            for path in (self.folder / name).rglob("*")
            if path.stat(follow_symlinks=False).st_uid != user
        ]
        return outside + inside

    def _start(self, name: str, *words: str, on: str = "") -> "subprocess.Popen[bytes]":
        """Start a process of Python on a machine, by default on that of its name, as the user of the machine."""
        machine = on or name
        own = self.place(machine)
        (own / "said.txt").touch()
        as_user: list[str] = []
        if os.geteuid() == 0:
            if machine not in self._users:
                self._users[machine] = FIRST_USER + len(self._users)
                own.chmod(0o700)
                for path in (own, *own.rglob("*")):
                    os.chown(path, self._users[machine], self._users[machine])
            as_user = [*AS_USER, f"--reuid={self._users[machine]}", f"--regid={self._users[machine]}"]
        with (own / "said.txt").open("ab") as said:
            self.processes[name] = subprocess.Popen(
                [*as_user, sys.executable, *words],
                cwd=own / "work",
                env=self.environment(machine),
                umask=LOCALES.get(machine, USUAL).umask,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
        return self.processes[name]


def _count_cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


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
def share(
    folder: Path, inputs: Path, settings: str, server: PostgresServer, bucket: Bucket
) -> Iterator[Machines]:
    """Prepare machines that share a workspace; none runs yet. All are ended at the end.

    This process can then use what they share.

    Args:
        folder: An empty folder that everyone may enter.
        inputs: Folder of the chats and posts that each machine has.
        settings: Settings of the workspace, without those of its storage.
        server: The server of the databases of Dagster and of the workspace.
        bucket: The bucket of the workspace's files.
    """
    if shutil.which("redis-server") is None:
        pytest.skip("Redis is not installed: apt-get install redis-server")
    with server.connect() as connection:
        connection.execute("DROP DATABASE IF EXISTS dagster WITH (FORCE)")
        connection.execute("CREATE DATABASE dagster")
    deploy = ROOT / "deploy" / "workers"
    instance = (deploy / "dagster.yaml").read_text(encoding="utf-8")
    composed = YAML(typ="safe").load(deploy / "compose.yaml")["services"]["worker"]
    words = [word.replace("backstory_pipelines.", "pipelines.") for word in composed["command"]]
    variables = composed["environment"]
    schema = server.make_address().rpartition("%3D")[2]
    database = f"{server.loopback_address}?options=-csearch_path%3D{schema}"
    storage = f"storage: {{database: '{database}', files: '{bucket.root}/{schema}'}}\n"
    with run_broker(folder / "broker") as broker, pytest.MonkeyPatch.context() as environment:
        shared = {
            **{name: value for name, value in variables.items() if name.startswith("DAGSTER_")},
            **bucket.access,
            "BACKSTORY_BROKER": broker,
            "DAGSTER_POSTGRES_URL": f"postgresql+psycopg2://backstory:right@127.0.0.1:{server.port}/dagster",
            "PGPASSWORD": "right",
            PSEUDONYM_KEY_VARIABLE: KEY,
        }
        for name, value in shared.items():
            environment.setenv(name, value)
        machines = Machines(
            folder,
            inputs,
            settings + storage,
            instance.replace("backstory_pipelines.", "pipelines."),
            words[words.index("worker") :],
            shared,
        )
        try:
            yield machines
        finally:
            for name in list(machines.processes):
                machines.kill(name)
